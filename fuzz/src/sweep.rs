//! Secrets in what is shown or kept.

use std::{fmt::Write as _, sync::LazyLock};

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE},
};
use outlast_protocol::Secret;
use outlast_scrub::{Scrubber, forms};

use crate::pieces::cuts;

/// Secrets that are known together: such as have each other within, overlap themselves, look like an
/// encoding of something else, or are long.
const SETS: &[&[&str]] = &[
    &["0123456789ab"],
    &["sk-l\u{eb}ss/than+\"two\"\\words\n&1%"],
    &["aaaaaaaaaaaa", "aaaaaaaaaaaaaaab"],
    &["0123456789ab", "xx0123456789abyy", "6789abcdefgh"],
    &["%41%42%43%44%45", "\\u0041\\u0042\\n"],
    &["abcabcabcabcabcabc", "cabcabcabcab"],
    &["deadbeefdeadbeefdeadbeef", "c2VjcmV0LXNlY3JldA=="],
    &["a secret of more than a line of base64, which is broken into several of them, \u{1f600}"],
];

static SCRUBBERS: LazyLock<Vec<Scrubber>> = LazyLock::new(|| {
    let scrubber = |set: &&[&str]| {
        let secrets: Vec<Secret> = set.iter().map(|text| Secret::from(*text)).collect();
        Scrubber::named(secrets.iter().map(|secret| ("T", secret)))
    };
    SETS.iter().map(scrubber).collect()
});

/// Reads which secrets are known, and a text in which some bytes stand for their forms. However the text
/// is cut, none of them is left, and the same is there in the end, but for what [`agree`] allows.
pub fn sweep(data: &[u8]) {
    let Some((first, rest)) = data.split_first() else {
        return;
    };
    let set = usize::from(*first) % SETS.len();
    let (secrets, scrubber) = (SETS[set], &SCRUBBERS[set]);
    let text = written(secrets, rest);
    let whole = scrubber.bytes(&text);
    clean(secrets, &whole);
    for pieces in cuts(&text) {
        let mut stream = scrubber.stream();
        let mut out = Vec::new();
        for piece in pieces {
            out.extend(stream.push(piece));
        }
        out.extend(stream.finish());
        clean(secrets, &out);
        let shown = [&out, &*whole].map(String::from_utf8_lossy);
        assert!(agree(&out, &whole), "{shown:#?}");
    }
    if let Ok(text) = std::str::from_utf8(&text) {
        assert_eq!(scrubber.text(text).as_bytes(), &*whole);
    }
}

/// Tells whether pieces led to what the whole led to. Where occurrences overlap without end, one that
/// begins in what is gone by then cannot be seen whole: a rest that is no secret, or an end of a line, is
/// between two marks then.
fn agree(pieces: &[u8], whole: &[u8]) -> bool {
    let (pieces, whole) = (without_ends(pieces), without_ends(whole));
    let between = |text: &str| -> Vec<String> {
        let parts = text.split(MARK).filter(|part| !part.is_empty());
        parts.map(str::to_owned).collect()
    };
    let mut wanted = between(&whole).into_iter().peekable();
    let only_rests = between(&pieces).into_iter().all(|part| {
        let is_wanted = wanted.next_if_eq(&part).is_some();
        is_wanted || part.len() < outlast_scrub::SHORTEST
    });
    only_rests && wanted.next().is_none()
}

const MARK: &str = "[T removed]";

/// Leaves ends of lines out.
fn without_ends(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text).into_owned();
    let ends = ["\r", "\n", "\\r", "\\n", "%0D", "%0A", "%0d", "%0a"];
    ends.iter().fold(text, |text, end| text.replace(end, ""))
}

/// Writes a text: bytes that no text has stand for a secret in a form.
fn written(secrets: &[&str], data: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    for (at, byte) in data.iter().enumerate() {
        let secret = secrets[at % secrets.len()];
        match form(*byte, secret, at % 3) {
            Some(form) => text.extend_from_slice(form.as_bytes()),
            None => text.push(*byte),
        }
    }
    text
}

fn form(byte: u8, secret: &str, before: usize) -> Option<String> {
    let padded = [&b"xyz"[..before], secret.as_bytes(), &[7; 60]].concat();
    Some(match byte {
        1 => secret.to_owned(),
        2 => percent(secret, false),
        3 => percent(secret, true).to_lowercase(),
        4 => quoted(secret),
        5 => escaped(secret),
        6 => hex(secret.as_bytes()),
        7 => hex(secret.as_bytes()).to_uppercase(),
        8 => lines(&hex(&padded), 60, "\n"),
        11 => STANDARD.encode(&padded),
        12 => URL_SAFE.encode(&padded),
        14 => lines(&STANDARD.encode(&padded), 76, "\r\n"),
        15 => lines(&URL_SAFE.encode(&padded), 64, "\\n"),
        16 => lines(&STANDARD.encode(&padded), 76, "%0A"),
        _ => return None,
    })
}

fn percent(text: &str, all: bool) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        if byte.is_ascii_alphanumeric() && !all {
            out.push(char::from(byte));
        } else {
            write!(out, "%{byte:02X}").unwrap();
        }
        out
    })
}

fn quoted(text: &str) -> String {
    let json = serde_json::to_string(text).unwrap();
    json[1..json.len() - 1].to_owned()
}

fn escaped(text: &str) -> String {
    text.encode_utf16().fold(String::new(), |mut out, unit| {
        write!(out, "\\u{unit:04x}").unwrap();
        out
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        write!(out, "{byte:02x}").unwrap();
        out
    })
}

fn lines(text: &str, width: usize, end: &str) -> String {
    let parts = text.as_bytes().chunks(width);
    let parts = parts.map(|part| String::from_utf8_lossy(part).into_owned());
    parts.collect::<Vec<_>>().join(end)
}

/// Checks that no form of a secret is there, neither as it stands nor behind one layer of escapes.
fn clean(secrets: &[&str], out: &[u8]) {
    let views = [out.to_vec(), unpercent(out), unescape(out)];
    for secret in secrets {
        for form in forms::of(secret.as_bytes()) {
            let is_in = |view: &Vec<u8>| view.windows(form.len()).any(|part| part == &form[..]);
            let found = views.iter().position(is_in);
            let text = String::from_utf8_lossy(out);
            assert_eq!(found, None, "{secret:?} is left in {text:?}");
        }
    }
}

fn unpercent(bytes: &[u8]) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::new(), bytes);
    while let Some((first, behind)) = rest.split_first() {
        let digits = behind
            .get(..2)
            .and_then(|two| std::str::from_utf8(two).ok());
        let digits = digits.filter(|two| two.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let byte = digits.and_then(|two| u8::from_str_radix(two, 16).ok());
        match byte.filter(|_| *first == b'%') {
            Some(byte) => {
                out.push(byte);
                rest = &behind[2..];
            }
            None => {
                out.push(*first);
                rest = behind;
            }
        }
    }
    out
}

/// Decodes what a reader of JSON would decode, escape by escape: those that are none stay.
fn unescape(bytes: &[u8]) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::new(), bytes);
    while let Some((first, behind)) = rest.split_first() {
        let longest = if *first == b'\\' { 12 } else { 0 };
        let lengths = [2, 6, longest].into_iter();
        let read = lengths
            .filter(|length| *length <= longest)
            .find_map(|length| {
                let escape = std::str::from_utf8(rest.get(..length)?).ok()?;
                let read: String = serde_json::from_str(&format!("\"{escape}\"")).ok()?;
                // One escape is one character, and not an escape with something behind it.
                (read.chars().count() == 1).then_some((read, length))
            });
        match read {
            Some((read, length)) => {
                out.extend_from_slice(read.as_bytes());
                rest = &rest[length..];
            }
            None => {
                out.push(*first);
                rest = behind;
            }
        }
    }
    out
}
