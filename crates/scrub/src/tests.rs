//! Every form, at every place, however it is cut; and innocent text stays.

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE},
};
use proptest::prelude::*;

use super::*;

const SECRET: &str = "sk-lëss/than+\"two\"\\words\n&1%";

fn scrubber(secrets: &[&str]) -> Scrubber {
    let secrets: Vec<Secret> = secrets.iter().map(|text| Secret::from(*text)).collect();
    Scrubber::named(secrets.iter().map(|secret| ("TOKEN", secret)))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn lines(text: &str, width: usize, end: &str) -> String {
    let parts = text.as_bytes().chunks(width);
    let parts = parts.map(|part| String::from_utf8_lossy(part).into_owned());
    parts.collect::<Vec<_>>().join(end)
}

/// Returns a secret in all forms that are looked for, with something around it.
fn forms(secret: &str) -> Vec<String> {
    let percent = |text: &str| -> String {
        let coded = text.bytes().map(|byte| match byte {
            b'a'..=b'z' | b'0'..=b'9' => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        });
        coded.collect()
    };
    let json = serde_json::to_string(secret).unwrap();
    let ascii: String = secret
        .encode_utf16()
        .map(|unit| match u8::try_from(unit) {
            Ok(byte) if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
            Ok(_) | Err(_) => format!("\\u{unit:04x}"),
        })
        .collect();
    let mut forms = vec![
        secret.to_owned(),
        percent(secret),
        percent(secret).to_lowercase(),
        json[1..json.len() - 1].to_owned(),
        ascii,
        hex(secret.as_bytes()),
        hex(secret.as_bytes()).to_uppercase(),
        lines(&hex(&[secret.as_bytes(), &[7; 80]].concat()), 60, "\n"),
    ];
    for before in 0..3 {
        let whole = [&b"xyz"[..before], secret.as_bytes(), &[9; 100]].concat();
        for text in [STANDARD.encode(&whole), URL_SAFE.encode(&whole)] {
            forms.push(lines(&text, 76, "\n"));
            forms.push(lines(&text, 64, "\r\n"));
            forms.push(lines(&text, 76, "\\n"));
            forms.push(text);
        }
    }
    forms
}

/// Tells whether one can get at a part of the secret that is long enough to matter.
fn shows(text: &str, secret: &str) -> bool {
    let decoded = [STANDARD, URL_SAFE].iter().any(|engine| {
        let bare: String = text.replace("\\n", "").split_whitespace().collect();
        (0..bare.len().min(4)).any(|skip| {
            let part = &bare.as_bytes()[skip..];
            let part = &part[..part.len() / 4 * 4];
            engine
                .decode(part)
                .is_ok_and(|bytes| contains(&bytes, secret.as_bytes()))
        })
    });
    decoded || contains(text.as_bytes(), secret.as_bytes())
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[test]
fn every_form_is_marked() {
    for secret in [
        SECRET,
        "0123456789ab",
        "a long one of many words ......................... end",
    ] {
        let scrubber = scrubber(&[secret]);
        for form in forms(secret) {
            let text = format!("before {form} behind");
            let clean = scrubber.text(&text);
            assert!(clean.contains("[TOKEN removed]"), "{text}\n{clean}");
            assert!(
                clean.starts_with("before ") && clean.ends_with(" behind"),
                "{clean}"
            );
            assert!(!shows(&clean, secret), "{text}\n{clean}");
        }
    }
}

#[test]
fn the_mark_is_all_that_changes() {
    let scrubber = scrubber(&["0123456789ab", "another-secret"]);
    let text = "a=0123456789ab&b=another-secret&c=0123456789ab0123456789ab";
    let clean = "a=[TOKEN removed]&b=[TOKEN removed]&c=[TOKEN removed][TOKEN removed]";
    assert_eq!(scrubber.text(text), clean);
    assert!(matches!(scrubber.text("0123456789a"), Cow::Borrowed(_)));
}

#[test]
fn of_secrets_within_each_other_the_whole_goes() {
    let scrubber = scrubber(&["0123456789ab", "xx0123456789abyy"]);
    assert_eq!(scrubber.text("<xx0123456789abyy>"), "<[TOKEN removed]>");
    assert_eq!(scrubber.text("<x0123456789aby>"), "<x[TOKEN removed]y>");
}

#[test]
fn short_secrets_are_not_looked_for() {
    let scrubber = scrubber(&["elevenbytes"]);
    assert!(scrubber.is_idle());
    assert_eq!(scrubber.text("elevenbytes"), "elevenbytes");
    assert!(self::scrubber(&[]).is_idle());
}

#[test]
fn nothing_of_a_secret_is_printed() {
    let scrubber = scrubber(&[SECRET]);
    assert_eq!(format!("{scrubber:?}"), "Scrubber(1 secrets)");
    let mut stream = scrubber.stream();
    stream.push(b"x");
    assert!(!format!("{stream:?}").contains("sk-"));
}

#[test]
fn what_is_held_back_is_bounded() {
    for piece in ["x", "\\", "%", "%5c", "\\u00", "ab\n", "\r\n"] {
        let piece = piece.repeat(100);
        let mut stream = scrubber(&["0123456789ab"]).stream();
        let (mut came, mut out) = (0, 0);
        for _ in 0..1_000 {
            came += piece.len();
            out += stream.push(piece.as_bytes()).len();
            assert!(came - out < 2_000, "{came}: {out}");
        }
        assert_eq!(out + stream.finish().len(), came);
    }
}

#[test]
fn a_line_that_began_in_what_went_on_is_one_all_the_same() {
    let secret = "0123456789ab";
    let scrubber = scrubber(&[secret]);
    for before in 0..400 {
        for end in ["\n", "\r\n", "\\n", "%0A"] {
            let whole = [&vec![b'z'; before][..], secret.as_bytes(), &[b'y'; 200]].concat();
            let text = format!("a {} b", lines(&STANDARD.encode(&whole), 60, end));
            let mut stream = scrubber.stream();
            let mut out = Vec::new();
            for byte in text.as_bytes() {
                out.extend(stream.push(&[*byte]));
            }
            out.extend(stream.finish());
            let marked = scrubber.text(&text);
            assert!(marked.contains("[TOKEN removed]"), "{text}");
            assert_eq!(&*String::from_utf8_lossy(&out), &*marked, "{text}");
        }
    }
}

#[test]
fn the_end_of_a_line_behind_a_secret_stays() {
    let scrubber = scrubber(&["0123456789ab"]);
    let lines = format!("{}{}", "7".repeat(36), hex(b"0123456789ab"));
    let text = format!("{lines}\r\n{}", "8".repeat(40));
    let clean = format!("{}[TOKEN removed]\r\n{}", "7".repeat(36), "8".repeat(40));
    assert_eq!(scrubber.text(&text), clean);
}

proptest! {
    #[test]
    fn a_stream_marks_what_the_whole_marks(
        parts in prop::collection::vec((0..40_usize, "[a-z%\\\\\n]{0,90}"), 1..12),
        cuts in prop::collection::vec(1..200_usize, 1..60),
    ) {
        let all = forms(SECRET);
        let text: String = parts
            .iter()
            .map(|(form, filler)| format!("{filler} {} ", all.get(*form).map_or("", String::as_str)))
            .collect();
        let scrubber = scrubber(&[SECRET]);
        let (mut stream, mut out) = (scrubber.stream(), Vec::new());
        let mut rest = text.as_bytes();
        for cut in cuts.iter().cycle() {
            let (piece, behind) = rest.split_at((*cut).min(rest.len()));
            out.extend(stream.push(piece));
            rest = behind;
            if rest.is_empty() {
                break;
            }
        }
        out.extend(stream.finish());
        prop_assert!(!shows(&String::from_utf8_lossy(&out), SECRET));
        prop_assert_eq!(&*String::from_utf8_lossy(&out), &*scrubber.text(&text));
    }

    #[test]
    fn innocent_bytes_stay(bytes: Vec<u8>, text in "[ -~\n\\\\%]{0,400}") {
        let scrubber = scrubber(&["a-secret-that-is-nowhere-in-it"]);
        prop_assert_eq!(&*scrubber.bytes(&bytes), &bytes[..]);
        prop_assert_eq!(&*scrubber.text(&text), &text);
    }

    #[test]
    fn any_secret_is_found_in_any_form(secret in "[ -~]{12,80}", form in 0..40_usize) {
        let all = forms(&secret);
        let form = &all[form % all.len()];
        let clean = scrubber(&[&secret]).text(&format!("<{form}>")).into_owned();
        prop_assert!(clean.contains("[TOKEN removed]"), "{} in {}", secret, form);
    }
}
