//! Simulation: a seed decides what clients, brains, hands, the model, the store, the network and the
//! clock do, and every append is looked at.

mod client;
mod net;
mod node;
mod reader;
mod run;
mod script;
mod seeds;
mod twist;
mod verdict;
mod watch;
pub(crate) mod world;

pub(crate) use net::alive;
pub(crate) use watch::Watcher;
