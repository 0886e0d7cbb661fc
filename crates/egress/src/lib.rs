//! Forwarders that hold a credential while one request passes.
//!
//! The model gateway, in process and over HTTP: the one place with the model key. It writes the spans and the usage,
//! so that no brain has to be believed about either. And the egress of hands, their only way out.

#![forbid(unsafe_code)]

pub mod apart;
mod budget;
mod forms;
mod front;
mod gateway;
mod guarded;
pub mod hand;
mod metered;
mod metric_definitions;
mod replace;
mod routes;
mod sweep;

pub use budget::{Budget, Payer, Unbounded};
pub use front::Front;
pub use gateway::Gateway;
pub use routes::Routes;
pub use sweep::Sweeper;
