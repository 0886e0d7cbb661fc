//! How far a schema was brought.

/// From which version to which a schema was brought.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Migrated {
    /// The version before; 0 is an empty database.
    pub from: usize,
    /// The version now.
    pub to: usize,
}
