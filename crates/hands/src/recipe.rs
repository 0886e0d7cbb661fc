//! What a hand is made from.

use std::time::Duration;

use outlast_protocol::id::IncarnationId;

/// Everything that a hand is made from.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Recipe {
    /// The life to begin.
    pub incarnation: IncarnationId,
    /// Whose writable layer this one takes over, if it is still on this machine. It ends first.
    pub predecessor: Option<IncarnationId>,
    /// Its bounds.
    pub limits: Limits,
}

/// Upper bounds for one hand.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limits {
    /// Memory of everything together, in bytes.
    pub memory_bytes: u64,
    /// Processes and threads.
    pub pids: u32,
    /// Processor time per second, in thousandths of one processor.
    pub cpu_millis: u32,
    /// The longest that any call may run, whatever it asks for.
    pub call: Duration,
    /// How much of a command's output is kept: its last bytes.
    pub output_bytes: usize,
}

impl Default for Limits {
    /// Two processors, 2 GiB, 512 processes, an hour per call, 100 KiB of output.
    fn default() -> Self {
        Self {
            memory_bytes: 2 << 30,
            pids: 512,
            cpu_millis: 2000,
            call: Duration::from_secs(3600),
            output_bytes: 100 * 1024,
        }
    }
}
