//! Enums that are words on the wire: each word is written once.

/// Declares an enum with its words: `TABLE` for reading, serde for the wire.
///
/// Public ones also have `as_str`. A `#[serde(tag = "type")]` makes the wire form an object.
macro_rules! words {
    ($(#[$meta:meta])* pub enum $name:ident { $($(#[$of:meta])* $variant:ident = $word:literal,)* }) => {
        #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, serde::Deserialize, serde::Serialize)]
        $(#[$meta])*
        pub enum $name { $($(#[$of])* #[serde(rename = $word)] $variant,)* }

        impl $name {
            /// Every value with its word, in the order of declaration.
            pub const TABLE: &'static [(&'static str, Self)] = &[$(($word, Self::$variant),)*];

            /// Returns the word of the wire.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }
        }
    };
    ($(#[$meta:meta])* enum $name:ident { $($variant:ident = $word:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        enum $name { $($variant,)* }

        impl $name {
            const TABLE: &'static [(&'static str, Self)] = &[$(($word, Self::$variant),)*];
        }
    };
}

pub(crate) use words;
