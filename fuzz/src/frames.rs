//! What PID 1 of a sandbox says to its host: the one stream that code inside could get at.

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{
    frame::{Decoder, FromInit, ToInit, encode},
    pieces::cuts,
};

/// Reads frames of both directions. However they are cut, the same ones are there, and each one is read
/// again as it was written.
pub fn frames(data: &[u8]) {
    both::<FromInit>(data);
    both::<ToInit>(data);
}

fn both<T: DeserializeOwned + Serialize>(data: &[u8]) {
    let mut first = None;
    for pieces in cuts(data) {
        let read = read::<T>(&pieces);
        match &first {
            None => first = Some(read),
            Some(first) => assert_eq!(*first, read),
        }
    }
}

/// Returns what was read, and whether it ended with something that is no frame.
fn read<T: DeserializeOwned + Serialize>(pieces: &[&[u8]]) -> (Vec<Value>, bool) {
    let (mut decoder, mut all) = (Decoder::default(), Vec::new());
    for piece in pieces {
        decoder.push(piece);
        loop {
            match decoder.take::<T>() {
                Ok(Some(message)) => all.push(again(&message)),
                Ok(None) => break,
                Err(_) => return (all, true),
            }
        }
    }
    (all, false)
}

fn again<T: DeserializeOwned + Serialize>(message: &T) -> Value {
    let mut decoder = Decoder::default();
    decoder.push(&encode(message).unwrap());
    let read: T = decoder.take().unwrap().unwrap();
    let (before, after) = (serde_json::to_value(message), serde_json::to_value(&read));
    assert_eq!(before.as_ref().unwrap(), after.as_ref().unwrap());
    after.unwrap()
}
