//! What is wrong with bytes, in words.

use std::fmt;

use crate::{Format, IMAGE_BYTES, SIDE};

/// Why a model is not shown bytes: words that go on behind the name of what they are of.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Unfit {
    format: Format,
    why: Why,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Why {
    Empty,
    TooLong,
    Other(Option<Format>),
    NoSize,
    Size(usize, usize),
}

/// Checks that bytes are what their type says, and that a model takes them.
///
/// The first [`Format::telling`] of them are enough. Pixels are not decoded: a file that was cut off
/// behind its size passes.
///
/// # Errors
///
/// What is wrong with them.
pub fn check(format: Format, bytes: &[u8]) -> Result<(), Unfit> {
    fault(format, bytes).map_or(Ok(()), |why| Err(Unfit { format, why }))
}

fn fault(format: Format, bytes: &[u8]) -> Option<Why> {
    if bytes.is_empty() {
        return Some(Why::Empty);
    }
    let found = Format::of_bytes(bytes);
    if found != Some(format) {
        return Some(Why::Other(found));
    }
    if !format.is_image() {
        return None;
    }
    if bytes.len() as u64 > IMAGE_BYTES {
        return Some(Why::TooLong);
    }
    let Ok(size) = imagesize::blob_size(bytes) else {
        return Some(Why::NoSize);
    };
    let fits = |side| (1..=SIDE).contains(&side);
    (!fits(size.width) || !fits(size.height)).then_some(Why::Size(size.width, size.height))
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.format.name();
        match self.why {
            Why::Empty => write!(f, "is empty")?,
            Why::TooLong => write!(f, "has more than {IMAGE_BYTES} bytes")?,
            Why::Other(None) => write!(f, "is no {name}")?,
            Why::Other(Some(found)) => write!(f, "is no {name}, but a {}", found.name())?,
            Why::NoSize => write!(f, "is a {name} whose size cannot be read")?,
            Why::Size(width, height) => write!(f, "has {width} by {height} pixels")?,
        }
        if self.format.is_image() {
            return write!(
                f,
                "; an image must be JPEG, PNG, GIF or WebP as its type says, of 1 to {SIDE} pixels \
                 on each side"
            );
        }
        write!(f, "; a PDF document must begin with `%PDF-`")
    }
}

#[cfg(test)]
mod tests;
