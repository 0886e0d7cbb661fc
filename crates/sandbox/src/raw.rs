//! The system calls that no safe wrapper offers.
//!
//! Namespaces and executions are the helper's, which has one thread; loop devices and id-mapped
//! mounts the launcher's.

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

/// Moves the caller into new namespaces of these kinds.
pub(crate) fn unshare(kinds: libc::c_int) -> io::Result<()> {
    // SAFETY: takes no pointer; the only thread moves to new namespaces.
    check(unsafe { libc::unshare(kinds) }.into()).map(drop)
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

/// Maps the ids of a mount that is nowhere yet as a user namespace says.
pub(crate) fn map_ids(mount: BorrowedFd<'_>, namespace: BorrowedFd<'_>) -> io::Result<()> {
    let userns_fd = u64::try_from(namespace.as_raw_fd())
        .map_err(|_| io::Error::from_raw_os_error(libc::EBADF))?;
    let change = libc::mount_attr {
        attr_set: libc::MOUNT_ATTR_IDMAP,
        attr_clr: 0,
        propagation: 0,
        userns_fd,
    };
    // SAFETY: the path is an empty C string and `change` is a whole `mount_attr` of the size passed;
    // both outlive the call, which only reads them, and the descriptors are open for the borrows.
    check(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            &raw const change,
            size_of::<libc::mount_attr>(),
        )
    })
    .map(drop)
}

/// Requests of loop devices.
const LOOP_CTL_GET_FREE: libc::c_ulong = 0x4c82;
const LOOP_CONFIGURE: libc::c_ulong = 0x4c0a;
const LOOP_CLR_FD: libc::c_ulong = 0x4c01;

/// The device lets go of its file when nobody has it open.
const LO_FLAGS_AUTOCLEAR: u32 = 4;

/// `struct loop_info64` of the kernel.
#[repr(C)]
struct LoopInfo {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

/// `struct loop_config` of the kernel.
#[repr(C)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    info: LoopInfo,
    reserved: [u64; 8],
}

/// Returns the number of a loop device that nobody uses, from the control device.
pub(crate) fn free_loop(control: BorrowedFd<'_>) -> io::Result<u32> {
    // SAFETY: the request takes no pointer and the descriptor is open for the borrow.
    let number = check(unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE).into() })?;
    u32::try_from(number).map_err(|_| io::Error::from_raw_os_error(libc::EOVERFLOW))
}

/// Puts a file behind a loop device; `name` is what lists show.
pub(crate) fn configure_loop(
    device: BorrowedFd<'_>,
    file: BorrowedFd<'_>,
    name: &[u8],
) -> io::Result<()> {
    // SAFETY: both structures are plain numbers, for which all zeroes is a valid value.
    let mut config: LoopConfig = unsafe { std::mem::zeroed() };
    config.fd =
        u32::try_from(file.as_raw_fd()).map_err(|_| io::Error::from_raw_os_error(libc::EBADF))?;
    config.block_size = 4096;
    config.info.flags = LO_FLAGS_AUTOCLEAR;
    // The last byte stays zero.
    for (slot, byte) in config.info.file_name.iter_mut().take(63).zip(name) {
        *slot = *byte;
    }
    // SAFETY: `config` is a whole `loop_config` that the kernel only reads during the call, and both
    // descriptors are open for the borrows.
    check(unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE, &raw const config).into() })
        .map(drop)
}

/// Has a loop device let go of its file, at once or when nobody uses it any more.
pub(crate) fn clear_loop(device: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the request takes no pointer and the descriptor is open for the borrow.
    check(unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CLR_FD).into() }).map(drop)
}
