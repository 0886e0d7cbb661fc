//! Which start of the machine this is.

use std::fs;

/// Returns what names this boot of the machine; empty if the system does not say.
pub fn boot() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
}
