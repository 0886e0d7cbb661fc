//! Master keys in a file that only its owner can read.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::Path,
};

use zeroize::Zeroizing;

use super::NoMasterKey;

/// Name of the file in the data directory.
pub const FILE: &str = "master.key";

/// More than any list of keys has.
const MOST: usize = 16_384;

/// Reads the file; `None` if there is none.
///
/// # Errors
///
/// If it cannot be read, or if others than its owner can.
pub(super) fn read(path: &Path) -> Result<Option<Zeroizing<String>>, NoMasterKey> {
    let said = |error: io::Error| {
        NoMasterKey::new(format!(
            "the master key `{}` cannot be read: {error}",
            path.display()
        ))
    };
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(said(error)),
    };
    let mode = file.metadata().map_err(said)?.mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(NoMasterKey::new(format!(
            "others can read the master key `{0}` (mode {mode:03o}), so it is not used; run chmod 600 {0}",
            path.display()
        )));
    }
    let mut text = Zeroizing::new(String::with_capacity(MOST));
    (&mut file)
        .take(MOST as u64)
        .read_to_string(&mut text)
        .map_err(said)?;
    Ok(Some(text))
}

/// Writes the file where only its owner can read it, whole or not at all; what lies there is replaced.
pub(super) fn write(path: &Path, text: &str) -> io::Result<()> {
    let aside = path.with_extension("key.new");
    match fs::remove_file(&aside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&aside)?;
    writeln!(file, "{text}")?;
    file.sync_all()?;
    fs::rename(&aside, path)?;
    // The name too has to be there after a crash: what is sealed from here on needs this key.
    File::open(path.parent().unwrap_or_else(|| Path::new(".")))?.sync_all()
}
