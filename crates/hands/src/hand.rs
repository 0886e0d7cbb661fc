//! The seam: what makes hands, and what a hand does.

use std::{fmt::Debug, io, net::TcpListener, sync::Arc};

use async_trait::async_trait;
use outlast_protocol::{
    CallResult,
    id::{EventId, IncarnationId},
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{
    CallError, HandLost, Limits, ProvisionError, ReapError, Recipe, Silence,
    files::{Abilities, Packed, Published, Reader, Upload},
};

/// A brain's right to have a hand act: of each thread only the newest epoch is served.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Fence {
    /// The thread.
    pub thread: u32,
    /// Its epoch.
    pub epoch: u64,
}

/// What a hand can say about a call after a failure.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Promise {
    /// It keeps a journal: it knows which calls it had, and what they came to.
    Journalled,
    /// A call can be made again without harm.
    Idempotent,
    /// A call is made once, and never asked about again.
    Once,
}

/// What to do with the writable layer of a hand that ends.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Keep {
    /// Nothing stays.
    Nothing,
    /// The layer and the journal stay on this machine for a successor.
    Layer,
}

/// What is known of a call of an incarnation, living or not.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Recalled {
    /// It came to this.
    Settled(CallResult),
    /// It was handed over and did not come to an end that anybody saw.
    Begun,
    /// The incarnation never had it.
    NotStarted,
    /// This node knows nothing of the incarnation.
    Unknown,
}

/// Makes hands, finds them, and ends them.
#[async_trait]
pub trait Provisioner: Debug + Send + Sync {
    /// Says what this driver has beside calls; it does not change while the process lives.
    fn abilities(&self) -> Abilities {
        Abilities::default()
    }

    /// Makes a hand from a recipe, or returns the one that incarnation already has.
    ///
    /// Any number may ask for the same incarnation at once; one hand is made. If the caller goes
    /// away the making goes on.
    ///
    /// # Errors
    ///
    /// Names the step that failed and what would mend it. An incarnation that has lived and ended
    /// is not made again.
    async fn provision(&self, recipe: &Recipe) -> Result<Arc<dyn Hand>, ProvisionError>;

    /// Returns the live hand of an incarnation, if this node has it.
    async fn find(&self, incarnation: IncarnationId) -> Option<Arc<dyn Hand>>;

    /// Says what ended a hand that lived here, in words for a person or a model: a bound that it broke,
    /// or what was seen of its end.
    ///
    /// `None` of one that lives or was ended on request, and of one that is not known any more.
    async fn fate(&self, incarnation: IncarnationId) -> Option<String> {
        let _ = incarnation;
        None
    }

    /// Returns a hand that lived when this process last heard of it, without asking anybody.
    ///
    /// It may be gone: a call to it then fails as one that was not handed over. `None` says nothing,
    /// and is all that a driver says whose hands are found without asking.
    fn known(&self, incarnation: IncarnationId) -> Option<Arc<dyn Hand>> {
        let _ = incarnation;
        None
    }

    /// Says since when it does not answer, if so: whatever is asked of it waits until it does. What
    /// works in this process always answers.
    fn silence(&self) -> Option<Silence> {
        None
    }

    /// Waits until it has not answered for so long that nobody should wait for it any more.
    ///
    /// That says nothing of what was asked: once it answers again, all is as it left it.
    async fn given_up(&self) -> Silence {
        std::future::pending().await
    }

    /// Returns a descriptor of the listener that leads out of a living hand, another one each time;
    /// `None` if its recipe asked for none, and of a hand that does not live.
    ///
    /// Of a hand that is being made it is the one of the sandbox that installs its packages, while that
    /// runs and has one.
    ///
    /// Programs inside connect to [`ADDRESS`](crate::outlet::ADDRESS), and wait until somebody accepts.
    /// Whoever holds one when the hand ends should drop it: nobody connects any more.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::Unsupported`] of a driver whose hands have no way out, and what the system says.
    async fn outlet(&self, incarnation: IncarnationId) -> io::Result<Option<TcpListener>> {
        unsupported(incarnation, "a way out")
    }

    /// Says what became of a call, from the journal if the incarnation is dead.
    async fn recall(&self, incarnation: IncarnationId, call: EventId) -> Recalled;

    /// Ends an incarnation and removes what it left; idempotent. Calls in flight are lost.
    ///
    /// # Errors
    ///
    /// If something of it cannot be removed; it is dead all the same.
    async fn reap(&self, incarnation: IncarnationId, keep: Keep) -> Result<(), ReapError>;

    /// Lists incarnations that live or have left something on this node.
    async fn list(&self) -> Vec<IncarnationId>;

    /// Tells whether a successor could take over this incarnation's writable layer on this node.
    ///
    /// # Errors
    ///
    /// If nobody can say so now; the layer may be there.
    async fn holds(&self, incarnation: IncarnationId) -> io::Result<bool> {
        let _ = incarnation;
        Ok(false)
    }

    /// Packs the writable layer as it is at one moment: nothing inside runs meanwhile.
    ///
    /// Of a living hand or of one that left its layer. What is packed was verified: as many entries
    /// as were there, and the hash of what the reader will give.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::Unsupported`] of a driver without layers, [`io::ErrorKind::NotFound`] if the
    /// node has no such layer, and what the disk says.
    async fn checkpoint(&self, incarnation: IncarnationId) -> io::Result<Packed> {
        unsupported(incarnation, "checkpoints")
    }

    /// Lays a packed layer where the hand of this incarnation will find it when it is provisioned,
    /// in place of one that was laid before.
    ///
    /// Whole or not at all: what does not come to the size, entries and hash it should is refused.
    /// Where the node holds the bounds of a layer, it holds those of `limits` from the beginning.
    ///
    /// # Errors
    ///
    /// As [`checkpoint`](Self::checkpoint); [`io::ErrorKind::AlreadyExists`] of an incarnation that
    /// has begun to live, [`io::ErrorKind::FileTooLarge`] of a layer that is beyond `limits`, and
    /// [`io::ErrorKind::InvalidData`] of what was read to its end and is not what was packed, and of
    /// nothing else: it would not be another time.
    async fn restore(
        &self,
        incarnation: IncarnationId,
        limits: &Limits,
        packed: Packed,
    ) -> io::Result<()> {
        let _ = limits;
        drop(packed);
        unsupported(incarnation, "checkpoints")
    }

    /// Lays a file where a hand shows it read-only, below `/mnt/session/uploads`.
    ///
    /// Before the hand is provisioned or while it lives. Whole or not at all; a file that was
    /// there is replaced. A successor shows what its predecessor did.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::Unsupported`] of a driver without files,
    /// [`io::ErrorKind::InvalidInput`] of a path that is no relative one below that folder,
    /// [`io::ErrorKind::InvalidData`] of content that has another size, and what disk or reader say.
    async fn place(
        &self,
        incarnation: IncarnationId,
        upload: &Upload,
        content: Reader,
    ) -> io::Result<()> {
        drop(content);
        unsupported(incarnation, &upload.path)
    }

    /// Removes a file that was placed; one that is not there is no error, a bad path is.
    async fn unplace(&self, incarnation: IncarnationId, path: &str) -> io::Result<()> {
        unsupported(incarnation, path)
    }

    /// Lists what was placed and is there, by path.
    async fn uploads(&self, incarnation: IncarnationId) -> io::Result<Vec<Upload>> {
        unsupported(incarnation, "files")
    }

    /// Lists the regular files of the commands' user below `/mnt/session/outputs` by path, of a living
    /// hand or of its layer. A file with several names is listed under each.
    ///
    /// # Errors
    ///
    /// As [`checkpoint`](Self::checkpoint).
    async fn outputs(&self, incarnation: IncarnationId) -> io::Result<Vec<Published>> {
        unsupported(incarnation, "files")
    }

    /// Opens one of [`outputs`](Self::outputs) by its path; symbolic links are not followed.
    ///
    /// # Errors
    ///
    /// As [`outputs`](Self::outputs), [`io::ErrorKind::NotFound`] of a path that would not be listed,
    /// and [`io::ErrorKind::InvalidInput`] of one that does not lead below that folder.
    async fn output(&self, incarnation: IncarnationId, path: &str) -> io::Result<Reader> {
        unsupported(incarnation, path)
    }
}

/// Says that a driver has no such thing.
fn unsupported<T>(incarnation: IncarnationId, what: &str) -> io::Result<T> {
    let words = format!("the driver of hand `{incarnation}` does not have it: {what}");
    Err(io::Error::new(io::ErrorKind::Unsupported, words))
}

/// Executes calls.
#[async_trait]
pub trait Hand: Debug + Send + Sync {
    /// Returns whose life this is.
    fn incarnation(&self) -> IncarnationId;

    /// Returns what it can say about a call after a failure.
    fn promise(&self) -> Promise;

    /// Refuses every epoch of that thread below this one from now on. A lower one than is known
    /// changes nothing.
    ///
    /// # Errors
    ///
    /// If the hand is gone.
    async fn raise(&self, fence: Fence) -> Result<(), HandLost>;

    /// Has a tool run, at most once per call id. Raises the fence too.
    ///
    /// Asking again joins the running call or returns its result, even from a hand that is lost
    /// since. If the caller goes away the call goes on. A wrong name or input is a result that the
    /// model can read, no error.
    ///
    /// # Errors
    ///
    /// If the hand is gone and this call has no result, or the fence is an old one.
    async fn execute(
        &self,
        fence: Fence,
        call: EventId,
        name: &str,
        input: &RawValue,
    ) -> Result<CallResult, CallError>;

    /// Settles the call once, as done or as interrupted, and returns when it is settled.
    ///
    /// A call that was never asked for is settled as interrupted: it will not run.
    async fn cancel(&self, call: EventId);
}
