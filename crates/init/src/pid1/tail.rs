//! The last part of what a command prints, in bounded memory.

use super::ansi::Stripper;

/// Keeps the last bytes of a stream, without terminal control sequences.
#[derive(Debug)]
pub(super) struct Tail {
    stripper: Stripper,
    kept: Vec<u8>,
    limit: usize,
    left_out: u64,
}

impl Tail {
    /// Keeps `limit` bytes.
    pub(super) fn new(limit: usize) -> Self {
        Self {
            stripper: Stripper::default(),
            kept: Vec::new(),
            limit,
            left_out: 0,
        }
    }

    /// Adds what was printed.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let Self {
            stripper,
            kept,
            limit,
            left_out,
        } = self;
        stripper.push(bytes, |text| {
            kept.extend_from_slice(text);
            // Twice the limit, so that bytes are moved once per limit and not once per piece.
            if kept.len() > 2 * *limit {
                *left_out += cut(kept, *limit);
            }
        });
    }

    /// Takes the text, with a line at the front that says so if something was left out.
    pub(super) fn take(&mut self) -> String {
        let mut kept = std::mem::take(&mut self.kept);
        let mut left_out = std::mem::take(&mut self.left_out);
        if kept.len() > self.limit {
            left_out += cut(&mut kept, self.limit);
        }
        if left_out > 0 {
            // The cut may have gone through a character.
            let part = kept.iter().take_while(|byte| **byte & 0xc0 == 0x80).count();
            kept.drain(..part);
            left_out += part as u64;
        }
        let text = String::from_utf8_lossy(&kept);
        let text = text.strip_suffix('\n').unwrap_or(&text);
        match left_out {
            0 => text.to_owned(),
            _ => format!("[output truncated: the first {left_out} bytes are left out]\n{text}"),
        }
    }
}

/// Keeps the last `limit` bytes and returns how many went.
fn cut(kept: &mut Vec<u8>, limit: usize) -> u64 {
    let away = kept.len() - limit;
    kept.drain(..away);
    away as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_kept_and_the_marker_counts() {
        let mut tail = Tail::new(10);
        for _ in 0..100 {
            tail.push(b"0123456789");
        }
        tail.push(b"abc\n");
        assert_eq!(
            tail.take(),
            "[output truncated: the first 994 bytes are left out]\n456789abc"
        );
        tail.push(b"next");
        assert_eq!(tail.take(), "next");
    }

    #[test]
    fn a_character_is_not_cut_in_two() {
        let mut tail = Tail::new(4);
        tail.push("xxüüü".as_bytes());
        assert!(tail.take().ends_with("\nüü"));
        let mut tail = Tail::new(3);
        tail.push("xxüü".as_bytes());
        assert!(tail.take().ends_with("bytes are left out]\nü"));
    }

    #[test]
    fn memory_stays_bounded() {
        let mut tail = Tail::new(1000);
        for _ in 0..10_000 {
            tail.push(&[b'x'; 1000]);
        }
        assert!(tail.kept.capacity() < 10_000);
    }
}
