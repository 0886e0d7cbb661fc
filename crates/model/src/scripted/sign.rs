//! Signatures of scripted thinking, so that a changed block is noticed.

/// Signs thinking as it is shown.
///
/// This is a checksum under a fixed label, no secret: it finds mistakes, not forgers, and holds
/// across processes.
pub(super) fn signature(thinking: &str) -> String {
    let hash = blake3::derive_key("outlast scripted thinking 1", thinking.as_bytes());
    format!("scripted.{}", blake3::Hash::from_bytes(hash).to_hex())
}

/// Hides thinking in the data of a redacted block.
pub(super) fn redact(thinking: &str) -> String {
    use std::fmt::Write as _;

    let mut data = signature(thinking);
    data.push('.');
    for byte in thinking.bytes() {
        // Writing to a string cannot fail.
        let _ = write!(data, "{byte:02x}");
    }
    data
}

/// Tells whether redacted data was made here and is whole.
pub(super) fn is_redacted(data: &str) -> bool {
    let Some((_, hex)) = data.rsplit_once('.') else {
        return false;
    };
    let digits: Option<Vec<u8>> = hex
        .chars()
        .map(|digit| {
            digit
                .to_digit(16)
                .and_then(|digit| u8::try_from(digit).ok())
        })
        .collect();
    let Some(digits) = digits else {
        return false;
    };
    let bytes = digits
        .chunks(2)
        .map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit))
        .collect();
    String::from_utf8(bytes).is_ok_and(|thinking| redact(&thinking) == data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_noticed() {
        assert_ne!(signature("a"), signature("b"));
        let data = redact("secret ä");
        assert!(is_redacted(&data));
        assert!(is_redacted(&redact("")));
        for broken in [
            "",
            ".",
            "x.zz",
            &data.replace("7365", "7366"),
            &format!("{data}0"),
        ] {
            assert!(!is_redacted(broken), "{broken}");
        }
    }
}
