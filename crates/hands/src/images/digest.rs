//! SHA-256, as images name what they hold.

use std::{
    fmt::Write as _,
    io::{self, Read},
};

use aws_lc_rs::digest::{Context, SHA256};

/// Reads on and adds up what was read.
pub(super) struct Hashing<R> {
    inner: R,
    context: Context,
}

impl<R: Read> Hashing<R> {
    pub(super) fn new(inner: R) -> Self {
        Self {
            inner,
            context: Context::new(&SHA256),
        }
    }

    /// Reads to the end, and returns the digest of everything.
    pub(super) fn finish(mut self) -> io::Result<String> {
        io::copy(&mut self, &mut io::sink())?;
        let mut text = "sha256:".to_owned();
        for byte in self.context.finish().as_ref() {
            // Writing to a string never fails.
            let _ = write!(text, "{byte:02x}");
        }
        Ok(text)
    }
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = self.inner.read(buffer)?;
        self.context.update(buffer.get(..got).unwrap_or_default());
        Ok(got)
    }
}

/// Returns the digest of what can be read.
pub(super) fn of(reader: impl Read) -> io::Result<String> {
    Hashing::new(reader).finish()
}

/// Tells whether a text is a digest, and nothing that leads elsewhere.
pub(super) fn is_digest(text: &str) -> bool {
    let hex = text.strip_prefix("sha256:");
    hex.is_some_and(|hex| hex.len() == 64 && hex.bytes().all(|sign| sign.is_ascii_hexdigit()))
}
