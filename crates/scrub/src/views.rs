//! The same bytes as whoever decodes them reads them.

use std::ops::Range;

/// Bytes that were decoded, each with where it came from.
pub(super) struct View {
    pub(super) bytes: Vec<u8>,
    /// Where each byte begins in the original; one more at the end.
    starts: Vec<usize>,
}

/// Lines of an encoding are at least so long, but for the last.
const LINE: usize = 32;

/// Escapes of JSON are six bytes for one.
const WIDEST: usize = 6;

/// Returns the most bytes that one occurrence of a secret of that length can be long in the original.
pub(super) fn reach(longest: usize) -> usize {
    // Hex is two for one, in lines of at least `LINE` with an end that may be escaped itself.
    let lines = longest * 2 + (longest * 2 / LINE + 1) * 2 * WIDEST;
    lines.max(longest * WIDEST) + 1
}

/// Returns the views that can show what the bytes themselves do not.
pub(super) fn of(bytes: &[u8]) -> Vec<View> {
    let mut views: Vec<View> = joined(bytes).into_iter().collect();
    let escapes: [(u8, Escape); 2] = [(b'%', percent), (b'\\', escape)];
    for (mark, escape) in escapes {
        if let Some(view) = decoded(bytes, mark, escape) {
            views.extend(joined(&view.bytes).map(|upper| view.beneath(upper)));
            views.push(view);
        }
    }
    views
}

impl View {
    fn with_room(room: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(room),
            starts: Vec::with_capacity(room + 1),
        }
    }

    fn push(&mut self, byte: u8, start: usize) {
        self.bytes.push(byte);
        self.starts.push(start);
    }

    /// Adds the digits that the last line begins with, and ends what was joined.
    fn close(&mut self, bytes: &[u8], open: Option<usize>) {
        let Some(open) = open else { return };
        let rest = bytes.get(open..).unwrap_or_default();
        let length = rest.iter().take_while(|byte| is_digit(byte)).count();
        rest.iter()
            .take(length)
            .enumerate()
            .for_each(|(offset, byte)| self.push(*byte, open + offset));
        self.push(0, open + length);
    }

    /// Returns a view of this view as one of the original.
    fn beneath(&self, upper: Self) -> Self {
        let starts = upper.starts.iter();
        let starts = starts.map(|at| self.starts.get(*at).copied().unwrap_or_default());
        Self {
            starts: starts.collect(),
            bytes: upper.bytes,
        }
    }

    /// Returns where a part came from.
    pub(super) fn origin(&self, part: Range<usize>) -> Range<usize> {
        let at = |index: usize| self.starts.get(index).copied().unwrap_or_default();
        // The byte behind the last one may begin after something that was skipped: what was skipped
        // goes too.
        at(part.start)..at(part.end)
    }
}

/// What an escape stands for, and how long it is.
type Escape = fn(&[u8]) -> Option<(Escaped, usize)>;

/// One byte, or a character.
enum Escaped {
    Byte(u8),
    Char(char),
}

/// Decodes all escapes; `None` if there is none.
fn decoded(bytes: &[u8], mark: u8, escape: Escape) -> Option<View> {
    let first = memchr::memchr(mark, bytes)?;
    let mut view = View::with_room(bytes.len());
    bytes
        .iter()
        .take(first)
        .enumerate()
        .for_each(|(at, byte)| view.push(*byte, at));
    let (mut at, mut any) = (first, false);
    while let Some((byte, rest)) = bytes.get(at..).and_then(<[u8]>::split_first) {
        let known = if *byte == mark { escape(rest) } else { None };
        match known {
            Some((Escaped::Byte(byte), length)) => {
                view.push(byte, at);
                at += 1 + length;
                any = true;
            }
            Some((Escaped::Char(character), length)) => {
                for byte in character.encode_utf8(&mut [0; 4]).bytes() {
                    view.push(byte, at);
                }
                at += 1 + length;
                any = true;
            }
            None => {
                view.push(*byte, at);
                at += 1;
            }
        }
    }
    view.starts.push(bytes.len());
    any.then_some(view)
}

/// Reads two hex digits behind a percent sign.
fn percent(rest: &[u8]) -> Option<(Escaped, usize)> {
    let byte = u8::try_from(number(rest.get(..2)?)?).ok()?;
    Some((Escaped::Byte(byte), 2))
}

/// Reads what stands behind a backslash in a string of JSON.
fn escape(rest: &[u8]) -> Option<(Escaped, usize)> {
    let byte = match rest.first()? {
        byte @ (b'"' | b'\\' | b'/') => *byte,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 8,
        b'f' => 12,
        b'u' => {
            let unit = number(rest.get(1..5)?)?;
            if let Some(character) = char::from_u32(unit) {
                return Some((Escaped::Char(character), 5));
            }
            // Characters beyond the first plane are two escapes.
            let low = rest.get(5..11).and_then(|low| low.strip_prefix(b"\\u"))?;
            let pair = [u16::try_from(unit).ok()?, u16::try_from(number(low)?).ok()?];
            let character = char::decode_utf16(pair).next()?.ok()?;
            return Some((Escaped::Char(character), 11));
        }
        _ => return None,
    };
    Some((Escaped::Byte(byte), 1))
}

fn number(digits: &[u8]) -> Option<u32> {
    let hex = digits.iter().all(u8::is_ascii_hexdigit);
    let text = std::str::from_utf8(digits).ok().filter(|_| hex)?;
    u32::from_str_radix(text, 16).ok()
}

/// Joins lines of digits, as `base64` and `xxd -p` break them; `None` if there are none.
fn joined(bytes: &[u8]) -> Option<View> {
    let mut view = View::with_room(0);
    // Where the digits go on that were joined last.
    let mut open: Option<usize> = None;
    let mut line = 0;
    for end in memchr::memchr_iter(b'\n', bytes) {
        let before = end - usize::from(bytes.get(..end).is_some_and(|all| all.ends_with(b"\r")));
        let run = run_before(bytes.get(line..before).unwrap_or_default());
        let begin = before - run;
        let goes_on = run >= LINE && bytes.get(end + 1).is_some_and(is_digit);
        if open.is_some_and(|open| open < begin || !goes_on) {
            // It ends within this line, or with it.
            view.close(bytes, open.take());
        }
        if goes_on {
            (begin..before).for_each(|at| view.push(byte(bytes, at), at));
            open = Some(end + 1);
        }
        line = end + 1;
    }
    view.close(bytes, open);
    view.starts.push(bytes.len());
    (view.bytes.len() > 1).then_some(view)
}

fn byte(bytes: &[u8], at: usize) -> u8 {
    bytes.get(at).copied().unwrap_or_default()
}

fn is_digit(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_' | b'=')
}

/// Returns how many digits a line ends with.
fn run_before(line: &[u8]) -> usize {
    line.iter().rev().take_while(|byte| is_digit(byte)).count()
}
