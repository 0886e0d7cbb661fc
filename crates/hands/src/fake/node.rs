//! The node of pretended hands.

use std::{
    collections::BTreeSet,
    io,
    net::TcpListener,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use outlast_protocol::id::{EventId, IncarnationId};
use tokio::io::AsyncReadExt as _;

use super::{
    FakeHand, Fakes, Handle,
    files::{self, Layer, Uploads},
    outlets::Outlet,
    silence::answering,
};
use crate::{
    Hand, Keep, Limits, ProvisionError, Provisioner, ReapError, Recalled, Recipe, Silence,
    error::ON_REQUEST,
    files::{Abilities, Packed, Published, Reader, Upload},
};

#[async_trait]
impl Provisioner for Fakes {
    fn abilities(&self) -> Abilities {
        self.shared.abilities
    }

    fn silence(&self) -> Option<Silence> {
        self.quiet()
    }

    async fn given_up(&self) -> Silence {
        self.hopeless().await
    }

    async fn provision(&self, recipe: &Recipe) -> Result<Arc<dyn Hand>, ProvisionError> {
        answering(&self.shared.stopped).await;
        let incarnation = recipe.incarnation;
        let failed = |error: io::Error| ProvisionError::Step {
            incarnation,
            step: "make a pretended way out".to_owned(),
            reason: error.to_string(),
            mend: None,
        };
        self.install(recipe).await.map_err(failed)?;
        let mut state = self.shared.state();
        if let Some(hand) = state.hands.get(&incarnation) {
            return if hand.is_lost() {
                Err(ProvisionError::Ended { incarnation })
            } else {
                Ok(Arc::new(Handle(Arc::clone(hand))))
            };
        }
        if let Some(reason) = state.refusal.clone() {
            let step = "make a pretended hand".to_owned();
            return Err(ProvisionError::Step {
                incarnation,
                step,
                reason,
                mend: None,
            });
        }
        let outlet = Outlet::of(recipe).map_err(failed)?;
        if let Some(old) = recipe
            .predecessor
            .and_then(|old| state.hands.get(&old).cloned())
        {
            old.die("a successor took over");
        }
        let taken = recipe.predecessor.and_then(|old| state.layers.remove(&old));
        let layer = state.layers.entry(incarnation).or_default();
        if let Some(taken) = taken {
            *layer = taken;
        }
        let shown = recipe
            .predecessor
            .and_then(|old| state.uploads.remove(&old));
        if let Some(shown) = shown {
            state.uploads.entry(incarnation).or_insert(shown);
        }
        state.provisioned.push(recipe.clone());
        let hand = Arc::new(FakeHand {
            incarnation,
            shared: Arc::clone(&self.shared),
            calls: Mutex::default(),
            outlet,
        });
        state.hands.insert(incarnation, Arc::clone(&hand));
        Ok(Arc::new(Handle(hand)))
    }

    async fn find(&self, incarnation: IncarnationId) -> Option<Arc<dyn Hand>> {
        answering(&self.shared.stopped).await;
        let hand = self.shared.state().hands.get(&incarnation).cloned();
        let hand = hand.filter(|hand| !hand.is_lost())?;
        Some(Arc::new(Handle(hand)))
    }

    async fn fate(&self, incarnation: IncarnationId) -> Option<String> {
        answering(&self.shared.stopped).await;
        let hand = self.shared.state().hands.get(&incarnation).cloned()?;
        hand.fate()
    }

    async fn outlet(&self, incarnation: IncarnationId) -> io::Result<Option<TcpListener>> {
        answering(&self.shared.stopped).await;
        self.able(|abilities| abilities.outlets)?;
        let state = self.shared.state();
        match (
            state.hands.get(&incarnation),
            state.installing.get(&incarnation),
        ) {
            (Some(hand), _) => hand.outlet.listener(),
            (None, Some(outlet)) => outlet.listener(),
            (None, None) => Ok(None),
        }
    }

    async fn recall(&self, incarnation: IncarnationId, call: EventId) -> Recalled {
        answering(&self.shared.stopped).await;
        let hand = self.shared.state().hands.get(&incarnation).cloned();
        hand.map_or(Recalled::Unknown, |hand| hand.recall(call))
    }

    async fn reap(&self, incarnation: IncarnationId, keep: Keep) -> Result<(), ReapError> {
        answering(&self.shared.stopped).await;
        let hand = match keep {
            Keep::Layer => self.shared.state().hands.get(&incarnation).cloned(),
            Keep::Nothing => {
                let mut state = self.shared.state();
                state.layers.remove(&incarnation);
                state.uploads.remove(&incarnation);
                state.hands.remove(&incarnation)
            }
        };
        if let Some(hand) = hand {
            hand.die(ON_REQUEST);
        }
        Ok(())
    }

    async fn holds(&self, incarnation: IncarnationId) -> io::Result<bool> {
        answering(&self.shared.stopped).await;
        let state = self.shared.state();
        if state.unknown {
            return Err(io::Error::other("nobody can say what is here"));
        }
        Ok(self.shared.abilities.layers && state.layers.contains_key(&incarnation))
    }

    async fn checkpoint(&self, incarnation: IncarnationId) -> io::Result<Packed> {
        answering(&self.shared.stopped).await;
        self.able(|abilities| abilities.layers)?;
        let (sum, pack) = self.layer(incarnation, Layer::pack)?;
        let content = Box::pin(io::Cursor::new(pack));
        Ok(Packed { sum, content })
    }

    async fn restore(
        &self,
        incarnation: IncarnationId,
        limits: &Limits,
        mut packed: Packed,
    ) -> io::Result<()> {
        answering(&self.shared.stopped).await;
        self.able(|abilities| abilities.layers)?;
        let mut pack = Vec::new();
        packed.content.read_to_end(&mut pack).await?;
        let layer = Layer::unpack(&packed.sum, &pack)?;
        if layer.bytes() > limits.disk_bytes {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let mut state = self.shared.state();
        if state.hands.contains_key(&incarnation) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        state.layers.insert(incarnation, layer);
        Ok(())
    }

    async fn place(
        &self,
        incarnation: IncarnationId,
        upload: &Upload,
        content: Reader,
    ) -> io::Result<()> {
        answering(&self.shared.stopped).await;
        self.able(|abilities| abilities.files)?;
        let bytes = files::read(upload, content).await?;
        let mut state = self.shared.state();
        state
            .uploads
            .entry(incarnation)
            .or_default()
            .place(upload, bytes)
    }

    async fn unplace(&self, incarnation: IncarnationId, path: &str) -> io::Result<()> {
        answering(&self.shared.stopped).await;
        self.able(|abilities| abilities.files)?;
        files::plain(path)?;
        if let Some(uploads) = self.shared.state().uploads.get_mut(&incarnation) {
            uploads.unplace(path);
        }
        Ok(())
    }

    async fn uploads(&self, incarnation: IncarnationId) -> io::Result<Vec<Upload>> {
        answering(&self.shared.stopped).await;
        self.able(|abilities| abilities.files)?;
        let state = self.shared.state();
        let uploads = state.uploads.get(&incarnation);
        Ok(uploads.map(Uploads::list).unwrap_or_default())
    }

    async fn outputs(&self, incarnation: IncarnationId) -> io::Result<Vec<Published>> {
        answering(&self.shared.stopped).await;
        self.able(|abilities| abilities.files)?;
        self.layer(incarnation, |layer| Ok(layer.outputs()))
    }

    async fn output(&self, incarnation: IncarnationId, path: &str) -> io::Result<Reader> {
        answering(&self.shared.stopped).await;
        self.able(|abilities| abilities.files)?;
        files::below(path)?;
        self.layer(incarnation, |layer| layer.output(path))
    }

    async fn list(&self) -> Vec<IncarnationId> {
        answering(&self.shared.stopped).await;
        let state = self.shared.state();
        let left = state.layers.keys().chain(state.uploads.keys());
        let found: BTreeSet<_> = state.hands.keys().chain(left).copied().collect();
        found.into_iter().collect()
    }
}
