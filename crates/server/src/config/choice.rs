//! Words of which only a few are allowed: who writes another one is told which.

use serde::{
    Deserialize as _, Deserializer,
    de::{DeserializeOwned, Error, IntoDeserializer as _, value},
};

/// Reads one such word.
pub(super) fn word<'de, D: Deserializer<'de>, T: DeserializeOwned>(
    deserializer: D,
) -> Result<T, D::Error> {
    read(&String::deserialize(deserializer)?)
}

/// Reads a list of them.
pub(super) fn words<'de, D: Deserializer<'de>, T: DeserializeOwned>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    let words = Vec::<String>::deserialize(deserializer)?;
    words.iter().map(|word| read(word)).collect()
}

fn read<T: DeserializeOwned, E: Error>(word: &str) -> Result<T, E> {
    // The layers' own words for this name neither the key nor what is allowed.
    let read = T::deserialize(word.into_deserializer());
    read.map_err(|error: value::Error| E::custom(error))
}
