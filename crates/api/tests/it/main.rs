//! The API from outside, over a store in memory, with brains that the tests play by hand.

mod agents;
mod bench;
mod brain;
mod concurrency;
mod environments;
mod events;
mod limits;
mod once;
mod paging;
mod previews;
mod reader;
mod redact;
mod sessions;
mod sockets;
mod streams;
mod threads;
mod transport;
