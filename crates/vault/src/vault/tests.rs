//! What a seal holds against: other places, other keys, and every changed byte.

use proptest::prelude::*;

use super::*;
use crate::{
    Secret,
    keyring::{Source, Sources},
};

/// Draws bytes that differ, from one number.
#[derive(Debug)]
struct Counting(std::sync::atomic::AtomicU64);

impl Entropy for Counting {
    fn fill(&self, buffer: &mut [u8]) {
        let next = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let drawn = derive(&[0; 32], "test", &next.to_be_bytes());
        for (byte, drawn) in buffer.iter_mut().zip(drawn.iter().cycle()) {
            *byte = *drawn;
        }
    }
}

const ONE: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
const OTHER: &str = "100102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

fn vault(keys: &str) -> Vault {
    let entropy = Arc::new(Counting(0.into()));
    let source = Source::Set(keys.into());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let ring = runtime.block_on(Sources::open(source, entropy.clone()));
    Vault::new(Arc::new(ring), entropy)
}

fn bearer(token: &str) -> Content {
    Content::StaticBearer {
        url: "https://mcp.example.com".to_owned(),
        token: token.into(),
    }
}

fn token(content: &Content) -> &str {
    content.secrets()[0].expose()
}

const PLACE: Place<'static> = Place {
    owner: "vcrd_1",
    parent: "vlt_1",
    revision: 3,
};

#[test]
fn a_secret_comes_back_at_its_place_alone() {
    let vault = vault(ONE);
    let sealed = vault.seal(PLACE, &bearer("token-1")).unwrap();
    assert_eq!(token(&vault.open(PLACE, &sealed).unwrap()), "token-1");
    let swapped = [
        Place {
            owner: "vcrd_2",
            ..PLACE
        },
        Place {
            parent: "vlt_2",
            ..PLACE
        },
        Place {
            revision: 2,
            ..PLACE
        },
        Place {
            owner: "vcrd_1v",
            parent: "lt_1",
            ..PLACE
        },
    ];
    for place in swapped {
        let error = vault.open(place, &sealed).unwrap_err();
        let owner = place.owner.to_owned();
        assert_eq!(error, Opening::Tampered { owner });
    }
}

#[test]
fn each_sealing_has_a_key_of_its_own() {
    let vault = vault(ONE);
    let content = bearer("token-1");
    let (one, other) = (vault.seal(PLACE, &content), vault.seal(PLACE, &content));
    assert_ne!(one.unwrap().bytes, other.unwrap().bytes);
}

#[test]
fn no_changed_byte_and_no_end_that_was_cut_off_opens() {
    let vault = vault(ONE);
    let sealed = vault.seal(PLACE, &bearer("token-1")).unwrap();
    for at in 0..sealed.bytes.len() {
        let mut changed = sealed.clone();
        changed.bytes[at] ^= 1;
        vault.open(PLACE, &changed).unwrap_err();
        let mut cut = sealed.clone();
        cut.bytes.truncate(at);
        vault.open(PLACE, &cut).unwrap_err();
    }
}

#[test]
fn a_wrong_master_key_names_both() {
    let (right, wrong) = (vault(ONE), vault(OTHER));
    let sealed = right.seal(PLACE, &bearer("token-1")).unwrap();
    let error = wrong.open(PLACE, &sealed).unwrap_err();
    assert!(matches!(error, Opening::WrongMasterKey { .. }), "{error}");
    let (right, wrong) = (right.keyring().names(), wrong.keyring().names());
    for name in right.unwrap().into_iter().chain(wrong.unwrap()) {
        assert!(error.to_string().contains(&name.to_string()), "{error}");
    }
}

#[test]
fn a_seal_of_a_later_form_is_told_from_a_changed_one() {
    let vault = vault(ONE);
    let mut sealed = vault.seal(PLACE, &bearer("token-1")).unwrap();
    sealed.bytes[0] = 2;
    let error = vault.open(PLACE, &sealed).unwrap_err();
    assert!(matches!(error, Opening::Newer { .. }), "{error}");
}

#[test]
fn a_record_moves_under_the_current_master_key() {
    let sealed = vault(ONE).seal(PLACE, &bearer("token-1")).unwrap();
    let both = vault(&format!("{OTHER},{ONE}"));
    let moved = both.rewrap(PLACE, &sealed).unwrap();
    assert_eq!(moved.master, both.keyring().names().unwrap()[0]);
    assert_eq!(token(&vault(OTHER).open(PLACE, &moved).unwrap()), "token-1");
    vault(ONE).open(PLACE, &moved).unwrap_err();
    let elsewhere = Place {
        revision: 4,
        ..PLACE
    };
    both.rewrap(elsewhere, &sealed).unwrap_err();
}

#[test]
fn what_is_derived_outlives_the_master_key() {
    let one = vault(ONE);
    assert!(one.derive("ca", b"sbx_1").is_none(), "there is no root yet");
    let root = one.new_root().unwrap();
    one.take_root(&root).unwrap();
    let derived = one.derive("ca", b"sbx_1").unwrap();
    let both = vault(&format!("{OTHER},{ONE}"));
    let moved = both.rewrap(ROOT, &root).unwrap();
    let other = vault(OTHER);
    other.take_root(&root).unwrap_err();
    other.take_root(&moved).unwrap();
    assert_eq!(other.derive("ca", b"sbx_1").unwrap(), derived);
    assert_ne!(other.derive("ca", b"sbx_2").unwrap(), derived);
    assert!(!format!("{other:?}").contains(&format!("{:?}", &derived[..4])));
}

proptest! {
    #[test]
    fn any_secret_comes_back(text: String, owner: String, parent: String, revision: u64) {
        let vault = vault(ONE);
        let place = Place { owner: &owner, parent: &parent, revision };
        let sealed = vault.seal(place, &bearer(&text)).unwrap();
        let opened = vault.open(place, &sealed).unwrap();
        prop_assert_eq!(token(&opened), &text);
    }

    #[test]
    fn no_bytes_of_a_stranger_open_or_panic(bytes: Vec<u8>, form in 0..3_u8) {
        let vault = vault(ONE);
        let master = vault.keyring().names().unwrap()[0].clone();
        let bytes = [vec![form], bytes].concat();
        let opened = vault.open(PLACE, &Sealed { master, bytes });
        prop_assert!(opened.is_err());
    }
}

#[test]
fn a_sealed_secret_shows_nothing() {
    let vault = vault(ONE);
    let sealed = vault.seal(PLACE, &bearer("a-long-secret-token")).unwrap();
    let shown = String::from_utf8_lossy(&sealed.bytes).into_owned() + &format!("{vault:?}");
    for part in ["a-long", "token", "example", &ONE[..8]] {
        assert!(!shown.contains(part), "{part}");
    }
    assert_eq!(format!("{:?}", Secret::from("x")), "Secret(..)");
}
