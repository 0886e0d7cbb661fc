//! What a seal holds against: other places, other keys, and every changed byte.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use proptest::prelude::*;

use super::*;
use crate::{
    derive::derive,
    keyring::{Source, Sources},
};

/// Draws bytes that differ, from one number.
#[derive(Debug)]
struct Counting(AtomicU64);

impl Entropy for Counting {
    fn fill(&self, buffer: &mut [u8]) {
        let next = self.0.fetch_add(1, Ordering::Relaxed);
        let drawn = derive(&[0; 32], "test", &next.to_be_bytes());
        for (byte, drawn) in buffer.iter_mut().zip(drawn.iter().cycle()) {
            *byte = *drawn;
        }
    }
}

const ONE: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
const OTHER: &str = "100102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

fn ring(keys: &str) -> Sources {
    let source = Source::Set(keys.into());
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let opened = Sources::open(source, Arc::new(Counting(AtomicU64::new(0))));
    runtime.unwrap().block_on(opened)
}

const PLACE: Place<'static> = Place {
    owner: "vcrd_1",
    parent: "vlt_1",
    revision: 3,
};

fn sealed(keys: &str, plain: &str) -> SealedSecret {
    let entropy = Counting(AtomicU64::new(9));
    seal(&ring(keys), &entropy, PLACE, plain.as_bytes()).unwrap()
}

#[test]
fn a_secret_comes_back_at_its_place_alone() {
    let (ring, sealed) = (ring(ONE), sealed(ONE, "token-1"));
    assert_eq!(&open(&ring, &sealed).unwrap()[..], b"token-1");
    let swap = |owner: &str, parent: &str, revision| SealedSecret {
        owner: owner.to_owned(),
        parent: parent.to_owned(),
        revision,
        ..sealed.clone()
    };
    for swapped in [
        swap("vcrd_2", "vlt_1", 3),
        swap("vcrd_1", "vlt_2", 3),
        swap("vcrd_1", "vlt_1", 2),
        swap("vcrd_1v", "lt_1", 3),
    ] {
        let owner = swapped.owner.clone();
        assert_eq!(open(&ring, &swapped), Err(Opening::Tampered { owner }));
        rewrap(&ring, &swapped).unwrap_err();
    }
}

#[test]
fn each_sealing_has_a_key_of_its_own() {
    let (ring, entropy) = (ring(ONE), Counting(AtomicU64::new(9)));
    let seal = || seal(&ring, &entropy, PLACE, b"token-1").unwrap().sealed;
    assert_ne!(seal(), seal());
}

#[test]
fn no_changed_byte_and_no_end_that_was_cut_off_opens() {
    let (ring, sealed) = (ring(ONE), sealed(ONE, "token-1"));
    for at in 0..sealed.sealed.len() {
        let mut changed = sealed.clone();
        changed.sealed[at] ^= 1;
        open(&ring, &changed).unwrap_err();
        let mut cut = sealed.clone();
        cut.sealed.truncate(at);
        open(&ring, &cut).unwrap_err();
    }
}

#[test]
fn a_wrong_master_key_names_both() {
    let error = open(&ring(OTHER), &sealed(ONE, "token-1")).unwrap_err();
    assert!(error.is_of_master_key(), "{error}");
    for ring in [ring(ONE), ring(OTHER)] {
        let name = ring.names().unwrap()[0].to_string();
        assert!(error.to_string().contains(&name), "{error}");
    }
}

#[test]
fn a_seal_of_a_later_form_is_told_from_a_changed_one() {
    let mut sealed = sealed(ONE, "token-1");
    sealed.sealed[0] = 2;
    let error = open(&ring(ONE), &sealed).unwrap_err();
    assert!(matches!(error, Opening::Newer { .. }), "{error}");
}

#[test]
fn a_record_moves_under_the_current_master_key() {
    let sealed = sealed(ONE, "token-1");
    let both = ring(&format!("{OTHER},{ONE}"));
    let moved = rewrap(&both, &sealed).unwrap();
    assert_eq!(moved.master, both.names().unwrap()[0].to_string());
    assert_eq!(&open(&ring(OTHER), &moved).unwrap()[..], b"token-1");
    open(&ring(ONE), &moved).unwrap_err();
    assert_eq!(moved.revision, sealed.revision);
}

#[test]
fn a_sealed_secret_shows_nothing() {
    let sealed = sealed(ONE, "a-long-secret-token");
    let shown = String::from_utf8_lossy(&sealed.sealed).into_owned();
    for part in ["a-long", "token", &ONE[..8]] {
        assert!(!shown.contains(part), "{part}");
    }
}

proptest! {
    #[test]
    fn any_secret_comes_back(text: Vec<u8>, owner: String, parent: String, revision: u64) {
        let (ring, entropy) = (ring(ONE), Counting(AtomicU64::new(9)));
        let place = Place { owner: &owner, parent: &parent, revision };
        let sealed = seal(&ring, &entropy, place, &text).unwrap();
        prop_assert_eq!(&open(&ring, &sealed).unwrap()[..], &text[..]);
    }

    #[test]
    fn no_bytes_of_a_stranger_open_or_panic(bytes: Vec<u8>, form in 0..3_u8) {
        let mut stranger = sealed(ONE, "token-1");
        stranger.sealed = [vec![form], bytes].concat();
        prop_assert!(open(&ring(ONE), &stranger).is_err());
    }
}
