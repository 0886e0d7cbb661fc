//! The hash chain that makes a log provably whole.
//!
//! `digest = BLAKE3(salt, body)`; `hash(0) = BLAKE3("outlast-log-1", session id)`; `hash(n)` covers
//! `hash(n-1)` and the header of record n with its digest: position u64, thread u32, at i64, origin,
//! kind, event id (empty where there is none), version u16, digest; integers big-endian, texts behind
//! a u16 length. A body can be erased, salt included, without breaking the chain.

use outlast_protocol::{
    Micros,
    id::{EventId, SessionId},
};

use crate::{Kind, Origin};

/// The part of a record that its hash covers.
#[derive(Clone, Copy, Debug)]
pub struct Header<'a> {
    /// The record's place.
    pub position: u64,
    /// Its thread.
    pub thread: u32,
    /// Its time.
    pub at: Micros,
    /// Its writer.
    pub origin: &'a Origin,
    /// Its kind.
    pub kind: Kind,
    /// Its event id: what clients refer to it by must be as safe as its body.
    pub event: Option<EventId>,
    /// The shape of its body.
    pub version: u16,
    /// The digest of its body.
    pub digest: &'a [u8; 32],
}

/// Returns the hash that record 1 follows.
pub fn genesis(session: SessionId) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"outlast-log-1");
    hasher.update(session.to_string().as_bytes());
    hasher.finalize().into()
}

/// Returns the salted digest of a body.
pub fn digest(salt: &[u8; 16], body: &str) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(salt);
    hasher.update(body.as_bytes());
    hasher.finalize().into()
}

/// Returns the hash of a record that follows `previous`.
pub fn hash(previous: &[u8; 32], header: &Header<'_>) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(previous);
    hasher.update(&header.position.to_be_bytes());
    hasher.update(&header.thread.to_be_bytes());
    hasher.update(&header.at.0.to_be_bytes());
    prefixed(&mut hasher, &header.origin.to_string());
    prefixed(&mut hasher, header.kind.text());
    prefixed(
        &mut hasher,
        &header.event.map(|id| id.to_string()).unwrap_or_default(),
    );
    hasher.update(&header.version.to_be_bytes());
    hasher.update(header.digest);
    hasher.finalize().into()
}

/// Adds a text behind its length, so that no two headers read alike.
fn prefixed(hasher: &mut blake3::Hasher, text: &str) {
    hasher.update(&u16::try_from(text.len()).unwrap_or(u16::MAX).to_be_bytes());
    hasher.update(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header<'a>(origin: &'a Origin, digest: &'a [u8; 32]) -> Header<'a> {
        let (kind, at) = (Kind::UserMessage, Micros(5));
        let event = None;
        Header {
            position: 1,
            thread: 0,
            at,
            origin,
            kind,
            event,
            version: 1,
            digest,
        }
    }

    #[test]
    fn every_part_of_a_header_counts() {
        let (origin, zero, one) = (Origin::Server, [0; 32], [1; 32]);
        let base = header(&origin, &zero);
        let brain = Origin::Brain { epoch: 1, seq: 1 };
        let others = [
            Header {
                position: 2,
                ..base
            },
            Header { thread: 1, ..base },
            Header {
                at: Micros(6),
                ..base
            },
            Header {
                origin: &brain,
                ..base
            },
            Header {
                kind: Kind::SystemMessage,
                ..base
            },
            Header {
                event: EventId::parse("sevt_010000000000000000000000"),
                ..base
            },
            Header { version: 2, ..base },
            Header {
                digest: &one,
                ..base
            },
        ];
        for other in others {
            assert_ne!(hash(&[9; 32], &base), hash(&[9; 32], &other));
        }
        assert_ne!(hash(&[9; 32], &base), hash(&[8; 32], &base));
    }

    #[test]
    fn a_salt_hides_equal_bodies() {
        assert_ne!(digest(&[0; 16], "{}"), digest(&[1; 16], "{}"));
    }
}
