//! Where master keys come from: a setting, a file, or a command.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock},
};

use async_trait::async_trait;
use outlast_protocol::seam::Entropy;
use zeroize::Zeroizing;

use super::{KeyName, Keyring, NoMasterKey, Unwrapping, Wrapped, command, file, master};
use crate::{Secret, derive::Key, keyring::master::MasterKey};

/// Where master keys come from. Each may give several, the current one first.
#[derive(Clone, Debug)]
pub enum Source {
    /// What is set in the environment or the configuration.
    Set(Secret),
    /// A file that the operator keeps.
    File(PathBuf),
    /// A file of our own: it is made when the first secret is to be sealed.
    Own(PathBuf),
    /// What a command prints.
    Command(String),
}

/// The master keys of one source, in memory.
pub struct Sources {
    source: Source,
    entropy: Arc<dyn Entropy>,
    keys: RwLock<Arc<Result<Vec<MasterKey>, NoMasterKey>>>,
}

impl Sources {
    /// Reads the keys. That there are none is said whenever one is needed.
    pub async fn open(source: Source, entropy: Arc<dyn Entropy>) -> Self {
        let keys = load(&source).await;
        Self {
            source,
            entropy,
            keys: RwLock::new(Arc::new(keys)),
        }
    }

    fn keys(&self) -> Arc<Result<Vec<MasterKey>, NoMasterKey>> {
        self.keys
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn keep(&self, keys: Result<Vec<MasterKey>, NoMasterKey>) {
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(keys);
    }
}

impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Sources").field(&self.keys()).finish()
    }
}

#[async_trait]
impl Keyring for Sources {
    fn names(&self) -> Result<Vec<KeyName>, NoMasterKey> {
        names(&self.keys())
    }

    fn wrap(&self, key: &Key, place: &[u8]) -> Result<Wrapped, NoMasterKey> {
        let keys = self.keys();
        let keys = keys.as_ref().as_ref().map_err(Clone::clone)?;
        let first = keys.first().ok_or_else(|| absent(&self.source))?;
        Ok(first.wrap(key, place, &*self.entropy))
    }

    fn unwrap(&self, wrapped: &Wrapped, place: &[u8]) -> Result<Key, Unwrapping> {
        let all = self.keys();
        let keys = all.as_ref().as_ref().map_err(Clone::clone)?;
        let Some(key) = keys.iter().find(|key| key.name == wrapped.master) else {
            return Err(Unwrapping::Unknown {
                wanted: wrapped.master.clone(),
                known: names(&all)?,
            });
        };
        key.unwrap(&wrapped.bytes, place)
            .ok_or(Unwrapping::Tampered)
    }

    async fn renew(&self) -> Result<(), NoMasterKey> {
        let keys = load(&self.source).await;
        let failed = keys.as_ref().err().cloned();
        if failed.is_none() || self.keys().is_err() {
            self.keep(keys);
        }
        failed.map_or(Ok(()), Err)
    }

    async fn found(&self) -> Result<(), NoMasterKey> {
        if self.keys().is_ok() {
            return Ok(());
        }
        if let Source::Own(path) = &self.source
            && file::read(path)?.is_none()
        {
            write(path, &master::draw(&*self.entropy))?;
        }
        self.renew().await
    }

    async fn turn(&self) -> Result<bool, NoMasterKey> {
        let Source::Own(path) = &self.source else {
            return self.renew().await.map(|()| false);
        };
        let known = file::read(path)?.ok_or_else(|| absent(&self.source))?;
        let fresh = master::draw(&*self.entropy);
        write(
            path,
            &Zeroizing::new(format!("{}\n{}", *fresh, known.trim())),
        )?;
        self.renew().await.map(|()| true)
    }

    async fn retire(&self) -> Result<(), NoMasterKey> {
        let Source::Own(path) = &self.source else {
            return Ok(());
        };
        let known = file::read(path)?.ok_or_else(|| absent(&self.source))?;
        if let Some(first) = master::parts(&known).next() {
            write(path, first)?;
        }
        self.renew().await
    }
}

/// Writes a file of our own.
fn write(path: &Path, text: &str) -> Result<(), NoMasterKey> {
    file::write(path, text).map_err(|error| {
        NoMasterKey::new(format!(
            "no master key can be kept in `{}`: {error}",
            path.display()
        ))
    })
}

fn names(keys: &Result<Vec<MasterKey>, NoMasterKey>) -> Result<Vec<KeyName>, NoMasterKey> {
    let keys = keys.as_ref().map_err(Clone::clone)?;
    Ok(keys.iter().map(|key| key.name.clone()).collect())
}

/// Reads the keys of a source.
async fn load(source: &Source) -> Result<Vec<MasterKey>, NoMasterKey> {
    match source {
        Source::Set(text) => master::parse(text.expose(), "OUTLAST_MASTER_KEY"),
        Source::File(path) | Source::Own(path) => {
            let text = file::read(path)?.ok_or_else(|| absent(source))?;
            master::parse(&text, &format!("`{}`", path.display()))
        }
        Source::Command(line) => {
            let text: Zeroizing<String> = command::run(line, command::TIMEOUT).await?;
            master::parse(
                &text,
                "what the command of `vault.master_key_command` prints",
            )
        }
    }
}

/// Returns the words for a source that has nothing.
fn absent(source: &Source) -> NoMasterKey {
    let lacks = match source {
        Source::Set(_) => "OUTLAST_MASTER_KEY is empty".to_owned(),
        Source::File(path) | Source::Own(path) => format!("`{}` is not there", path.display()),
        Source::Command(_) => "the command of `vault.master_key_command` prints none".to_owned(),
    };
    NoMasterKey::new(format!(
        "there is no master key: {lacks}; set OUTLAST_MASTER_KEY, `vault.master_key_file` or \
         `vault.master_key_command` to the one that secrets were sealed under"
    ))
}

#[cfg(test)]
mod tests;
