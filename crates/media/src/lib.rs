//! What the bytes of an image or a PDF document have to be before a model is shown them.
//!
//! A block stays in its conversation. One that the model API refuses is refused with every later
//! request too, so whatever becomes a block is checked here first.

#![forbid(unsafe_code)]

mod format;
mod unfit;

pub use format::Format;
pub use unfit::{Unfit, check};

/// Bytes of an image: 5 MiB as base64.
pub const IMAGE_BYTES: u64 = 5 * 1024 * 1024 / 4 * 3;

/// Bytes of a document.
pub const DOCUMENT_BYTES: u64 = 20 * 1024 * 1024;

/// Pixels on one side of an image.
pub const SIDE: usize = 8_000;
