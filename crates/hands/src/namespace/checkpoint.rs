//! Checkpoints of writable layers: taken of living and of dead incarnations, laid for new ones.

use std::{
    collections::HashMap,
    fs::File,
    io,
    path::Path,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use outlast_protocol::id::IncarnationId;
use outlast_sandbox::{Layer, is_cramped};
use rustix::io::Errno;
use tokio::{sync::Mutex as Turn, task::spawn_blocking, time::Instant};
use tokio_util::io::SyncIoBridge;

use super::{Folder, Node, elsewhere, hand::NamespaceHand, layer, maker::bounds, words};
use crate::{
    Limits,
    files::{Packed, Sum},
};

/// One checkpoint at a time of each incarnation.
#[derive(Debug, Default)]
pub(super) struct Turns(Mutex<HashMap<IncarnationId, Weak<Turn<()>>>>);

impl Turns {
    fn of(&self, incarnation: IncarnationId) -> Arc<Turn<()>> {
        let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        turns.retain(|_, turn| turn.strong_count() > 0);
        if let Some(turn) = turns.get(&incarnation).and_then(Weak::upgrade) {
            return turn;
        }
        let turn = Arc::new(Turn::new(()));
        turns.insert(incarnation, Arc::downgrade(&turn));
        turn
    }
}

/// Stops a pack whose caller went away.
struct StopOnDrop(layer::Stop);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop();
    }
}

impl Node {
    /// Packs the layer of an incarnation, living or not.
    pub(super) async fn checkpoint(
        self: &Arc<Self>,
        incarnation: IncarnationId,
    ) -> io::Result<Packed> {
        let stop = layer::Stop::default();
        let _stop = StopOnDrop(stop.clone());
        let node = Arc::clone(self);
        // A task of its own: whoever goes away does not leave a sandbox that stands still.
        let task = self
            .tasks
            .spawn(async move { node.packed(incarnation, stop).await });
        let (sum, file) = task.await.map_err(io::Error::other)??;
        let content = Box::pin(tokio::fs::File::from_std(file));
        Ok(Packed { sum, content })
    }

    /// Packs into a file without a name.
    async fn packed(
        self: &Arc<Self>,
        incarnation: IncarnationId,
        stop: layer::Stop,
    ) -> io::Result<(Sum, File)> {
        let turn = self.turns.of(incarnation);
        let _one = turn.lock().await;
        let began = Instant::now();
        let (node, folder) = (Arc::clone(self), self.folders.of(incarnation));
        let slot = self.slots.slot(incarnation);
        let turn = slot.turn().await;
        let hand = slot.hand().filter(|hand| !hand.is_lost());
        let done = if let Some(hand) = hand {
            drop((turn, slot));
            spawn_blocking(move || node.pack_living(&hand, &folder, &stop)).await
        } else {
            // Locked, so that no successor takes the layer meanwhile.
            let done = match self.is_elsewhere(incarnation).await {
                true => Ok(Err(elsewhere())),
                false => spawn_blocking(move || node.pack(&folder, &stop)).await,
            };
            drop(turn);
            self.slots.forget(incarnation, slot);
            done
        };
        let done = done.map_err(io::Error::other).flatten();
        let took = began.elapsed();
        metrics::histogram!("outlast_hands_checkpoint_seconds").record(took.as_secs_f64());
        done
    }

    /// Packs while nothing inside runs.
    fn pack_living(
        &self,
        hand: &NamespaceHand,
        folder: &Folder,
        stop: &layer::Stop,
    ) -> io::Result<(Sum, File)> {
        let began = Instant::now();
        let frozen = hand.freeze()?;
        let gone = || io::Error::other("the sandbox has ended");
        let at = hand.layer().ok_or_else(gone)?;
        let packed = self.pack_at(&at, folder, stop)?;
        if !frozen.holds() {
            return Err(io::Error::other("the sandbox ended meanwhile"));
        }
        drop(frozen);
        let still = began.elapsed();
        metrics::histogram!("outlast_hands_frozen_seconds").record(still.as_secs_f64());
        Ok(packed)
    }

    /// Packs what an incarnation left.
    fn pack(&self, folder: &Folder, stop: &layer::Stop) -> io::Result<(Sum, File)> {
        let Some(at) = folder.layer()? else {
            let words = format!("nothing of `{}` is on this node", folder.incarnation());
            return Err(io::Error::new(io::ErrorKind::NotFound, words));
        };
        self.pack_at(&at, folder, stop)
    }

    /// Packs what stands still.
    pub(super) fn pack_at(
        &self,
        at: &Layer,
        folder: &Folder,
        stop: &layer::Stop,
    ) -> io::Result<(Sum, File)> {
        // Without a name: it goes with its last reader, even if this process dies.
        let mut file = tempfile::tempfile_in(folder.path()).map_err(|error| told(&error))?;
        let sum = layer::pack(at.path(), &mut file, self.maker.ids(), stop);
        Ok((sum.map_err(|error| told(&error))?, file))
    }

    /// Lays a packed layer for an incarnation that has not begun.
    pub(super) async fn restore(
        self: &Arc<Self>,
        incarnation: IncarnationId,
        limits: Limits,
        packed: Packed,
    ) -> io::Result<()> {
        let node = Arc::clone(self);
        let task = self
            .tasks
            .spawn(async move { node.restored(incarnation, limits, packed).await });
        task.await.map_err(io::Error::other)?
    }

    async fn restored(
        self: &Arc<Self>,
        incarnation: IncarnationId,
        limits: Limits,
        packed: Packed,
    ) -> io::Result<()> {
        let slot = self.slots.slot(incarnation);
        let turn = slot.turn().await;
        let folder = self.folders.of(incarnation);
        let done = if slot.hand().is_some() || folder.has_lived() {
            let words = format!("`{incarnation}` has begun to live");
            Err(io::Error::new(io::ErrorKind::AlreadyExists, words))
        } else {
            let (node, Packed { sum, content }) = (Arc::clone(self), packed);
            let content = SyncIoBridge::new(content);
            let done = spawn_blocking(move || node.unpack(&folder, &limits, content, &sum)).await;
            done.map_err(io::Error::other).flatten()
        };
        drop(turn);
        self.slots.forget(incarnation, slot);
        done
    }

    /// Lays a layer of the kind that new hands have here.
    pub(super) fn unpack(
        &self,
        folder: &Folder,
        limits: &Limits,
        content: impl io::Read,
        sum: &Sum,
    ) -> io::Result<()> {
        folder.make()?;
        let laid = folder.lay_layer(|stage| {
            self.laid(stage, limits, content, sum)
                .map_err(|error| behind(error, stage))
        });
        laid.map_err(|error| told(&error))
    }

    /// Lays it aside.
    fn laid(
        &self,
        stage: &Path,
        limits: &Limits,
        content: impl io::Read,
        sum: &Sum,
    ) -> io::Result<()> {
        let (launcher, ids) = (self.maker.launcher(), self.maker.ids());
        let layer = launcher.new_layer(stage, &bounds(limits))?;
        // The layer itself, and on a disk of its own what the overlay needs beside it.
        if layer.room().is_some() && sum.entries > limits.inodes {
            return Err(too_large(limits));
        }
        let unpacked = layer::unpack(content, sum, layer.path(), ids);
        unpacked.map_err(|error| match (error.kind(), layer.room()) {
            (io::ErrorKind::StorageFull, Some(_)) => too_large(limits),
            _ => error,
        })?;
        layer.settle(stage)
    }
}

/// Says that a layer does not fit into what a sandbox may have.
fn too_large(limits: &Limits) -> io::Error {
    let words = format!("its files {}", words::more_than(limits));
    io::Error::new(io::ErrorKind::FileTooLarge, words)
}

/// Says what a device that failed was: the image on it found no room on the host's disk.
fn behind(error: io::Error, stage: &Path) -> io::Error {
    match Errno::from_io_error(&error) {
        Some(Errno::IO) if is_cramped(stage) => io::ErrorKind::StorageFull.into(),
        _ => error,
    }
}

/// Says what a full disk means here.
fn told(error: &io::Error) -> io::Error {
    let kind = error.kind();
    if matches!(
        kind,
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    ) {
        let words = format!("the host's disk is too full for a checkpoint: {error}");
        return io::Error::new(kind, words);
    }
    io::Error::new(kind, error.to_string())
}
