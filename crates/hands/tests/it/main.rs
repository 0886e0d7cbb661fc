//! Real sandboxes, on this host.

mod alone;
mod bash;
mod drivers;
mod escapes;
mod files;
mod life;
mod limits;
mod support;
mod timing;
