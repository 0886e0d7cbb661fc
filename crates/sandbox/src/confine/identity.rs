//! Ids, limits and capabilities of the process that becomes the program.

use rustix::{
    process::{Gid, Resource, Rlimit, Uid, getrlimit, setrlimit},
    thread::{
        CapabilitySet, CapabilitySets, capabilities, remove_capability_from_bounding_set,
        set_capabilities, set_no_new_privs, set_thread_groups, set_thread_res_gid,
        set_thread_res_uid,
    },
};

use super::{At as _, Failure};
use crate::{Limits, mapping::Mode, plan::SPARE_PIDS};

/// What PID 1 keeps in privileged mode: to start commands under their own user and to end them.
const KEPT: CapabilitySet = CapabilitySet::SETUID
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETPCAP)
    .union(CapabilitySet::KILL);

/// The highest capability number that the kernel headers leave room for.
const CAPABILITIES: u32 = 63;

/// Becomes the user of PID 1 inside.
pub(super) fn take(mode: Mode) -> Result<(), Failure> {
    match mode {
        Mode::Rootless => Ok(()),
        Mode::Privileged => {
            let (uid, gid) = (Uid::ROOT, Gid::ROOT);
            set_thread_groups(&[]).at("leave the host's groups")?;
            set_thread_res_gid(gid, gid, gid).at("take the group of PID 1")?;
            set_thread_res_uid(uid, uid, uid).at("take the user of PID 1")
        }
    }
}

/// Lowers resource limits; what is lower already stays.
pub(super) fn limit(limits: &Limits) -> Result<(), Failure> {
    no_dumps()?;
    lower(Resource::Nofile, 4096, 65_536)?;
    lower(Resource::Memlock, 8 << 20, 8 << 20)?;
    lower(Resource::Msgqueue, 819_200, 819_200)?;
    lower(Resource::Sigpending, 4096, 4096)?;
    lower(Resource::Nice, 0, 0)?;
    lower(Resource::Rtprio, 0, 0)?;
    let pids = u64::from(limits.pids) + SPARE_PIDS;
    lower(Resource::Nproc, pids, pids)
}

/// Keeps crashes inside: to a program of the host's, as `core_pattern` may name one, a dump is given
/// whatever its bound, unless that is 1. So small a file is never written either.
fn no_dumps() -> Result<(), Failure> {
    // None is unlimited.
    let one = getrlimit(Resource::Core)
        .maximum
        .map_or(1, |most| most.min(1));
    let bound = Rlimit {
        current: Some(one),
        maximum: Some(one),
    };
    setrlimit(Resource::Core, bound).at("lower resource limits")
}

/// Lowers one resource limit.
fn lower(resource: Resource, soft: u64, hard: u64) -> Result<(), Failure> {
    let now = getrlimit(resource);
    let maximum = now.maximum.map_or(hard, |now| now.min(hard));
    let current = now.current.map_or(soft, |now| now.min(soft)).min(maximum);
    let lowered = Rlimit {
        current: Some(current),
        maximum: Some(maximum),
    };
    setrlimit(resource, lowered).at("lower resource limits")
}

/// Drops what PID 1 does not need, so that the execution to come cannot bring it back.
pub(super) fn drop_capabilities(mode: Mode) -> Result<(), Failure> {
    set_no_new_privs(true).at("set no_new_privs")?;
    let kept = match mode {
        Mode::Privileged => KEPT,
        Mode::Rootless => CapabilitySet::empty(),
    };
    for number in 0..=CAPABILITIES {
        let one = CapabilitySet::from_bits_retain(1 << number);
        // Numbers that this kernel does not know are refused, and are nobody's.
        if !kept.contains(one) && remove_capability_from_bounding_set(one).is_err() {
            break;
        }
    }
    let now = capabilities(None).at("read capabilities")?;
    let sets = CapabilitySets {
        effective: now.effective & kept,
        permitted: now.permitted & kept,
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, sets).at("drop capabilities")
}
