//! Rules for content blocks that a client sends.
//!
//! What the Messages API would refuse is refused here: a block that is accepted stays in the
//! conversation, and every later model request would fail on it.

use base64::{Engine as _, engine::general_purpose::STANDARD};

use super::{Block, Citations, Source, TextBlock, inline};
use crate::id::FileId;
use crate::read::{At, Object};
use crate::words::words;
use crate::{ErrorCode, Problem, limits};

const IMAGE_TYPES: &[(&str, &str)] = &[
    ("image/jpeg", "image/jpeg"),
    ("image/png", "image/png"),
    ("image/gif", "image/gif"),
    ("image/webp", "image/webp"),
];

words! {
    /// The kinds of block that a result may have.
    enum Kind {
        Text = "text",
        Image = "image",
        Document = "document",
        SearchResult = "search_result",
    }
}

const MESSAGE: &[(&str, Kind)] = &[
    ("text", Kind::Text),
    ("image", Kind::Image),
    ("document", Kind::Document),
];

/// Whether a text of white space alone passes.
#[derive(Clone, Copy)]
enum Blank {
    /// In results: a tool may print a line feed and nothing else.
    Allowed,
    /// In messages.
    Refused,
}

/// Reads the blocks of a `user.message`: at least one.
pub(crate) fn message(at: &At<'_>) -> Result<Vec<Block>, Problem> {
    at.items(1..=limits::BLOCKS)?
        .iter()
        .map(|at| block(at, MESSAGE, Blank::Refused))
        .collect()
}

/// Reads the blocks of a tool result: possibly none.
pub(crate) fn result(at: &At<'_>) -> Result<Vec<Block>, Problem> {
    at.items(0..=limits::BLOCKS)?
        .iter()
        .map(|at| block(at, Kind::TABLE, Blank::Allowed))
        .collect()
}

/// Reads the blocks of a `system.message`: text alone, at least one.
pub(crate) fn system(at: &At<'_>) -> Result<Vec<TextBlock>, Problem> {
    at.items(1..=limits::BLOCKS)?
        .iter()
        .map(|at| text_block(at, Blank::Refused))
        .collect()
}

fn block(at: &At<'_>, allowed: &[(&str, Kind)], blank: Blank) -> Result<Block, Problem> {
    let mut object = at.object()?;
    let kind = object.field("type").required()?.word(allowed)?;
    let block = match kind {
        Kind::Text => Block::Text {
            text: text(&object.field("text").required()?, blank)?,
        },
        Kind::Image => Block::Image {
            source: image_source(&object.field("source").required()?)?,
        },
        Kind::Document => document(&mut object)?,
        Kind::SearchResult => search_result(&mut object)?,
    };
    object.finish()?;
    Ok(block)
}

fn text(at: &At<'_>, blank: Blank) -> Result<String, Problem> {
    let text = at.any_text()?;
    if text.is_empty() {
        return Err(at.refuse("text content blocks must be non-empty"));
    }
    if matches!(blank, Blank::Refused) && text.trim().is_empty() {
        return Err(at.refuse("text content blocks must contain non-whitespace text"));
    }
    Ok(text.to_owned())
}

fn text_block(at: &At<'_>, blank: Blank) -> Result<TextBlock, Problem> {
    let mut object = at.object()?;
    object.field("type").required()?.word(&[("text", ())])?;
    let text = text(&object.field("text").required()?, blank)?;
    object.finish()?;
    Ok(TextBlock::new(text))
}

fn document(object: &mut Object<'_>) -> Result<Block, Problem> {
    let source = document_source(&object.field("source").required()?)?;
    let title = object.field("title");
    let context = object.field("context");
    Ok(Block::Document {
        source,
        title: title.read(|at| at.string(1..=limits::DOCUMENT_TITLE))?,
        context: context.read(|at| at.filled().map(str::to_owned))?,
    })
}

fn search_result(object: &mut Object<'_>) -> Result<Block, Problem> {
    let source = object.field("source").required()?;
    let title = object.field("title").required()?;
    let content = object.field("content").required()?;
    let mut citations = object.field("citations").required()?.object()?;
    let enabled = citations.field("enabled").required()?.boolean()?;
    citations.finish()?;
    Ok(Block::SearchResult {
        source: source.text(1..=limits::URL)?.to_owned(),
        title: title.filled()?.to_owned(),
        content: content
            .items(1..=limits::BLOCKS)?
            .iter()
            .map(|at| text_block(at, Blank::Refused))
            .collect::<Result<_, _>>()?,
        citations: Citations { enabled },
    })
}

words! {
    /// Where the bytes of a document may be.
    enum Place {
        Base64 = "base64",
        Text = "text",
        Url = "url",
        File = "file",
    }
}

fn image_source(at: &At<'_>) -> Result<Source, Problem> {
    const PLACES: &[(&str, Place)] = &[
        ("base64", Place::Base64),
        ("url", Place::Url),
        ("file", Place::File),
    ];
    source(at, PLACES, IMAGE_TYPES)
}

fn document_source(at: &At<'_>) -> Result<Source, Problem> {
    source(at, Place::TABLE, &[("application/pdf", "application/pdf")])
}

fn source(
    at: &At<'_>,
    places: &[(&str, Place)],
    media_types: &[(&str, &'static str)],
) -> Result<Source, Problem> {
    let mut object = at.object()?;
    let place = object.field("type").required()?;
    let source = match place.word(places)? {
        Place::Base64 => {
            let media_type = media_type(&mut object, media_types)?;
            let at = object.field("data").required()?;
            let data = base64(&at)?;
            let source = Source::Base64 { media_type, data };
            inline::check(&source).map_err(|unfit| at.refuse(unfit))?;
            source
        }
        Place::Text => Source::Text {
            media_type: media_type(&mut object, &[("text/plain", "text/plain")])?,
            data: text(&object.field("data").required()?, Blank::Refused)?,
        },
        Place::Url => Source::Url {
            url: url(&object.field("url").required()?)?,
        },
        Place::File => {
            let id = object.field("file_id").required()?;
            let id: FileId = id.id(ErrorCode::NotFound, "file")?;
            Source::File {
                file_id: id.to_string(),
            }
        }
    };
    object.finish()?;
    Ok(source)
}

fn media_type(
    object: &mut Object<'_>,
    allowed: &[(&str, &'static str)],
) -> Result<String, Problem> {
    let word = object.field("media_type").required()?.word(allowed)?;
    Ok(word.to_owned())
}

fn url(at: &At<'_>) -> Result<String, Problem> {
    let url = at.text(1..=limits::URL)?;
    let rest = url
        .strip_prefix("https://")
        .or_else(|| url.strip_prefix("http://"));
    match rest {
        Some(rest) if !rest.is_empty() && !url.contains(char::is_whitespace) => Ok(url.to_owned()),
        Some(_) | None => Err(at.refuse("must be an address that begins with `https://`")),
    }
}

fn base64(at: &At<'_>) -> Result<String, Problem> {
    let data = at.any_text()?;
    if data.is_empty() || !is_base64(data.as_bytes()) {
        return Err(at.refuse("must be standard base64 with padding, and not empty"));
    }
    Ok(data.to_owned())
}

/// Checks standard base64 piece by piece, so that 32 MB need no second copy.
fn is_base64(data: &[u8]) -> bool {
    const PIECE: usize = 4_096;
    let mut scratch = [0; PIECE];
    let padding = data.iter().position(|byte| *byte == b'=');
    if padding.is_some_and(|at| at.saturating_add(2) < data.len()) {
        return false;
    }
    data.chunks(PIECE)
        .all(|piece| STANDARD.decode_slice(piece, &mut scratch).is_ok())
}

#[cfg(test)]
mod tests;
