//! Context strategies: from records to the messages of a request, one file each.

mod whole;

pub(crate) use whole::{Message, NAME, Role, Unreadable, Whole};
