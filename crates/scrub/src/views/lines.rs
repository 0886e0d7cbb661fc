//! Lines of digits, as `base64` and `xxd -p` break them.

use super::Sink;

/// Lines of an encoding are at least so long, but for the last.
pub(super) const SHORTEST: usize = 32;

/// Joins lines of digits, with something else behind each joined text; tells whether there are any. The
/// first line began so many digits before.
pub(super) fn read(bytes: &[u8], earlier: usize, sink: &mut impl Sink) -> bool {
    let mut any = false;
    // Where the digits go on that were joined last.
    let mut open: Option<usize> = None;
    let mut line = 0;
    for end in memchr::memchr_iter(b'\n', bytes) {
        let before = end - usize::from(bytes.get(..end).is_some_and(|all| all.ends_with(b"\r")));
        let run = run_before(bytes.get(line..before).unwrap_or_default());
        let begin = before - run;
        let length = if begin == 0 { run + earlier } else { run };
        let goes_on = length >= SHORTEST && bytes.get(end + 1).is_some_and(is_digit);
        if open.is_some_and(|open| open < begin || !goes_on) {
            // It ends within this line, or with it.
            close(bytes, open.take(), sink);
        }
        if goes_on {
            sink.run(bytes.get(begin..before).unwrap_or_default(), begin);
            open = Some(end + 1);
            any = true;
        }
        line = end + 1;
    }
    close(bytes, open, sink);
    any
}

/// Adds the digits that the last line begins with, and ends what was joined.
fn close(bytes: &[u8], open: Option<usize>, sink: &mut impl Sink) {
    let Some(open) = open else { return };
    let rest = bytes.get(open..).unwrap_or_default();
    let length = rest.iter().take_while(|byte| is_digit(byte)).count();
    sink.run(rest.get(..length).unwrap_or_default(), open);
    sink.instead(&[0], open + length);
}

fn is_digit(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_' | b'=')
}

/// Returns how many digits a line ends with.
pub(super) fn run_before(line: &[u8]) -> usize {
    line.iter().rev().take_while(|byte| is_digit(byte)).count()
}
