//! The workspace of a new hand: what the one before left here, or its newest checkpoint; and what the
//! model is told of what is lost.

use std::{io, sync::Arc};

use outlast_blobs::{Error, Key};
use outlast_hands::{
    Hand, ProvisionError,
    files::{Packed, Sum},
};
use outlast_protocol::{
    CallResult, Micros, Outcome,
    content::Block,
    id::{EventId, IncarnationId},
};
use outlast_session::{
    Hand as Known, Kind, Phase, State,
    body::{HandLost, Loss},
};
use outlast_store::{Lack, Order, Slice};

use crate::{LeaseError, calls::Job};

/// Why no life began.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unmade {
    /// A step failed; the same life can be tried again.
    #[error(transparent)]
    Failed(#[from] ProvisionError),
    /// What it was to begin with cannot be had: another life has to be recorded.
    #[error("{}", .0.reason)]
    Gone(HandLost),
}

/// What is said of a life whose files were on this node.
const VANISHED: &str = "its files are no longer on this machine";

/// What is said of a life whose checkpoint is of no use.
const UNREADABLE: &str = "the checkpoint of its files cannot be read";

/// What mends a checkpoint that is beyond the bounds of a hand.
const RAISE: &str =
    "an operator can raise `hands.disk_mib` and `hands.inodes`; the checkpoint stays until then";

impl Job {
    /// Returns whose workspace the next hand takes over, and what of it that one comes without.
    pub(crate) async fn heritage(
        &self,
        state: &State,
    ) -> Result<(Option<IncarnationId>, Option<Loss>), Unmade> {
        let Some(hand) = state.hand else {
            return Ok((None, None));
        };
        let last = Some(hand.incarnation);
        if self.has_files(hand.incarnation).await? {
            return Ok((last, hand.loss));
        }
        // A life that never began has left what it was to begin with where it was.
        if let Some(before) = hand.predecessor.filter(|_| !hand.begun)
            && self.has_files(before).await?
        {
            return Ok((Some(before), hand.loss));
        }
        if hand.predecessor.is_none() && !hand.begun {
            return Ok((last, None));
        }
        let known = state.checkpoint().map(|known| Loss::Since(known.at));
        Ok((last, known.or(Some(Loss::Everything))))
    }

    /// Tells whether the files of a life are on this node. Where nobody can say so now, that is no
    /// reason to take them for lost: the same life is tried again.
    async fn has_files(&self, incarnation: IncarnationId) -> Result<bool, Unmade> {
        let held = self.inner.hands.provisioner.holds(incarnation).await;
        held.map_err(|fault| {
            Unmade::Failed(ProvisionError::Step {
                incarnation,
                step: "look for its files".to_owned(),
                reason: fault.to_string(),
                mend: None,
            })
        })
    }

    /// Begins the newest life, which is recorded, with the files that it is to have.
    pub(crate) async fn begin_life(
        &self,
        state: &State,
        incarnation: IncarnationId,
    ) -> Result<Arc<dyn Hand>, Unmade> {
        let hand = state.hand.filter(|hand| hand.incarnation == incarnation);
        let (predecessor, loss, begun) = hand.map_or((None, None, false), |hand| {
            (hand.predecessor, hand.loss, hand.begun)
        });
        if !self.has_files(incarnation).await? {
            let above = match predecessor {
                Some(above) => self.has_files(above).await?,
                None => false,
            };
            let vanished = || Err(Unmade::Gone(HandLost::of(incarnation, VANISHED)));
            match loss {
                // Calls were handed to it; without its files it is not the same life.
                _ if begun => return vanished(),
                _ if above => {}
                Some(Loss::Since(at)) => self.restore(state, incarnation, at).await?,
                None if predecessor.is_some() => return vanished(),
                Some(Loss::Everything) | None => {}
            }
        }
        Ok(self.provision(state, incarnation, predecessor).await?)
    }

    /// Brings the checkpoint of a moment to where the life begins.
    async fn restore(
        &self,
        state: &State,
        incarnation: IncarnationId,
        at: Micros,
    ) -> Result<(), Unmade> {
        let unreadable = || {
            let lost = HandLost::of(incarnation, UNREADABLE);
            Unmade::Gone(HandLost {
                unreadable: Some(at),
                ..lost
            })
        };
        let mut known = state.checkpoints.iter().map(|known| &known.taken);
        let known = known.find(|known| known.at == at).ok_or_else(unreadable)?;
        let unmade = |reason: String, mend: Option<&str>| {
            Unmade::Failed(ProvisionError::Step {
                incarnation,
                step: format!("bring the checkpoint of {at} of its files"),
                reason,
                mend: mend.map(str::to_owned),
            })
        };
        let failed = |reason| unmade(reason, None);
        let key = Key::new(known.blob.as_str()).map_err(|_| unreadable())?;
        let content = match self.inner.blobs.open(&key, 0).await {
            Ok(content) => content,
            Err(fault @ Error::NotFound(_)) => {
                tracing::error!(session.id = %self.session, "a checkpoint is lost: {fault}");
                return Err(unreadable());
            }
            Err(fault @ Error::Unavailable { .. }) => return Err(failed(fault.to_string())),
        };
        let sum = Sum {
            entries: known.sum.entries,
            bytes: known.sum.bytes,
            digest: known.sum.digest.clone(),
        };
        let packed = Packed { sum, content };
        match self
            .inner
            .hands
            .provisioner
            .restore(incarnation, &self.inner.options.limits, packed)
            .await
        {
            Ok(()) => {
                let session = self.session;
                tracing::info!(session.id = %session, "brought a checkpoint to `{incarnation}`");
                Ok(())
            }
            Err(error) if is_spoilt(&error) => {
                tracing::error!(session.id = %self.session, "a checkpoint is of no use: {error}");
                Err(unreadable())
            }
            // The same life is tried again with each call, until it fits.
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                Err(unmade(error.to_string(), Some(RAISE)))
            }
            Err(error) => {
                if is_full(&error) {
                    let now = self.inner.clock.now();
                    self.inner.failing().met(Lack::Room, now);
                }
                Err(failed(error.to_string()))
            }
        }
    }

    /// Tells the model of what its hand came without: files before what the call says, shell and
    /// processes alone behind it, then mounted files; returns of which hand it was told that.
    pub(crate) async fn with_news(
        &self,
        state: &State,
        call: EventId,
        mut result: CallResult,
    ) -> Result<(CallResult, Option<IncarnationId>), LeaseError> {
        if result.outcome == Outcome::Interrupted {
            return Ok((result, None));
        }
        let phase = state
            .thread(self.thread)
            .and_then(|thread| thread.call(call))
            .map(|open| open.phase);
        let there = |hand: &Known| phase == Some(Phase::Intended(hand.incarnation));
        let Some(hand) = state.hand.filter(there) else {
            return Ok((result, None));
        };
        if let Some(loss) = hand.loss {
            let words = words(loss, hand.unreadable);
            result.content.insert(0, Block::text(words));
        } else if hand.fresh {
            let why = self.end_before(state, hand.incarnation).await?;
            result.content.push(Block::text(fresh(&why)));
        }
        let lacks = self.inner.hands.placed.tell(hand.incarnation);
        let told = lacks.is_some().then_some(hand.incarnation);
        result.content.extend(lacks.map(Block::text));
        Ok((result, told))
    }

    /// Returns what ended the hand before this one, which may have ended itself by now.
    async fn end_before(&self, state: &State, hand: IncarnationId) -> Result<String, LeaseError> {
        let slice = Slice {
            order: Order::Backwards,
            kinds: vec![Kind::HandLost],
            ..Slice::after(state.tail.saturating_add(1), 2)
        };
        let read = || self.inner.store.read(self.session, slice.clone());
        let found = self.inner.patiently(read).await?;
        let lost = found.iter().map(|record| record.body.text());
        let mut lost = lost.filter_map(|text| serde_json::from_str::<HandLost>(text).ok());
        let before = lost.find(|lost| lost.incarnation != hand);
        Ok(before.map(|lost| lost.reason).unwrap_or_default())
    }
}

/// Tells whether the same checkpoint would fail again.
fn is_spoilt(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof | io::ErrorKind::Unsupported
    )
}

/// Tells whether there was no room for it.
fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

/// Returns what is said of a life that has all files of the one before, and nothing of what ran there.
fn fresh(why: &str) -> String {
    format!(
        "[This call ran in a new sandbox with the files of the last one: the one before ended between \
         two calls ({why}). The shell's state, such as its working directory and variables, and \
         processes that ran in the background are gone.]"
    )
}

/// Returns what the model reads.
fn words(loss: Loss, unreadable: Option<Micros>) -> String {
    let unread = match (loss, unreadable) {
        (_, None) => String::new(),
        (Loss::Since(_), Some(bad)) => format!("the checkpoint of {bad} could not be read; "),
        (Loss::Everything, Some(bad)) => {
            format!("the checkpoint of {bad} could not be read, and there is none that can; ")
        }
    };
    let lost = match loss {
        Loss::Since(at) => {
            format!("its files are as they were at {at}, and what was written after that is lost")
        }
        Loss::Everything => "its files are lost, and it begins with none".to_owned(),
    };
    format!(
        "[The sandbox before this one is gone, and so is its machine's copy of the files. This call \
         ran in a new sandbox: {unread}{lost}. Processes and shell state of before are gone too.]"
    )
}
