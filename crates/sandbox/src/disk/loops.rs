//! Loop devices.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io,
    os::{fd::AsFd as _, unix::ffi::OsStrExt as _},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use crate::{cgroup::pause, raw};

/// Gives out free devices.
const CONTROL: &str = "/dev/loop-control";

/// One at a time of this process asks for a device and takes it.
static ATTACHING: Mutex<()> = Mutex::new(());

/// Tries to get a device that others take first, two milliseconds apart.
const TRIES: usize = 1_000;

/// A device with a file behind it. It lets go of the file when nobody uses it.
#[derive(Debug)]
pub(super) struct Device {
    pub(super) path: PathBuf,
    _open: File,
}

/// Puts a file behind a free device.
pub(super) fn attach(file: &File, name: &Path) -> io::Result<Device> {
    let control = File::options().read(true).write(true).open(CONTROL)?;
    let mut last = io::Error::from(io::ErrorKind::ResourceBusy);
    // All who ask at once are told the same device.
    let _one = ATTACHING.lock().unwrap_or_else(PoisonError::into_inner);
    for _ in 0..TRIES {
        let number = raw::free_loop(control.as_fd())?;
        let path = PathBuf::from(format!("/dev/loop{number}"));
        let device = File::options().read(true).write(true).open(&path)?;
        match raw::configure_loop(device.as_fd(), file.as_fd(), name.as_os_str().as_bytes()) {
            Ok(()) => {
                return Ok(Device {
                    path,
                    _open: device,
                });
            }
            // Somebody was faster.
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                last = error;
                pause();
            }
            Err(error) => return Err(error),
        }
    }
    Err(last)
}

/// Lets go of devices whose file lies below `folder`: a process that died may have left them.
///
/// A device that is in use is let go of when it is not.
pub(crate) fn sweep(folder: &Path) -> usize {
    let entries = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let mut found = 0;
    for entry in entries {
        let file = entry.path().join("loop/backing_file");
        let Ok(backing) = fs::read(file) else {
            continue;
        };
        // A file that is gone has a word behind its name.
        let backing = Path::new(OsStr::from_bytes(backing.trim_ascii_end()));
        if !backing.starts_with(folder) {
            continue;
        }
        let device = Path::new("/dev").join(entry.file_name());
        if File::open(device).is_ok_and(|device| raw::clear_loop(device.as_fd()).is_ok()) {
            found += 1;
        }
    }
    found
}
