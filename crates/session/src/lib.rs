//! What a session is: its records, the state they fold to, and what may be appended.
//!
//! Everything here is pure. [`admit()`] alone decides what is legal and alone derives what no single
//! writer can know: statuses, usage, `requires_action`, copies, wake-ups. [`fold()`] turns records
//! into [`State`]; replaying a log from its first record gives the state its writers saw.

#![forbid(unsafe_code)]

mod admit;
pub mod body;
pub mod chain;
mod deadline;
mod decide;
mod fold;
mod format;
mod kind;
mod proposal;
mod record;
mod remains;
mod state;
pub mod view;
mod waker;

pub use admit::admit;
pub use decide::{Answer, Context, Decision, Ids, Refusal, Rules};
pub use fold::{FoldError, fold};
pub use format::{Change, Formats, UnknownFormat};
pub use kind::{Kind, UnknownKind};
pub use proposal::*;
pub use record::{Body, Draft, DraftBody, Entry, Json, Origin, Record, json};
pub use remains::{ERASED, remains};
pub use state::*;
pub use waker::{SET_BACK, Waker};
