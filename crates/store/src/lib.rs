//! The session log and plain resources, durable: the only room that speaks SQL.
//!
//! [`Log`] and [`Resources`] are contracts; [`sqlite`] implements them, and every implementation
//! passes the same [`conformance`] suite. What is legal in a log is not decided here but by
//! `outlast_session::admit`, inside the transaction that appends.

#![forbid(unsafe_code)]

mod audit;
mod audit_log;
mod blob;
mod bodies;
pub mod conformance;
mod deciding;
mod files;
mod heads;
mod ids;
mod intake;
mod keys;
mod lines;
mod lock;
mod log;
pub mod metric_definitions;
mod onlooker;
pub mod postgres;
mod projection;
mod resources;
mod schema;
mod seal;
mod secrets;
mod slices;
pub mod sqlite;
mod staging;
mod stored;
mod troubles;
mod verify;
mod waiting;
mod watches;

pub use outlast_blobs::{Away, Lack};

pub use audit::{Audit, Auditor, Damage, Damaged, Found};
pub use audit_log::{AuditLine, AuditLog, AuditPage, AuditQuery, Trim};
pub use blob::Blob;
pub use files::{FilePage, FileQuery, Files, Output, StoredFile};
pub use ids::Minter;
pub use intake::{Intake, IntakeError, Records, Source, check};
pub use keys::{ApiKey, KeyPage, KeyQuery, Keys};
pub use lock::LockError;
pub use log::*;
pub use onlooker::{OfflineError, Onlooker, Show};
pub use resources::*;
pub use schema::Migrated;
pub use seal::{End, Find, INLINE, Material, seal};
pub use secrets::{SealedSecret, Sealing, Secrets, Wards};
pub use troubles::Trouble;
pub use verify::{Broken, Flaw, Verifier, verify};
