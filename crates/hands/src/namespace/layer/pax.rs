//! Extended headers of the POSIX form: records `length key=value`, of which values hold any byte.
//!
//! The `tar` crate writes them and reads those whose values hold no line end; extended attributes
//! and names may.

use std::io;

use super::broken;

/// The longest extended header that is read: the kernel bounds attributes of one file far below.
pub(super) const LONGEST: u64 = 4 << 20;

/// A key and its value.
type Record = (Vec<u8>, Vec<u8>);

/// Records of one extended header.
pub(super) type Records = Vec<Record>;

/// Writes records.
pub(super) fn encode(records: &Records) -> Vec<u8> {
    let mut text = Vec::new();
    for (key, value) in records {
        // A blank, a sign of equality, a line end.
        let rest = key.len() + value.len() + 3;
        let mut length = rest + 1;
        while length != rest + length.to_string().len() {
            length = rest + length.to_string().len();
        }
        text.extend_from_slice(length.to_string().as_bytes());
        text.push(b' ');
        text.extend_from_slice(key);
        text.push(b'=');
        text.extend_from_slice(value);
        text.push(b'\n');
    }
    text
}

/// Reads records.
pub(super) fn decode(mut text: &[u8]) -> io::Result<Records> {
    let mut records = Records::new();
    while !text.is_empty() {
        let (record, rest) = split(text).ok_or_else(|| broken("an extended header"))?;
        records.push(record);
        text = rest;
    }
    Ok(records)
}

/// Takes one record off.
fn split(text: &[u8]) -> Option<(Record, &[u8])> {
    let blank = text.iter().position(|byte| *byte == b' ')?;
    let length = std::str::from_utf8(text.get(..blank)?).ok()?;
    let length: usize = length.parse().ok()?;
    let (record, rest) = text.split_at_checked(length)?;
    let record = record.get(blank + 1..)?.strip_suffix(b"\n")?;
    let equals = record.iter().position(|byte| *byte == b'=')?;
    let (key, value) = record.split_at_checked(equals)?;
    Some(((key.to_owned(), value.get(1..)?.to_owned()), rest))
}

/// Writes a name as a part of a key, in which there is no sign of equality.
pub(super) fn escape(name: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(name.len());
    for byte in name {
        match byte {
            b'=' => text.extend_from_slice(b"%3D"),
            b'%' => text.extend_from_slice(b"%25"),
            other => text.push(*other),
        }
    }
    text
}

/// Reads what [`escape`] wrote.
pub(super) fn unescape(text: &[u8]) -> Vec<u8> {
    let mut name = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, tail)) = rest.split_first() {
        let (byte, tail) = match (first, tail) {
            (b'%', [b'3', b'D', tail @ ..]) => (b'=', tail),
            (b'%', [b'2', b'5', tail @ ..]) => (b'%', tail),
            (other, tail) => (*other, tail),
        };
        name.push(byte);
        rest = tail;
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_whatever_their_bytes() {
        let mut records: Records = vec![
            (b"path".to_vec(), b"a\nb".to_vec()),
            (b"SCHILY.xattr.user.x".to_vec(), vec![0, 10, 255, b'=', 10]),
            (b"empty".to_vec(), Vec::new()),
        ];
        // Around every border where the length gets one more digit.
        records.extend((80..110).map(|length| (b"k".to_vec(), vec![b'v'; length])));
        records.extend((980..1010).map(|length| (b"k".to_vec(), vec![b'\n'; length])));
        assert_eq!(decode(&encode(&records)).unwrap(), records);
        for name in [&b"a=b%3D%"[..], b"", b"%25", b"%"] {
            assert_eq!(unescape(&escape(name)), name);
        }
    }

    #[test]
    fn what_is_no_record_is_refused() {
        for text in [
            &b"x"[..],
            b"5 a=b\n",
            b"99 a=b\n",
            b"6 a=bc",
            b"6 abc\n",
            b"-6 a=b\n",
        ] {
            assert!(decode(text).is_err(), "{text:?}");
        }
    }
}
