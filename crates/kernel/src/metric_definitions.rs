//! Names of the kernel's metrics.

/// Leases that this process took.
pub(crate) const CLAIMS: &str = "outlast_kernel_claims_total";
/// Calls that were handed to a hand, by how they ended.
pub(crate) const CALLS: &str = "outlast_kernel_calls_total";
/// Deadlines of sessions that ran out and were kept.
pub(crate) const EXPIRED: &str = "outlast_kernel_deadlines_expired_total";
/// Threads that are unfinished, by what they wait for, as last counted.
pub(crate) const UNFINISHED: &str = "outlast_kernel_unfinished_threads";
/// Threads that nobody would have woken, as last counted; always 0 if all is right.
pub(crate) const STUCK: &str = "outlast_kernel_stuck_threads";
/// Seconds from asking for a hand to having it.
pub(crate) const PROVISION: &str = "outlast_kernel_provision_seconds";
/// Hands that were lost.
pub(crate) const HANDS_LOST: &str = "outlast_kernel_hands_lost_total";
/// Attempts at a checkpoint, by how they ended.
pub(crate) const CHECKPOINTS: &str = "outlast_kernel_checkpoints_total";
/// Seconds from beginning a checkpoint to its record.
pub(crate) const CHECKPOINT: &str = "outlast_kernel_checkpoint_seconds";
/// Bytes of checkpoints that were stored.
pub(crate) const CHECKPOINT_BYTES: &str = "outlast_kernel_checkpoint_bytes_total";
/// Turns that were given up and parked because no brain got on with them.
pub(crate) const PARKED: &str = "outlast_kernel_turns_parked_total";
/// Hands that were ended: unused, too old, or of no session any more.
pub(crate) const HANDS_REAPED: &str = "outlast_kernel_hands_reaped_total";
/// Hands that live, as last counted.
pub(crate) const HANDS_LIVE: &str = "outlast_kernel_hands_live";
/// Beats, by what came of them: `alive`, `dead` or `failed`.
pub(crate) const BEATS: &str = "outlast_kernel_beats_total";
/// Processes that this one declared dead.
pub(crate) const DECLARED: &str = "outlast_kernel_processes_declared_dead_total";
/// Calls that were stopped here because another node goes on with their session.
pub(crate) const ABANDONED: &str = "outlast_kernel_calls_abandoned_total";
/// Lines of the audit log that could not be written: of what was refused for that, and of outcomes.
pub(crate) const AUDIT_LOST: &str = "outlast_kernel_audit_lost_total";
