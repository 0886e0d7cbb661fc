//! What is mounted: a part of the configuration, which is stored apart from the state.

use std::sync::Arc;

use crate::{
    Entry, FoldError, State,
    body::{Cloned, Config, ResourceAdded, ResourceRemoved, ResourceUpdated},
};

pub(super) fn added(state: &mut State, entry: &Entry<'_>) -> Result<(), FoldError> {
    let added: ResourceAdded = entry.read()?;
    config(state, entry)?.resources.push(added.resource);
    Ok(())
}

pub(super) fn removed(state: &mut State, entry: &Entry<'_>) -> Result<(), FoldError> {
    let removed: ResourceRemoved = entry.read()?;
    let resources = &mut config(state, entry)?.resources;
    resources.retain(|known| known.id != removed.resource);
    Ok(())
}

pub(super) fn updated(state: &mut State, entry: &Entry<'_>) -> Result<(), FoldError> {
    let updated: ResourceUpdated = entry.read()?;
    let mut repositories = config(state, entry)?.repositories.iter_mut();
    let known = repositories.find(|known| known.id == updated.resource);
    let known = known.ok_or_else(|| entry.fault("it has no such repository"))?;
    known.updated = Some(updated.at);
    Ok(())
}

/// Of each repository the newest try counts.
pub(super) fn cloned(state: &mut State, entry: &Entry<'_>) -> Result<(), FoldError> {
    let cloned: Cloned = entry.read()?;
    let others = |known: &Cloned| known.resource != cloned.resource;
    state.cloned.retain(others);
    state.cloned.push(cloned);
    Ok(())
}

/// Returns the configuration for change, as another object than before.
fn config<'s>(state: &'s mut State, entry: &Entry<'_>) -> Result<&'s mut Config, FoldError> {
    match &mut state.config {
        Some(config) => Ok(Arc::make_mut(config)),
        None => Err(entry.fault("it has no configuration")),
    }
}
