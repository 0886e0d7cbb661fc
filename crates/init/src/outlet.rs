//! The one way out of a sandbox: a listener that PID 1 binds before anything else runs, and gives away.
//!
//! The network inside has no other interface than loopback, so what is sent to this address reaches
//! whoever was given the listener, and everything else reaches nobody.

use std::{
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    net::{Ipv4Addr, SocketAddrV4},
    os::fd::{AsFd, OwnedFd},
};

use rustix::{
    io::retry_on_intr,
    net::{
        AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, SocketFlags, SocketType, bind, listen, recvmsg, sendmsg,
        socket_with,
    },
};

/// Where programs inside find it.
pub const ADDRESS: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 3128);

/// Connections that may wait to be accepted.
const WAITING: i32 = 1024;

/// Begins to listen.
pub(crate) fn open() -> io::Result<OwnedFd> {
    let socket = socket_with(
        AddressFamily::INET,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    bind(&socket, &ADDRESS)?;
    listen(&socket, WAITING)?;
    Ok(socket)
}

/// Sends bytes with a descriptor; returns how many of them were sent, which is one at least.
///
/// # Errors
///
/// What the system says; nothing was sent then.
pub fn give(channel: impl AsFd, bytes: &[u8], outlet: impl AsFd) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let fds = [outlet.as_fd()];
    let send = || {
        let mut control = SendAncillaryBuffer::new(&mut space);
        // There is room for one.
        control.push(SendAncillaryMessage::ScmRights(&fds));
        let bytes = [IoSlice::new(bytes)];
        sendmsg(&channel, &bytes, &mut control, SendFlags::NOSIGNAL)
    };
    Ok(retry_on_intr(send)?)
}

/// Receives bytes, and the descriptor that came with the first of them; none at the end of the stream.
///
/// # Errors
///
/// What the system says.
pub fn take(channel: impl AsFd, buffer: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let receive = || {
        let mut bytes = [IoSliceMut::new(&mut *buffer)];
        recvmsg(&channel, &mut bytes, &mut control, RecvFlags::CMSG_CLOEXEC)
    };
    let length = retry_on_intr(receive)?.bytes;
    let came = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        RecvAncillaryMessage::ScmCredentials(_) | _ => None,
    });
    Ok((length, came))
}
