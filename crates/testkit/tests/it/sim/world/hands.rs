//! Hands as one process reaches them: a dead one asks for nothing and hears of nothing.

use std::{io, net::TcpListener, sync::Arc};

use async_trait::async_trait;
use outlast_hands::{
    CallError, Fence, Hand, HandLost, Keep, Limits, Promise, ProvisionError, Provisioner,
    ReapError, Recalled, Recipe,
    files::{Abilities, Packed, Published, Reader, Upload},
};
use outlast_protocol::{
    CallResult,
    id::{EventId, IncarnationId},
};
use outlast_testkit::faults::Faults;
use serde_json::value::RawValue;

/// A provisioner that a process reaches for as long as it lives.
#[derive(Debug)]
pub(crate) struct Reached {
    pub(crate) inner: Arc<dyn Provisioner>,
    pub(crate) faults: Arc<Faults>,
    /// Whether it denies the calls of hands that are gone.
    pub(crate) forgetful: bool,
}

/// A hand that a process reaches for as long as it lives.
#[derive(Debug)]
struct ReachedHand {
    inner: Arc<dyn Hand>,
    faults: Arc<Faults>,
}

impl Reached {
    fn hand(&self, inner: Arc<dyn Hand>) -> Arc<dyn Hand> {
        let faults = self.faults.clone();
        Arc::new(ReachedHand { inner, faults })
    }

    async fn io<T>(
        &self,
        name: &'static str,
        doing: impl Future<Output = io::Result<T>>,
    ) -> io::Result<T> {
        let failure = || io::Error::other("a fault was injected");
        self.faults.pass(name, doing, failure).await
    }
}

#[async_trait]
impl Provisioner for Reached {
    fn abilities(&self) -> Abilities {
        self.inner.abilities()
    }

    async fn provision(&self, recipe: &Recipe) -> Result<Arc<dyn Hand>, ProvisionError> {
        let failure = || ProvisionError::Step {
            incarnation: recipe.incarnation,
            step: "reach the node".to_owned(),
            reason: "a fault was injected".to_owned(),
            mend: None,
        };
        let made = self.inner.provision(recipe);
        let made = self.faults.pass("provision", made, failure).await?;
        Ok(self.hand(made))
    }

    async fn find(&self, incarnation: IncarnationId) -> Option<Arc<dyn Hand>> {
        let found = self.inner.find(incarnation);
        let found = self.faults.pass_whole("find_hand", found).await?;
        Some(self.hand(found))
    }

    async fn fate(&self, incarnation: IncarnationId) -> Option<String> {
        let fate = self.inner.fate(incarnation);
        self.faults.pass_whole("fate", fate).await
    }

    async fn outlet(&self, incarnation: IncarnationId) -> io::Result<Option<TcpListener>> {
        self.io("outlet", self.inner.outlet(incarnation)).await
    }

    async fn recall(&self, incarnation: IncarnationId, call: EventId) -> Recalled {
        let recalled = self.inner.recall(incarnation, call);
        let recalled = self.faults.pass_whole("recall", recalled).await;
        if self.forgetful {
            return Recalled::NotStarted;
        }
        recalled
    }

    async fn reap(&self, incarnation: IncarnationId, keep: Keep) -> Result<(), ReapError> {
        let reason = "a fault was injected".to_owned();
        let failure = || ReapError {
            incarnation,
            reason,
        };
        let reaped = self.inner.reap(incarnation, keep);
        self.faults.pass("reap", reaped, failure).await
    }

    async fn list(&self) -> Vec<IncarnationId> {
        let listed = self.inner.list();
        self.faults.pass_whole("list_hands", listed).await
    }

    async fn holds(&self, incarnation: IncarnationId) -> io::Result<bool> {
        self.io("holds", self.inner.holds(incarnation)).await
    }

    async fn checkpoint(&self, incarnation: IncarnationId) -> io::Result<Packed> {
        self.io("checkpoint", self.inner.checkpoint(incarnation))
            .await
    }

    async fn restore(
        &self,
        incarnation: IncarnationId,
        limits: &Limits,
        packed: Packed,
    ) -> io::Result<()> {
        let restored = self.inner.restore(incarnation, limits, packed);
        self.io("restore", restored).await
    }

    async fn place(
        &self,
        incarnation: IncarnationId,
        upload: &Upload,
        content: Reader,
    ) -> io::Result<()> {
        let placed = self.inner.place(incarnation, upload, content);
        self.io("place", placed).await
    }

    async fn unplace(&self, incarnation: IncarnationId, path: &str) -> io::Result<()> {
        self.io("unplace", self.inner.unplace(incarnation, path))
            .await
    }

    async fn uploads(&self, incarnation: IncarnationId) -> io::Result<Vec<Upload>> {
        self.io("uploads", self.inner.uploads(incarnation)).await
    }

    async fn outputs(&self, incarnation: IncarnationId) -> io::Result<Vec<Published>> {
        self.io("outputs", self.inner.outputs(incarnation)).await
    }

    async fn output(&self, incarnation: IncarnationId, path: &str) -> io::Result<Reader> {
        self.io("output", self.inner.output(incarnation, path))
            .await
    }
}

#[async_trait]
impl Hand for ReachedHand {
    fn incarnation(&self) -> IncarnationId {
        self.inner.incarnation()
    }

    fn promise(&self) -> Promise {
        self.inner.promise()
    }

    async fn raise(&self, fence: Fence) -> Result<(), HandLost> {
        self.faults
            .pass_whole("raise", self.inner.raise(fence))
            .await
    }

    async fn execute(
        &self,
        fence: Fence,
        call: EventId,
        name: &str,
        input: &RawValue,
    ) -> Result<CallResult, CallError> {
        let done = self.inner.execute(fence, call, name, input);
        self.faults.pass_whole("execute", done).await
    }

    async fn cancel(&self, call: EventId) {
        self.faults
            .pass_whole("cancel", self.inner.cancel(call))
            .await;
    }
}
