//! Real sandboxes, on this host.

mod bash;
mod support;
