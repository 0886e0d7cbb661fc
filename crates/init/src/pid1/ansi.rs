//! Takes terminal control sequences out of a stream of bytes.

/// Where in a sequence the stream is.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum State {
    #[default]
    Text,
    /// After ESC.
    Escape,
    /// In `ESC [ ... letter`.
    Control,
    /// In a string such as a window title, up to BEL or `ESC \`.
    String,
    /// In such a string, after ESC.
    StringEscape,
    /// In `ESC ( B` and its like: one more byte ends it.
    Charset,
}

/// Removes sequences, also those cut in two, and control characters other than tab, newline and
/// carriage return.
#[derive(Debug, Default)]
pub(super) struct Stripper {
    state: State,
}

impl Stripper {
    /// Passes what is text on to `keep`.
    pub(super) fn push(&mut self, bytes: &[u8], mut keep: impl FnMut(&[u8])) {
        let mut rest = bytes;
        while !rest.is_empty() {
            if self.state == State::Text {
                let length = rest
                    .iter()
                    .position(|byte| is_control(*byte))
                    .unwrap_or(rest.len());
                let (text, after) = rest.split_at(length);
                if !text.is_empty() {
                    keep(text);
                }
                rest = after;
            }
            if let Some((byte, after)) = rest.split_first() {
                self.state = next(self.state, *byte);
                rest = after;
            }
        }
    }
}

/// Returns whether a byte is not text.
const fn is_control(byte: u8) -> bool {
    (byte < 0x20 && !matches!(byte, b'\t' | b'\n' | b'\r')) || byte == 0x7f
}

/// Goes one byte on.
const fn next(state: State, byte: u8) -> State {
    match (state, byte) {
        (State::String, 0x07) => State::Text,
        (State::String, 0x1b) => State::StringEscape,
        (State::String, _) => State::String,
        (State::Text | State::Escape | State::Control | State::Charset, 0x1b) => State::Escape,
        (State::Escape, b'[') => State::Control,
        (State::Escape, b']' | b'P' | b'X' | b'^' | b'_') => State::String,
        (State::Escape, 0x20..=0x2f) => State::Charset,
        // Parameters and intermediates; a letter ends it.
        (State::Control, 0x20..=0x3f) => State::Control,
        (State::Charset, 0x20..=0x2f) => State::Charset,
        (
            State::Text | State::Escape | State::Control | State::Charset | State::StringEscape,
            _,
        ) => State::Text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strip(pieces: &[&[u8]]) -> String {
        let mut stripper = Stripper::default();
        let mut text = Vec::new();
        for piece in pieces {
            stripper.push(piece, |bytes| text.extend_from_slice(bytes));
        }
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn colours_titles_and_cursor_moves_vanish_and_tabs_stay() {
        let input =
            b"a\x1b[1;31mred\x1b[0m\tb\x1b]0;title\x07c\x1b]8;;x\x1b\\d\x1b(Be\x1b[?25l\r\n\0f\x08";
        assert_eq!(strip(&[input]), "ared\tbcde\r\nf");
    }

    #[test]
    fn a_cut_anywhere_changes_nothing() {
        let input = "x\x1b[38;5;1mgrün\x1b[K\x1b]2;t\x07y".as_bytes();
        for cut in 0..input.len() {
            assert_eq!(strip(&[&input[..cut], &input[cut..]]), "xgrüny");
        }
    }

    #[test]
    fn a_lone_escape_at_the_end_is_dropped() {
        assert_eq!(strip(&[b"abc\x1b"]), "abc");
        assert_eq!(strip(&[b"a\x1bMb"]), "ab");
    }
}
