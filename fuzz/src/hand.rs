//! The parsers of a sandbox's way out.

#[path = "../../crates/egress/src/hand/answer.rs"]
pub(crate) mod answer;
#[path = "../../crates/egress/src/hand/body.rs"]
pub(crate) mod body;
#[path = "../../crates/egress/src/hand/credentials.rs"]
pub(crate) mod credentials;
#[path = "../../crates/egress/src/hand/framing.rs"]
pub(crate) mod framing;
#[path = "../../crates/egress/src/hand/hello.rs"]
pub(crate) mod hello;
#[path = "../../crates/egress/src/hand/hop.rs"]
pub(crate) mod hop;
#[path = "../../crates/egress/src/hand/managers.rs"]
pub(crate) mod managers;
#[path = "../../crates/egress/src/hand/options.rs"]
pub(crate) mod options;
#[path = "../../crates/egress/src/hand/place.rs"]
pub(crate) mod place;
#[path = "../../crates/egress/src/hand/policy.rs"]
pub(crate) mod policy;
#[path = "../../crates/egress/src/hand/stream.rs"]
pub(crate) mod stream;
#[path = "../../crates/egress/src/hand/swapped.rs"]
pub(crate) mod swapped;
#[path = "../../crates/egress/src/hand/worn.rs"]
pub(crate) mod worn;
