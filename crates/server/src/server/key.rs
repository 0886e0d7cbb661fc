//! The key that clients send: the operator's, or one of our own making for this machine.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use outlast_kernel::{Kernel, draw_secret};
use outlast_protocol::{ErrorCode, Problem};
use secrecy::{ExposeSecret as _, SecretString};
use zeroize::Zeroizing;

use super::StartError;

/// Name of the file that gives the key to this machine's command line.
const FILE: &str = "local.key";

/// The slot of the operator's key: setting another one takes this one back.
pub(crate) const SET: &str = "configuration";

/// The slot of the key of our own making.
pub(crate) const LOCAL: &str = "local";

/// Which key clients must send.
#[derive(Debug)]
pub enum Key {
    /// The operator's.
    Set,
    /// One that an earlier start made; it is in this file.
    Kept(PathBuf),
    /// One that was made just now, to be shown once; it is in this file too.
    Made(PathBuf, SecretString),
}

/// Makes the operator's key valid, or ours.
pub(super) async fn admit(
    kernel: &Kernel,
    set: Option<&SecretString>,
    dir: &Path,
) -> Result<Key, StartError> {
    if let Some(secret) = set {
        kernel.admit_key(secret.expose_secret(), SET).await?;
        return Ok(Key::Set);
    }
    // What the operator no longer sets is no longer wanted.
    kernel.withdraw_key(SET).await?;
    let path = dir.join(FILE);
    let data = |error| StartError::Data {
        path: path.clone(),
        error,
    };
    if let Some(secret) = read(dir).map_err(data)? {
        match kernel.admit_key(secret.expose_secret(), LOCAL).await {
            Ok(()) => return Ok(Key::Kept(path)),
            // It was revoked, so this machine gets another.
            Err(Problem {
                code: ErrorCode::Conflict,
                ..
            }) => {}
            Err(problem) => return Err(problem.into()),
        }
    }
    let secret = draw_secret(kernel.entropy());
    // Valid first: a file without a valid key would lock this machine's command line out.
    kernel.admit_key(secret.expose_secret(), LOCAL).await?;
    write(&path, &secret).map_err(data)?;
    Ok(Key::Made(path, secret))
}

/// Reads the key that a server left in a data directory; `None` if there is none.
///
/// # Errors
///
/// If it cannot be read, or if others than its owner can read it.
pub(crate) fn read(dir: &Path) -> io::Result<Option<SecretString>> {
    let path = dir.join(FILE);
    let text = match fs::read_to_string(&path) {
        Ok(text) => Zeroizing::new(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mode = fs::metadata(&path)?.mode();
    if mode & 0o077 != 0 {
        let words = format!(
            "others can read it (mode {:03o}); run chmod 600 on it",
            mode & 0o777
        );
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, words));
    }
    let secret = text.trim();
    if secret.is_empty() {
        // A crash between making the file and filling it leaves an empty one.
        return Ok(None);
    }
    Ok(Some(secret.into()))
}

/// Writes the key where only its owner can read it: whole or not at all.
fn write(path: &Path, secret: &SecretString) -> io::Result<()> {
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
    writeln!(file, "{}", secret.expose_secret())?;
    file.sync_all()?;
    fs::rename(&aside, path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::OsEntropy;

    #[test]
    fn a_key_is_kept_for_its_owner_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        assert!(read(dir.path()).unwrap().is_none());
        let secret = draw_secret(&OsEntropy);
        write(&path, &secret).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        let found = read(dir.path()).unwrap().unwrap();
        assert_eq!(found.expose_secret(), secret.expose_secret());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let error = read(dir.path()).unwrap_err();
        assert!(error.to_string().contains("644"), "{error}");
        assert!(!error.to_string().contains(secret.expose_secret()));
    }
}
