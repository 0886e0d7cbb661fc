//! Files that are mounted in a session: told to the log, and laid into its hand.

use std::{
    collections::HashMap,
    io,
    sync::{Mutex, MutexGuard, PoisonError},
};

use outlast_hands::files::Upload;
use outlast_protocol::{
    Problem,
    diagnosis::MissingFile,
    id::{ApiKeyId, FileId, IncarnationId, ResourceId, SessionId},
    session::{AddFile, MountPath, Resource},
};
use outlast_session::{
    Proposal, State,
    body::{Config, Mounted},
    view,
};
use outlast_store::Receipt;

use super::{
    key,
    lack::{self, Why},
};
use crate::{Kernel, clients::join, kernel::Inner};

/// What each hand was last given, and what it lacks.
#[derive(Debug, Default)]
pub(crate) struct Placed(Mutex<HashMap<IncarnationId, Given>>);

/// What one hand was given.
#[derive(Debug, Default)]
struct Given {
    /// All that was mounted then, if it has all of it.
    files: Option<Vec<(MountPath, FileId)>>,
    /// What it lacks.
    lacks: Vec<Lack>,
}

/// A file that a hand lacks.
#[derive(Clone, Debug)]
struct Lack {
    path: MountPath,
    file: FileId,
    why: Why,
    /// Whether the model was told.
    told: bool,
}

impl Placed {
    fn lock(&self) -> MutexGuard<'_, HashMap<IncarnationId, Given>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a hand that is about to begin with nothing.
    pub(crate) fn begin(&self, incarnation: IncarnationId) {
        let nothing = Given {
            files: Some(Vec::new()),
            lacks: Vec::new(),
        };
        self.lock().insert(incarnation, nothing);
    }

    /// Forgets a hand that has ended.
    pub(crate) fn forget(&self, incarnation: IncarnationId) {
        self.lock().remove(&incarnation);
    }

    /// Tells whether a hand has exactly these.
    fn has(&self, incarnation: IncarnationId, wanted: &[(MountPath, FileId)]) -> bool {
        let given = self.lock();
        let files = given.get(&incarnation).map(|given| &given.files);
        files.is_some_and(|files| files.as_deref() == Some(wanted))
    }

    /// Notes what a hand was given, unless something else of another time is there still, and what of
    /// it it lacks: what the model was told of before it is not told of again.
    fn note(
        &self,
        incarnation: IncarnationId,
        given_now: Option<Vec<(MountPath, FileId)>>,
        mut lacks: Vec<Lack>,
    ) {
        let mut all = self.lock();
        let given = all.entry(incarnation).or_default();
        for lack in &mut lacks {
            let same = |old: &&Lack| old.file == lack.file && old.why == lack.why;
            lack.told = given.lacks.iter().find(same).is_some_and(|old| old.told);
        }
        given.files = given_now.filter(|_| lacks.is_empty());
        given.lacks = lacks;
    }

    /// Returns words for what a hand lacks that the model was not told of; from now on it was.
    pub(crate) fn tell(&self, incarnation: IncarnationId) -> Option<String> {
        let mut all = self.lock();
        let lacks = &mut all.get_mut(&incarnation)?.lacks;
        let new: Vec<_> = lacks.iter_mut().filter(|lack| !lack.told).collect();
        let words = lack::words(new.iter().map(|lack| (&lack.path, lack.why)));
        new.into_iter().for_each(|lack| lack.told = true);
        words
    }

    /// Returns what a hand lacks, as an operator is told.
    pub(crate) fn missing(&self, incarnation: IncarnationId) -> Vec<MissingFile> {
        let all = self.lock();
        let lacks = all.get(&incarnation).map_or(&[][..], |given| &given.lacks);
        let missing = |lack: &Lack| MissingFile {
            file_id: lack.file,
            kind: lack.why.kind().to_owned(),
        };
        lacks.iter().map(missing).collect()
    }

    /// Notes that the model heard nothing of what a hand lacks.
    pub(crate) fn unheard(&self, incarnation: IncarnationId) {
        if let Some(given) = self.lock().get_mut(&incarnation) {
            given.lacks.iter_mut().for_each(|lack| lack.told = false);
        }
    }
}

fn wanted(config: Option<&Config>) -> Vec<(MountPath, FileId)> {
    let resources = config.map_or(&[][..], |config| &config.resources);
    let path = |mounted: &Mounted| (mounted.path.clone(), mounted.file);
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

    /// Returns what a session has beside its agent: repositories, then files in the order they came.
    pub async fn mounted(&self, session: SessionId) -> Result<Vec<Resource>, Problem> {
        let state = self.state(session).await?;
        let config = state.config.as_deref();
        Ok(config.map(view::resources).unwrap_or_default())
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
    /// reason to stop the agent. The next result names it.
    pub(crate) async fn place(&self, state: &State, incarnation: IncarnationId) {
        let wanted = wanted(state.config.as_deref());
        if self.hands.placed.has(incarnation, &wanted) {
            return;
        }
        let there = match self.hands.provisioner().uploads(incarnation).await {
            Ok(there) => there,
            Err(fault) if fault.kind() == io::ErrorKind::Unsupported && wanted.is_empty() => {
                Vec::new()
            }
            Err(fault) => {
                unplaced(state, incarnation, &fault);
                let why = Why::from(&fault);
                let lacks = wanted
                    .iter()
                    .map(|(path, file)| Lack::new(path, *file, why));
                let lacks = lacks.collect();
                return self.hands.placed.note(incarnation, None, lacks);
            }
        };
        let cleared = self.clear(&there, &wanted, incarnation).await;
        if let Err(fault) = &cleared {
            unplaced(state, incarnation, fault);
        }
        let mut lacks = Vec::new();
        for (path, file) in &wanted {
            let id = file.to_string();
            let is_there = |upload: &Upload| upload.path == path.as_str() && upload.id == id;
            if !there.iter().any(is_there)
                && let Err((why, fault)) = self.place_one(incarnation, path, *file).await
            {
                unplaced(state, incarnation, &format_args!("`{file}`: {fault}"));
                lacks.push(Lack::new(path, *file, why));
            }
        }
        let wanted = cleared.is_ok().then_some(wanted);
        self.hands.placed.note(incarnation, wanted, lacks);
    }

    /// Takes away what is not mounted any more, or has become another file.
    async fn clear(
        &self,
        there: &[Upload],
        wanted: &[(MountPath, FileId)],
        hand: IncarnationId,
    ) -> io::Result<()> {
        let is_wanted = |upload: &&Upload| {
            let mut wanted = wanted.iter();
            wanted.any(|(path, file)| path.as_str() == upload.path && file.to_string() == upload.id)
        };
        for upload in there.iter().filter(|upload| !is_wanted(upload)) {
            self.hands.provisioner().unplace(hand, &upload.path).await?;
        }
        Ok(())
    }

    async fn place_one(
        &self,
        hand: IncarnationId,
        path: &MountPath,
        file: FileId,
    ) -> Result<(), (Why, String)> {
        let found = self.store.file(file).await;
        let found = found.map_err(|fault| (Why::from(&fault), fault.to_string()))?;
        let gone = || (Why::Gone, "no content is stored of it".to_owned());
        let blob = found.blob.ok_or_else(gone)?;
        let content = self.blobs.open(&key(blob), 0).await;
        let content = content.map_err(|fault| (Why::from(&fault), fault.to_string()))?;
        let upload = Upload {
            path: path.as_str().to_owned(),
            id: file.to_string(),
            bytes: found.bytes,
        };
        let placed = self.hands.provisioner().place(hand, &upload, content);
        placed
            .await
            .map_err(|fault| (Why::from(&fault), fault.to_string()))
    }
}

impl Lack {
    fn new(path: &MountPath, file: FileId, why: Why) -> Self {
        Self {
            path: path.clone(),
            file,
            why,
            told: false,
        }
    }
}

/// Logs that a hand does not have what is mounted.
fn unplaced(state: &State, incarnation: IncarnationId, fault: &dyn std::fmt::Display) {
    tracing::warn!(
        session.id = %state.id,
        "hand `{incarnation}` does not have all files of its session: {fault}"
    );
}

#[cfg(test)]
mod tests {
    use outlast_protocol::Micros;
    use outlast_testkit::random::Constant;

    use super::*;

    #[test]
    fn what_a_hand_lacks_is_told_once_for_each_cause() {
        let (placed, hand) = (
            Placed::default(),
            IncarnationId::mint(Micros(1), &Constant(0)),
        );
        let (path, file) = (
            MountPath::parse("/a").unwrap(),
            FileId::mint(Micros(1), &Constant(0)),
        );
        let wanted = vec![(path.clone(), file)];
        let lacks = |why| {
            placed.note(
                hand,
                Some(wanted.clone()),
                vec![Lack::new(&path, file, why)],
            )
        };
        assert_eq!(placed.tell(hand), None, "of a hand that nobody knows");
        lacks(Why::Unreachable);
        assert!(placed.tell(hand).is_some() && placed.tell(hand).is_none());
        let missing = placed.missing(hand);
        assert_eq!(
            (missing[0].file_id, &*missing[0].kind),
            (file, "unreachable")
        );
        lacks(Why::Unreachable);
        assert_eq!(placed.tell(hand), None, "it is the same");
        placed.unheard(hand);
        assert!(placed.tell(hand).is_some());
        lacks(Why::Gone);
        assert!(placed.tell(hand).is_some() && !placed.has(hand, &wanted));
        placed.note(hand, Some(wanted.clone()), Vec::new());
        assert!(placed.tell(hand).is_none() && placed.has(hand, &wanted));
        assert_eq!(placed.missing(hand), []);
        placed.note(hand, None, Vec::new());
        assert!(!placed.has(hand, &wanted), "something else is there too");
    }
}
