//! The system call filter that every confined program inherits.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter,
};

use crate::{
    Purpose,
    syscalls::{ABSENT, COMMON, NEWER, OWN, OWNERS},
};

/// The flags of `clone` that make namespaces.
const NEW_FLAGS: u64 = 0x7e02_0000;

/// Families that `socket` may use: a network namespace does not confine the others, vsock above all.
const FAMILIES: [libc::c_int; 3] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6];

/// Personalities that change nothing about safety, and the question for the present one.
const PERSONALITIES: [u64; 5] = [0, 0x8, 0x2_0000, 0x2_0008, 0xffff_ffff];

/// Terminal requests that put words into somebody else's mouth.
const TIOCSTI: u64 = 0x5412;
const TIOCLINUX: u64 = 0x541c;

/// The resource whose bound stays: at 1 the kernel starts no program of the host's for a dump, at 0 it
/// does.
const CORE: u64 = 4;

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Compiles and installs the filter on the calling thread, for good.
///
/// Three filters, because one has a single answer for what matches: the first says ENOSYS to what
/// is to look absent, so that libraries fall back to what is allowed; the second says that all is well
/// to what must not happen and whose refusal programs do not expect.
pub(crate) fn install(purpose: Purpose) -> Result<(), seccompiler::Error> {
    apply_filter(&pretended_absent()?)?;
    apply_filter(&pretended_done(purpose)?)?;
    apply_filter(&allowed()?)
}

/// The filter that does nothing and says that all is well: to another bound of core dumps, and where
/// packages are installed to changes of owners.
fn pretended_done(purpose: Purpose) -> Result<BpfProgram, seccompiler::Error> {
    let owners = match purpose {
        Purpose::Commands => &[],
        Purpose::Install => OWNERS,
    };
    let mut rules: Rules = owners.iter().map(|number| (*number, Vec::new())).collect();
    let (set, core) = (libc::SYS_setrlimit, condition(0, SeccompCmpOp::Eq, CORE)?);
    rules.insert(set, vec![rule([core])?]);
    let core = condition(1, SeccompCmpOp::Eq, CORE)?;
    let changed = rule([
        core,
        pointer(2, SeccompCmpOp::Ne)?,
        pointer(3, SeccompCmpOp::Eq)?,
    ])?;
    rules.insert(libc::SYS_prlimit64, vec![changed]);
    compile(rules, SeccompAction::Allow, SeccompAction::Errno(0))
}

/// The filter that hides newer calls.
fn pretended_absent() -> Result<BpfProgram, seccompiler::Error> {
    let rules = ABSENT.iter().map(|number| (*number, Vec::new())).collect();
    compile(rules, SeccompAction::Allow, errno(libc::ENOSYS))
}

/// The allow-list. What the other filter hides is in it: the stricter answer counts.
fn allowed() -> Result<BpfProgram, seccompiler::Error> {
    let mut rules: Rules = [COMMON, OWN, NEWER, ABSENT]
        .into_iter()
        .flatten()
        .map(|number| (*number, Vec::new()))
        .collect();
    rules.insert(libc::SYS_clone, vec![rule([masked(0, NEW_FLAGS)?])?]);
    rules.insert(
        libc::SYS_socket,
        any_of(FAMILIES.map(|family| u64::from(family.unsigned_abs())))?,
    );
    // A pair of another family would load a module of the kernel.
    rules.insert(
        libc::SYS_socketpair,
        any_of([u64::from(libc::AF_UNIX.unsigned_abs())])?,
    );
    rules.insert(libc::SYS_personality, any_of(PERSONALITIES)?);
    rules.insert(
        libc::SYS_ioctl,
        vec![rule([not(1, TIOCSTI)?, not(1, TIOCLINUX)?])?],
    );
    // Whoever also wants the old bound would be lied to: a change of it is refused then.
    let harmless = [
        rule([not(1, CORE)?])?,
        rule([pointer(2, SeccompCmpOp::Eq)?])?,
        rule([pointer(3, SeccompCmpOp::Eq)?])?,
    ];
    rules.insert(libc::SYS_prlimit64, harmless.into());
    compile(rules, errno(libc::EPERM), SeccompAction::Allow)
}

/// Answers a call with an error number.
fn errno(number: libc::c_int) -> SeccompAction {
    SeccompAction::Errno(number.unsigned_abs())
}

/// Allows argument 0 to be any of the values.
fn any_of<const N: usize>(values: [u64; N]) -> Result<Vec<SeccompRule>, seccompiler::Error> {
    values
        .into_iter()
        .map(|value| rule([condition(0, SeccompCmpOp::Eq, value)?]))
        .collect()
}

/// Requires all conditions.
fn rule<const N: usize>(
    conditions: [SeccompCondition; N],
) -> Result<SeccompRule, seccompiler::Error> {
    Ok(SeccompRule::new(conditions.into())?)
}

/// Requires that none of the bits of `mask` is set.
fn masked(argument: u8, mask: u64) -> Result<SeccompCondition, seccompiler::Error> {
    condition(argument, SeccompCmpOp::MaskedEq(mask), 0)
}

/// Requires another value.
fn not(argument: u8, value: u64) -> Result<SeccompCondition, seccompiler::Error> {
    condition(argument, SeccompCmpOp::Ne, value)
}

/// Compares a whole argument with a null pointer.
fn pointer(argument: u8, operator: SeccompCmpOp) -> Result<SeccompCondition, seccompiler::Error> {
    let length = SeccompCmpArgLen::Qword;
    Ok(SeccompCondition::new(argument, length, operator, 0)?)
}

/// Compares the low 32 bits, which is what the kernel looks at for these arguments.
fn condition(
    argument: u8,
    operator: SeccompCmpOp,
    value: u64,
) -> Result<SeccompCondition, seccompiler::Error> {
    Ok(SeccompCondition::new(
        argument,
        SeccompCmpArgLen::Dword,
        operator,
        value,
    )?)
}

/// Compiles for the running architecture.
fn compile(
    rules: Rules,
    otherwise: SeccompAction,
    matched: SeccompAction,
) -> Result<BpfProgram, seccompiler::Error> {
    let arch: TargetArch = std::env::consts::ARCH.try_into()?;
    Ok(SeccompFilter::new(rules, otherwise, matched, arch)?.try_into()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_filters_compile() {
        assert!(!pretended_absent().unwrap().is_empty());
        for purpose in [Purpose::Commands, Purpose::Install] {
            assert!(!pretended_done(purpose).unwrap().is_empty());
        }
        assert!(allowed().unwrap().len() > COMMON.len());
    }

    #[test]
    fn nothing_that_leads_out_is_listed() {
        for number in [
            libc::SYS_bpf,
            libc::SYS_ptrace,
            libc::SYS_mount,
            libc::SYS_unshare,
            libc::SYS_setns,
            libc::SYS_keyctl,
            libc::SYS_io_uring_setup,
            libc::SYS_process_vm_readv,
            libc::SYS_open_by_handle_at,
            libc::SYS_kexec_load,
            libc::SYS_userfaultfd,
            libc::SYS_perf_event_open,
            libc::SYS_chroot,
            libc::SYS_pidfd_getfd,
        ] {
            assert!(
                !COMMON.contains(&number) && !OWN.contains(&number),
                "{number}"
            );
        }
    }
}
