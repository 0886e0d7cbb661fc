//! The document holds what the server answers, and the server what the document says.
//!
//! Every answer that a test of this room reads is compared with it as well (`Bench::ask`).

mod bodies;
mod document;
mod garbled;
mod mutated;
mod queries;
mod routes;
mod scene;
mod schema;
mod words;

pub(crate) use document::Document;
