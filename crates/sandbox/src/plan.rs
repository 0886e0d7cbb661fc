//! What the launcher and the helper say to each other, over one seqpacket socket.

use std::{
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::PathBuf,
};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{Layering, Limits, Purpose, mapping::Mode};

/// Processes above the commands' bound, so that PID 1 and file tools can still act when they have used
/// it up.
pub(crate) const SPARE_PIDS: u64 = 16;

/// No message is longer.
const LONGEST: usize = 32 * 1024;

/// Everything the helper has to know; the descriptors of channel, program, door and cover travel with it.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Plan {
    pub(crate) argv: Vec<String>,
    pub(crate) mode: Mode,
    pub(crate) layering: Layering,
    /// Below the writable layer, the topmost first, read only.
    pub(crate) lowers: Vec<PathBuf>,
    /// Holds `root`, the place to mount the tree at, and `upper` and `work` or a place for the disk.
    pub(crate) folder: PathBuf,
    /// Whether a mount that holds `upper` and `work` follows.
    pub(crate) disk: bool,
    /// Host folders shown read-only at the same path.
    pub(crate) shown: Vec<PathBuf>,
    /// Host folders of this sandbox shown read-only at another path, after all else.
    pub(crate) binds: Vec<Bind>,
    pub(crate) hostname: String,
    pub(crate) limits: Limits,
    pub(crate) purpose: Purpose,
    /// Whether a door to the commands' own control group travels with it.
    pub(crate) door: bool,
    /// Files to be shown, by path inside and size; their bytes, one behind the other, travel with it.
    pub(crate) cover: Vec<(String, u64)>,
}

/// A host folder shown read-only.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Bind {
    pub(crate) from: PathBuf,
    /// An absolute path inside, at which a folder stands.
    pub(crate) to: String,
}

/// From the launcher.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Down {
    /// The first message.
    Plan(Box<Plan>),
    /// The first message, if the helper is to try one thing and to leave.
    Try(Trial),
    /// The ids of the user namespace are written.
    Mapped,
    /// The writable layer is there; a mount that holds it travels with this.
    Laid,
}

/// One thing that a host may refuse.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Trial {
    /// A user namespace with its ids.
    Users,
    /// Each of the other namespaces within it.
    Others,
    /// An overlay in this folder, without a user namespace.
    Overlay(PathBuf),
    /// An overlay in this folder, in a user namespace.
    OverlayInside(Mode, PathBuf),
    /// The system call filter.
    Filter,
}

impl Trial {
    /// Tells whether it begins with a user namespace.
    pub(crate) const fn needs_users(&self) -> bool {
        match self {
            Self::Users | Self::Others | Self::OverlayInside(..) => true,
            Self::Overlay(_) | Self::Filter => false,
        }
    }
}

/// From the helper. The end of the stream without `Failed` means that the program runs.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Up {
    /// The user namespace exists and waits for its ids.
    Unshared,
    /// The process that becomes the program.
    Born(i32),
    /// A step failed; nothing follows.
    Failed { step: String, errno: i32 },
}

/// Sends one message with descriptors.
pub(crate) fn send(
    socket: BorrowedFd<'_>,
    message: &impl Serialize,
    fds: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let text = serde_json::to_vec(message)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    sendmsg(
        socket,
        &[IoSlice::new(&text)],
        &mut control,
        SendFlags::NOSIGNAL,
    )?;
    Ok(())
}

/// Receives one message and the descriptors with it; `None` at the end of the stream.
pub(crate) fn receive<T: DeserializeOwned>(
    socket: impl AsFd,
) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
    let mut text = vec![0; LONGEST];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC;
    let got = loop {
        match recvmsg(
            &socket,
            &mut [IoSliceMut::new(&mut text)],
            &mut control,
            flags,
        ) {
            Err(rustix::io::Errno::INTR) => {}
            other => break other?,
        }
    };
    if got.bytes == 0 {
        return Ok(None);
    }
    let fds = control
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => Some(fds.collect::<Vec<_>>()),
            RecvAncillaryMessage::ScmCredentials(_) | _ => None,
        })
        .flatten()
        .collect();
    let message = serde_json::from_slice(text.get(..got.bytes).unwrap_or_default())?;
    Ok(Some((message, fds)))
}
