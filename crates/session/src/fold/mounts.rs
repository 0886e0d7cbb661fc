//! What is mounted: a part of the configuration, which is stored apart from the state.

use std::sync::Arc;

use crate::{
    Entry, FoldError, State,
    body::{Config, ResourceAdded, ResourceRemoved},
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

/// Returns the configuration for change, as another object than before.
fn config<'s>(state: &'s mut State, entry: &Entry<'_>) -> Result<&'s mut Config, FoldError> {
    match &mut state.config {
        Some(config) => Ok(Arc::make_mut(config)),
        None => Err(entry.fault("it has no configuration")),
    }
}
