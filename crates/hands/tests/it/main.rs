//! Real sandboxes, on this host.

mod bash;
mod drivers;
mod support;
