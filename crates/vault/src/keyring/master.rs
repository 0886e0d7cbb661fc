//! One master key, and how its text is read.

use std::fmt;

use aws_lc_rs::aead::LessSafeKey;
use base64::{
    Engine as _,
    engine::{
        DecodePaddingMode, GeneralPurpose,
        general_purpose::{GeneralPurposeConfig, STANDARD},
    },
};
use outlast_protocol::seam::Entropy;
use zeroize::{Zeroize as _, Zeroizing};

use super::{KeyName, NoMasterKey, Wrapped};
use crate::{
    cipher::{cipher, decrypt, encrypt},
    derive::{Key, derive},
};

/// Base64 with or without what fills it up.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// One master key.
pub(super) struct MasterKey {
    pub(super) name: KeyName,
    wrapping: LessSafeKey,
}

impl MasterKey {
    /// Makes one of its 32 bytes. They are used for nothing but to derive others.
    pub(super) fn new(bytes: &[u8; 32]) -> Self {
        let name = derive(bytes, "name", &[]);
        let name = name.iter().take(8).map(|byte| format!("{byte:02x}"));
        Self {
            name: KeyName(format!("mk_{}", name.collect::<String>())),
            wrapping: cipher(&derive(bytes, "wrap", &[])),
        }
    }

    pub(super) fn wrap(&self, key: &Key, place: &[u8], entropy: &dyn Entropy) -> Wrapped {
        Wrapped {
            master: self.name.clone(),
            bytes: encrypt(&self.wrapping, &key[..], place, entropy),
        }
    }

    pub(super) fn unwrap(&self, wrapped: &[u8], place: &[u8]) -> Option<Key> {
        let opened = decrypt(&self.wrapping, wrapped, place)?;
        let mut key = Key::default();
        // Any other length is no key of ours.
        (opened.len() == key.len()).then(|| key.copy_from_slice(&opened))?;
        Some(key)
    }
}

impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MasterKey({})", self.name)
    }
}

/// Reads keys: each 64 hex digits or the base64 of 32 bytes, parted by commas, spaces or lines.
///
/// # Errors
///
/// Which one is none, without a digit of it. `origin` says where the text is from.
pub(super) fn parse(text: &str, origin: &str) -> Result<Vec<MasterKey>, NoMasterKey> {
    let parts: Vec<_> = parts(text).collect();
    if parts.is_empty() {
        return Err(NoMasterKey::new(format!("{origin} holds no master key")));
    }
    let mut keys: Vec<MasterKey> = Vec::with_capacity(parts.len());
    for (at, part) in parts.iter().enumerate() {
        let bytes = bytes(part).ok_or_else(|| {
            NoMasterKey::new(format!(
                "{origin} holds no master key at place {} of {}: 32 bytes as 64 hex digits or as \
                 base64 are one, and there are {} characters (`openssl rand -hex 32` makes one)",
                at + 1,
                parts.len(),
                part.chars().count()
            ))
        })?;
        let key = MasterKey::new(&bytes);
        // Said twice is known once.
        if keys.iter().all(|known| known.name != key.name) {
            keys.push(key);
        }
    }
    Ok(keys)
}

/// Parts the keys of a text.
pub(super) fn parts(text: &str) -> impl Iterator<Item = &str> {
    let parts = text.split([',', ' ', '\t', '\r', '\n']);
    parts.filter(|part| !part.is_empty())
}

/// Reads one key.
fn bytes(text: &str) -> Option<Key> {
    let mut key = Key::default();
    if text.len() == 64 {
        for (byte, digits) in key.iter_mut().zip(text.as_bytes().chunks(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
        }
        // `from_str_radix` takes a sign.
        return text
            .bytes()
            .all(|digit| digit.is_ascii_hexdigit())
            .then_some(key);
    }
    let standard = Zeroizing::new(text.replace('-', "+").replace('_', "/"));
    let mut decoded = Zeroizing::new(BASE64.decode(standard.as_bytes()).ok()?);
    let whole = decoded.len() == key.len();
    if whole {
        key.copy_from_slice(&decoded);
    }
    decoded.zeroize();
    whole.then_some(key)
}

/// Draws a key, as it stands in a file.
pub(super) fn draw(entropy: &dyn Entropy) -> Zeroizing<String> {
    let mut bytes = Key::default();
    entropy.fill(&mut bytes[..]);
    Zeroizing::new(STANDARD.encode(&bytes[..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEX: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

    fn names(text: &str) -> Result<Vec<String>, String> {
        let keys = parse(text, "here").map_err(|error| error.to_string())?;
        Ok(keys.iter().map(|key| key.name.to_string()).collect())
    }

    #[test]
    fn a_key_is_the_same_in_every_form() {
        let bytes: [u8; 32] = std::array::from_fn(|at| u8::try_from(at).unwrap() | 0xf8);
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let base64 = STANDARD.encode(bytes);
        assert!(base64.contains('+') || base64.contains('/'), "{base64}");
        let one = names(&hex).unwrap();
        let url = base64.replace('+', "-").replace('/', "_");
        let upper = hex.to_uppercase();
        let bare = base64.trim_end_matches('=');
        for text in [
            &*upper,
            &*base64,
            &*url,
            bare,
            &format!(" {hex},\n{base64}\r\n"),
        ] {
            assert_eq!(names(text).unwrap(), one);
        }
    }

    #[test]
    fn several_keep_their_order() {
        let other = HEX.replace("00", "01");
        let both = names(&format!("{other}\n{HEX}")).unwrap();
        assert_eq!(both, [names(&other).unwrap(), names(HEX).unwrap()].concat());
    }

    #[test]
    fn what_is_no_key_is_said_without_a_digit_of_it() {
        let signed = format!("+{}", &HEX[1..]);
        for (text, words) in [
            ("", "here holds no master key"),
            (" \n,", "here holds no master key"),
            (&HEX[..62], "at place 1 of 1"),
            (&format!("{HEX}00"), "there are 66 characters"),
            (&signed, "at place 1 of 1"),
            (&format!("{HEX},hunter2"), "at place 2 of 2"),
            ("ä", "there are 1 characters"),
        ] {
            let error = names(text).unwrap_err();
            assert!(error.contains(words), "{error}");
            assert!(
                !error.contains("hunter2") && !error.contains("0a0b"),
                "{error}"
            );
        }
    }

    /// Names stand beside every record: they have to stay.
    #[test]
    fn names_never_change() {
        assert_eq!(names(HEX).unwrap(), ["mk_9c437e879d8f58c8"]);
    }
}
