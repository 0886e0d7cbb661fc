//! Files that are mounted in a session: told to the log, and laid into its hand.

use std::{
    collections::HashMap,
    io,
    sync::{Mutex, MutexGuard, PoisonError},
};

use outlast_hands::files::Upload;
use outlast_protocol::{
    Problem,
    id::{ApiKeyId, FileId, IncarnationId, ResourceId, SessionId},
    session::{AddFile, FileResource},
};
use outlast_session::{
    Proposal, State,
    body::{Config, Mounted},
    view,
};
use outlast_store::Receipt;

use super::key;
use crate::{Kernel, clients::join, kernel::Inner};

/// What each hand was last given, by path.
#[derive(Debug, Default)]
pub(crate) struct Placed(Mutex<HashMap<IncarnationId, Vec<(String, FileId)>>>);

impl Placed {
    fn lock(&self) -> MutexGuard<'_, HashMap<IncarnationId, Vec<(String, FileId)>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a hand that is about to begin with nothing.
    pub(crate) fn begin(&self, incarnation: IncarnationId) {
        self.lock().insert(incarnation, Vec::new());
    }

    /// Forgets a hand that has ended.
    pub(crate) fn forget(&self, incarnation: IncarnationId) {
        self.lock().remove(&incarnation);
    }
}

fn wanted(config: Option<&Config>) -> Vec<(String, FileId)> {
    let resources = config.map_or(&[][..], |config| &config.resources);
    let path = |mounted: &Mounted| (mounted.path.as_str().to_owned(), mounted.file);
    resources.iter().map(path).collect()
}

impl Kernel {
    /// Describes the copy of a file that a session is to have.
    pub fn mount_of(&self, add: &AddFile) -> Mounted {
        let (now, entropy) = (self.now(), self.entropy());
        Mounted {
            id: ResourceId::mint(now, entropy),
            file: FileId::mint(now, entropy),
            source: add.file_id,
            path: add.path.clone(),
            at: now,
        }
    }

    /// Mounts a file; a hand that lives has it when this returns, if nothing fails.
    ///
    /// # Errors
    ///
    /// If session or file are not there, or the path is taken.
    pub async fn mount(
        &self,
        by: ApiKeyId,
        session: SessionId,
        resource: Mounted,
        receipt: Option<Receipt>,
    ) -> Result<(), Problem> {
        let proposal = Proposal::Mount { resource, by };
        let outcome = join(self.0.append(session, proposal, receipt, None)).await?;
        self.0.lay(&outcome.state).await;
        Ok(())
    }

    /// Takes a mounted file away, with the session's copy of it.
    ///
    /// # Errors
    ///
    /// If session or resource are not there.
    pub async fn unmount(
        &self,
        by: ApiKeyId,
        session: SessionId,
        resource: ResourceId,
    ) -> Result<(), Problem> {
        let proposal = Proposal::Unmount { resource, by };
        let outcome = join(self.0.append(session, proposal, None, None)).await?;
        self.0.lay(&outcome.state).await;
        Ok(())
    }

    /// Returns what is mounted in a session, in the order it came.
    pub async fn mounted(&self, session: SessionId) -> Result<Vec<FileResource>, Problem> {
        let state = self.state(session).await?;
        let config = state.config.as_deref();
        let resources = config.map_or(&[][..], |config| &config.resources);
        Ok(resources.iter().map(view::resource).collect())
    }
}

impl Inner {
    /// Gives the session's hand, if one lives, what is mounted now. One that does not answer gets it
    /// before the next call.
    async fn lay(&self, state: &State) {
        let Some(hand) = state.hand.filter(|hand| !hand.lost) else {
            return;
        };
        let laying = self.lay_into(state, hand.incarnation);
        if let Err(silence) = self.hands.heard(laying).await {
            tracing::warn!(session.id = %state.id, "files are not mounted yet: {silence}");
        }
    }

    async fn lay_into(&self, state: &State, incarnation: IncarnationId) {
        let turn = self.hands.turn(state.id);
        let _one = turn.lock().await;
        if self.hands.find(incarnation).await.is_some() {
            // What somebody else mounted meanwhile counts too.
            match self.store.head(state.id).await {
                Ok(state) => self.place(&state, incarnation).await,
                Err(fault) => tracing::debug!(%fault, "a session is gone: {fault}"),
            }
        }
    }

    /// Sees that a hand has the files that are mounted, and no others. The caller has the turn of
    /// the session's hand.
    ///
    /// What cannot be placed is left out and tried again at the next call: a missing file is no
    /// reason to stop the agent.
    pub(crate) async fn place(&self, state: &State, incarnation: IncarnationId) {
        let wanted = wanted(state.config.as_deref());
        if self.hands.placed.lock().get(&incarnation) == Some(&wanted) {
            return;
        }
        match self.settle(&wanted, incarnation).await {
            Ok(()) => {
                self.hands.placed.lock().insert(incarnation, wanted);
            }
            Err(fault) if fault.kind() == io::ErrorKind::Unsupported && wanted.is_empty() => {
                self.hands.placed.lock().insert(incarnation, wanted);
            }
            Err(fault) => tracing::warn!(
                session.id = %state.id,
                "hand `{incarnation}` does not have all files of its session: {fault}"
            ),
        }
    }

    async fn settle(&self, wanted: &[(String, FileId)], hand: IncarnationId) -> io::Result<()> {
        let provisioner = self.hands.provisioner();
        let there = provisioner.uploads(hand).await?;
        let is_wanted = |upload: &Upload| {
            let mut wanted = wanted.iter();
            wanted.any(|(path, file)| *path == upload.path && file.to_string() == upload.id)
        };
        for upload in there.iter().filter(|upload| !is_wanted(upload)) {
            provisioner.unplace(hand, &upload.path).await?;
        }
        let mut failed = None;
        for (path, file) in wanted {
            let id = file.to_string();
            if there
                .iter()
                .any(|upload| upload.path == *path && upload.id == id)
            {
                continue;
            }
            if let Err(fault) = self.place_one(hand, path, *file).await {
                failed = Some(io::Error::new(fault.kind(), format!("`{path}`: {fault}")));
            }
        }
        failed.map_or(Ok(()), Err)
    }

    async fn place_one(&self, hand: IncarnationId, path: &str, file: FileId) -> io::Result<()> {
        let found = self.store.file(file).await.map_err(io::Error::other)?;
        let blob = found.blob.ok_or(io::ErrorKind::NotFound)?;
        let content = self.blobs.open(&key(blob), 0).await;
        let content = content.map_err(io::Error::other)?;
        let upload = Upload {
            path: path.to_owned(),
            id: file.to_string(),
            bytes: found.bytes,
        };
        self.hands.provisioner().place(hand, &upload, content).await
    }
}
