//! Names of the kernel's metrics.

/// Leases that this process took.
pub(crate) const CLAIMS: &str = "outlast_kernel_claims_total";
/// Calls that were handed to a hand, by how they ended.
pub(crate) const CALLS: &str = "outlast_kernel_calls_total";
/// Seconds from asking for a hand to having it.
pub(crate) const PROVISION: &str = "outlast_kernel_provision_seconds";
/// Hands that were lost.
pub(crate) const HANDS_LOST: &str = "outlast_kernel_hands_lost_total";
/// Turns that were given up because no brain got on with them.
pub(crate) const GIVEN_UP: &str = "outlast_kernel_turns_given_up_total";
