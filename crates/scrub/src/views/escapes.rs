//! Escapes: of URLs and forms, and of strings in JSON.

use super::Sink;

/// Escapes of JSON are six bytes for one.
pub(super) const WIDEST: usize = 6;

/// The longest escape, its mark included.
const LONGEST: usize = 12;

/// One byte, or a character.
pub(super) enum Escaped {
    Byte(u8),
    Char(char),
}

/// Decodes all escapes, of which is said what each stands for and how long it is without its mark; tells
/// whether there are any.
pub(super) fn read(
    bytes: &[u8],
    mark: u8,
    escape: impl Fn(&[u8]) -> Option<(Escaped, usize)>,
    sink: &mut impl Sink,
) -> bool {
    let (mut done, mut at) = (0, 0);
    while let Some(next) = after(bytes, at, mark) {
        let rest = bytes.get(next + 1..).unwrap_or_default();
        let Some((escaped, length)) = escape(rest) else {
            at = next + 1;
            continue;
        };
        sink.run(bytes.get(done..next).unwrap_or_default(), done);
        match escaped {
            Escaped::Byte(byte) => sink.instead(&[byte], next),
            Escaped::Char(character) => {
                sink.instead(character.encode_utf8(&mut [0; 4]).as_bytes(), next);
            }
        }
        at = next + 1 + length;
        done = at;
    }
    if done > 0 {
        sink.run(bytes.get(done..).unwrap_or_default(), done);
    }
    done > 0
}

/// Moves an end back to the mark of an escape that it parts.
pub(super) fn unparted(
    bytes: &[u8],
    end: usize,
    mark: u8,
    escape: impl Fn(&[u8]) -> Option<(Escaped, usize)>,
) -> usize {
    let parted = |at: &usize| {
        let rest = bytes.get(at + 1..).unwrap_or_default();
        let length = escape(rest).map_or(0, |(_, length)| length);
        bytes.get(*at) == Some(&mark) && at + 1 + length > end
    };
    (end.saturating_sub(LONGEST)..end)
        .find(parted)
        .unwrap_or(end)
}

/// Finds the next mark: where there are many the next one is near.
fn after(bytes: &[u8], from: usize, mark: u8) -> Option<usize> {
    let rest = bytes.get(from..)?;
    let (near, far) = rest.split_at(rest.len().min(16));
    let found = near.iter().position(|byte| *byte == mark);
    let found = found.or_else(|| Some(near.len() + memchr::memchr(mark, far)?));
    Some(from + found?)
}

/// Reads two hex digits behind a percent sign.
pub(super) fn percent(rest: &[u8]) -> Option<(Escaped, usize)> {
    let byte = u8::try_from(number(rest.get(..2)?)?).ok()?;
    Some((Escaped::Byte(byte), 2))
}

/// Reads what stands behind a backslash in a string of JSON.
pub(super) fn json(rest: &[u8]) -> Option<(Escaped, usize)> {
    let byte = match rest.first()? {
        byte @ (b'"' | b'\\' | b'/') => *byte,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 8,
        b'f' => 12,
        b'u' => return unit(rest),
        _ => return None,
    };
    Some((Escaped::Byte(byte), 1))
}

/// Reads `u` and four hex digits: characters beyond the first plane are two such escapes.
fn unit(rest: &[u8]) -> Option<(Escaped, usize)> {
    let unit = number(rest.get(1..5)?)?;
    if let Some(character) = char::from_u32(unit) {
        return Some((Escaped::Char(character), 5));
    }
    let low = rest.get(5..11).and_then(|low| low.strip_prefix(b"\\u"))?;
    let pair = [u16::try_from(unit).ok()?, u16::try_from(number(low)?).ok()?];
    let character = char::decode_utf16(pair).next()?.ok()?;
    Some((Escaped::Char(character), 11))
}

fn number(digits: &[u8]) -> Option<u32> {
    let hex = digits.iter().all(u8::is_ascii_hexdigit);
    let text = std::str::from_utf8(digits).ok().filter(|_| hex)?;
    u32::from_str_radix(text, 16).ok()
}
