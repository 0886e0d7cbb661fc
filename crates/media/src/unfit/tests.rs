//! Tests of what passes and what does not, by the bytes that each format begins with.

use super::*;

/// Writes the beginning of an image of that size.
fn image(format: Format, width: u16, height: u16) -> Vec<u8> {
    let ([w1, w0], [h1, h0]) = (width.to_be_bytes(), height.to_be_bytes());
    match format {
        Format::Png => [
            b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".as_slice(),
            &[0, 0, w1, w0, 0, 0, h1, h0],
        ]
        .concat(),
        Format::Gif => [b"GIF89a".as_slice(), &[w0, w1, h0, h1, 0, 0, 0]].concat(),
        // A comment stands before the size.
        Format::Jpeg => [
            b"\xff\xd8\xff\xfe\0\x06note\xff\xc0\0\x0b\x08".as_slice(),
            &[h1, h0, w1, w0],
        ]
        .concat(),
        Format::Webp => [
            b"RIFF\x20\0\0\0WEBPVP8 \x14\0\0\0\0\0\0\x9d\x01\x2a".as_slice(),
            &[w0, w1, h0, h1],
        ]
        .concat(),
        Format::Pdf => b"%PDF-1.7\n".to_vec(),
    }
}

/// Returns what is said of bytes, up to what is allowed.
fn said(format: Format, bytes: &[u8]) -> String {
    let words = check(format, bytes).unwrap_err().to_string();
    words.split_once("; ").unwrap().0.to_owned()
}

#[test]
fn what_is_what_its_type_says_passes() {
    for format in Format::ALL {
        for (width, height) in [(1, 1), (8_000, 3), (5, 8_000)] {
            let bytes = image(format, width, height);
            assert_eq!(check(format, &bytes), Ok(()), "{format:?}");
        }
        assert_eq!(Format::of_type(format.media_type()), Some(format));
    }
    let old = image(Format::Gif, 1, 1);
    let old = [b"GIF87a", old.get(6..).unwrap()].concat();
    assert_eq!(check(Format::Gif, &old), Ok(()));
}

#[test]
fn what_is_something_else_is_told_so() {
    for format in Format::ALL {
        let name = format.name();
        assert_eq!(said(format, b""), "is empty");
        assert_eq!(said(format, b"hi"), format!("is no {name}"));
        assert_eq!(said(format, &[0; 100]), format!("is no {name}"));
        let begun = image(format, 1, 1);
        let begun = begun.get(..2).unwrap();
        assert_eq!(said(format, begun), format!("is no {name}"));
        for other in Format::ALL.into_iter().filter(|other| *other != format) {
            let words = format!("is no {name}, but a {}", other.name());
            assert_eq!(said(format, &image(other, 1, 1)), words);
        }
    }
}

#[test]
fn an_image_has_a_size_and_no_more_than_a_model_takes() {
    for format in Format::ALL.into_iter().filter(|format| format.is_image()) {
        for (width, height) in [(9_000, 9_000), (8_001, 1), (1, 8_001)] {
            let words = format!("has {width} by {height} pixels");
            assert_eq!(said(format, &image(format, width, height)), words);
        }
        let mut bytes = image(format, 7, 7);
        let words = format!("is a {} whose size cannot be read", format.name());
        assert_eq!(
            said(format, bytes.get(..bytes.len() - 3).unwrap_or(&bytes)),
            words
        );
        bytes.resize(usize::try_from(IMAGE_BYTES).unwrap(), 0);
        assert_eq!(check(format, &bytes), Ok(()));
        bytes.push(0);
        assert_eq!(said(format, &bytes), "has more than 3932160 bytes");
    }
    assert_eq!(
        said(Format::Png, &image(Format::Png, 0, 1)),
        "has 0 by 1 pixels"
    );
}

#[test]
fn the_first_bytes_are_enough() {
    let telling = usize::try_from(Format::Pdf.telling()).unwrap();
    let mut pdf = image(Format::Pdf, 1, 1);
    pdf.resize(telling, 0);
    assert_eq!(check(Format::Pdf, &pdf), Ok(()));
    for format in Format::ALL.into_iter().filter(|format| format.is_image()) {
        let telling = usize::try_from(format.telling()).unwrap();
        let mut long = image(format, 1, 1);
        let begun = long.get(..12).unwrap();
        let words = format!("is no PDF document, but a {}", format.name());
        assert_eq!(said(Format::Pdf, begun), words);
        long.resize(telling, 0);
        assert!(check(format, &long).is_err());
    }
}
