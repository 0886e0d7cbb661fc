//! Large bodies, files and checkpoints under plain keys.
//!
//! [`Blobs`] is the contract, [`Folder`] keeps them in a local directory, [`S3`] in a bucket of an
//! S3-compatible service, and [`conformance`] is what every implementation has to pass.

#![forbid(unsafe_code)]

mod away;
pub mod conformance;
mod contract;
mod folder;
mod key;
pub mod s3;

pub use away::{Away, Lack, Teller, lacks_room};
pub use contract::{Blobs, Error, Reader};
pub use folder::Folder;
pub use key::{BadKey, Key};
pub use s3::S3;
