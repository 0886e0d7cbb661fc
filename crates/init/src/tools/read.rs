//! `read`: text, a part of a long text, a picture, a document.

use std::{
    fs::File,
    io::{BufRead, BufReader, Read as _},
    path::Path,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use outlast_media::{DOCUMENT_BYTES, Format, IMAGE_BYTES, check};

use super::paths::{Place, Roots, Want, resolve};
use crate::{
    frame::{Data, Part},
    input::Fields,
};

/// The most bytes of text in one call.
pub(super) const TEXT_BYTES: u64 = 256 * 1024;

/// Runs the tool.
pub(super) fn run(input: &str, roots: &Roots) -> Result<Part, String> {
    let mut fields = Fields::parse("read", input)?;
    let given = fields.path("file_path")?;
    let range = fields.pair("view_range")?;
    let place = resolve("read", &given, Want::Read, roots)?;
    let (file, size) = place.open_regular()?;
    match (format(&place.real()), range) {
        (Some(_), Some(_)) => {
            Err("read: view_range is not supported for image and PDF files".to_owned())
        }
        (Some(format), None) => block(file, size, format, &given, &place),
        (None, Some(range)) => lines(file, range, &given, &place),
        (None, None) => whole(file, size, &given, &place),
    }
}

/// Returns the format that a file which is not read as text should have.
fn format(path: &Path) -> Option<Format> {
    let extension = path.extension()?.to_str()?.to_ascii_lowercase();
    Some(match extension.as_str() {
        "png" => Format::Png,
        "jpg" | "jpeg" => Format::Jpeg,
        "gif" => Format::Gif,
        "webp" => Format::Webp,
        "pdf" => Format::Pdf,
        _ => return None,
    })
}

/// Reads all bytes, but not more than `limit`, whatever the size was a moment ago.
fn take(file: File, limit: u64, place: &Place<'_>) -> Result<Option<Vec<u8>>, String> {
    let mut bytes = Vec::new();
    file.take(limit + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| place.says(&error))?;
    Ok((bytes.len() as u64 <= limit).then_some(bytes))
}

/// Reads a picture or document.
fn block(
    file: File,
    size: u64,
    format: Format,
    given: &str,
    place: &Place<'_>,
) -> Result<Part, String> {
    let limit = if format.is_image() {
        IMAGE_BYTES
    } else {
        DOCUMENT_BYTES
    };
    let too_large = || {
        format!("read: {given} is {size} bytes, exceeds {limit}-byte limit for image and PDF files")
    };
    let bytes = take(file, limit, place)?.ok_or_else(too_large)?;
    check(format, &bytes).map_err(|unfit| format!("read: {given} {unfit}"))?;
    let data = Data {
        media_type: format.media_type().to_owned(),
        data: STANDARD.encode(bytes),
    };
    Ok(if format.is_image() {
        Part::Image(data)
    } else {
        Part::Document(data)
    })
}

/// Reads a whole text.
fn whole(file: File, size: u64, given: &str, place: &Place<'_>) -> Result<Part, String> {
    let bytes = take(file, TEXT_BYTES, place)?.ok_or_else(|| {
        format!(
            "read: {given} is {size} bytes, exceeds {TEXT_BYTES}-byte limit; \
             use view_range to read a part of it, such as [1, 500]"
        )
    })?;
    utf8(bytes, given)
}

/// Reads some lines, with memory for these lines only.
fn lines(
    file: File,
    [first, last]: [i64; 2],
    given: &str,
    place: &Place<'_>,
) -> Result<Part, String> {
    if last > 0 && last < first {
        return Err(format!(
            "read: view_range ends before it begins: [{first}, {last}]"
        ));
    }
    let mut reader = BufReader::with_capacity(64 * 1024, file);
    let mut kept = Vec::new();
    let mut line = 1;
    while last <= 0 || line <= last {
        let wanted = line >= first;
        let end = next_line(&mut reader, wanted.then_some(&mut kept))
            .map_err(|error| place.says(&error))?;
        if kept.len() as u64 > TEXT_BYTES {
            return Err(format!(
                "read: lines {first} to {last} of {given} exceed {TEXT_BYTES}-byte limit; \
                 choose a smaller view_range"
            ));
        }
        if end {
            return utf8(kept, given);
        }
        line += 1;
    }
    // What ends the last line asked for is not part of it.
    if kept.last() == Some(&b'\n') {
        kept.pop();
    }
    utf8(kept, given)
}

/// Goes past one line, and keeps it if wanted, up to a little more than may be shown. Returns
/// whether the file ended.
fn next_line(reader: &mut impl BufRead, mut keep: Option<&mut Vec<u8>>) -> std::io::Result<bool> {
    loop {
        let piece = reader.fill_buf()?;
        if piece.is_empty() {
            return Ok(true);
        }
        let newline = piece.iter().position(|byte| *byte == b'\n');
        let length = newline.map_or(piece.len(), |at| at + 1);
        if let Some(kept) = keep.as_deref_mut() {
            kept.extend_from_slice(piece.get(..length).unwrap_or_default());
        }
        let full = keep
            .as_ref()
            .is_some_and(|kept| kept.len() as u64 > TEXT_BYTES);
        reader.consume(length);
        if newline.is_some() || full {
            return Ok(false);
        }
    }
}

/// Checks that bytes are text.
fn utf8(bytes: Vec<u8>, given: &str) -> Result<Part, String> {
    String::from_utf8(bytes).map(Part::Text).map_err(|_| {
        format!(
            "read: {given}: not valid UTF-8 text (other files are read only as image or PDF, by \
             their extension)"
        )
    })
}
