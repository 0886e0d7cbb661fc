//! The system calls that no safe wrapper offers.
//!
//! Everything here runs in the helper, which has one thread.

use std::{
    ffi::{CStr, CString},
    io,
    os::fd::{AsRawFd as _, BorrowedFd},
    ptr,
};

/// Flags of [`clone_sibling`]: everything but the user namespace, which is entered before.
pub(crate) const ALL_BUT_USER: libc::c_int = libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP;

/// Who one is after [`clone_sibling`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum Side {
    /// The caller; the number is the new process as the caller's namespace sees it.
    Caller(i32),
    /// The new process.
    New,
}

/// Turns the result of a system call into a `Result`.
fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// Moves the caller into a new user namespace.
pub(crate) fn unshare_user() -> io::Result<()> {
    // SAFETY: takes no pointer; the only thread moves to a new namespace.
    check(unsafe { libc::unshare(libc::CLONE_NEWUSER) }.into()).map(drop)
}

/// Clones the caller into new namespaces as a child of the caller's own parent.
///
/// So the server, not this helper, is the parent that reaps it and whose death it dies of.
pub(crate) fn clone_sibling(namespaces: libc::c_int) -> io::Result<Side> {
    let flags = i64::from(namespaces | libc::CLONE_PARENT | libc::SIGCHLD);
    let none = ptr::null::<libc::c_void>();
    // SAFETY: without CLONE_VM this is a fork: both sides go on with their own copy of the memory
    // and stack, no pointer is passed, and the process has one thread, so no lock is held elsewhere.
    match check(unsafe { libc::syscall(libc::SYS_clone, flags, none, none, none, none) })? {
        0 => Ok(Side::New),
        pid => i32::try_from(pid)
            .map(Side::Caller)
            .map_err(|_| io::Error::from_raw_os_error(libc::EOVERFLOW)),
    }
}

/// Marks every descriptor from `first` on to be closed by the next execution.
pub(crate) fn close_on_exec_from(first: u32) -> io::Result<()> {
    let flags = libc::CLOSE_RANGE_CLOEXEC;
    // SAFETY: takes no pointer, and closes nothing now: every owner of a descriptor stays valid.
    check(unsafe { libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, flags) })
        .map(drop)
}

/// Which mounts a change reaches.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Reach {
    /// The one at the path.
    One,
    /// Those below it too.
    All,
}

/// Adds attributes to mounts at `path`, and takes none away.
pub(crate) fn add_mount_attributes(path: &CStr, attributes: u64, reach: Reach) -> io::Result<()> {
    let change = libc::mount_attr {
        attr_set: attributes,
        attr_clr: 0,
        propagation: 0,
        userns_fd: 0,
    };
    let flags = match reach {
        Reach::One => 0,
        Reach::All => libc::AT_RECURSIVE,
    };
    // SAFETY: `path` is NUL-terminated and `change` is a whole `mount_attr` of the size passed;
    // both outlive the call, which only reads them.
    check(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            path.as_ptr(),
            flags,
            &raw const change,
            size_of::<libc::mount_attr>(),
        )
    })
    .map(drop)
}

/// Brings the loopback interface of the caller's network namespace up.
pub(crate) fn bring_loopback_up(socket: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: `ifreq` is plain data for which all zeroes is a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (slot, byte) in request.ifr_name.iter_mut().zip(c"lo".to_bytes_with_nul()) {
        *slot = i8::try_from(*byte).unwrap_or(0) as libc::c_char;
    }
    let up = libc::c_short::try_from(libc::IFF_UP | libc::IFF_RUNNING)
        .map_err(|_| io::Error::from_raw_os_error(libc::EOVERFLOW))?;
    request.ifr_ifru.ifru_flags = up;
    // SAFETY: the descriptor is open for the borrow, and `request` is a whole `ifreq` that the
    // kernel reads during the call.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request).into() })
        .map(drop)
}

/// Replaces the process by the program in `image`, with an empty environment.
///
/// Returns only on failure.
pub(crate) fn execute(image: BorrowedFd<'_>, argv: &[CString]) -> io::Error {
    let mut pointers: Vec<*const libc::c_char> = argv.iter().map(|arg| arg.as_ptr()).collect();
    pointers.push(ptr::null());
    let environment: [*const libc::c_char; 1] = [ptr::null()];
    // SAFETY: both arrays end in a null pointer, all strings are NUL-terminated, and everything
    // outlives the call, which returns only if the process was not replaced.
    let _failed = unsafe {
        libc::syscall(
            libc::SYS_execveat,
            image.as_raw_fd(),
            c"".as_ptr(),
            pointers.as_ptr(),
            environment.as_ptr(),
            libc::AT_EMPTY_PATH,
        )
    };
    io::Error::last_os_error()
}
