//! Files that are mounted in hands: which may stand side by side, and how many.

use outlast_protocol::{Problem, id::ResourceId, limits};

use crate::{
    Answer, Decision, Kind, Refusal,
    body::{Mounted, ResourceAdded, ResourceRemoved, ResourceUpdated},
    decide::Desk,
};

use super::close;

/// Refuses what cannot be mounted together at a session's creation.
pub(super) fn check(resources: &[Mounted]) -> Result<(), Refusal> {
    let mut before = resources;
    while let Some((last, rest)) = before.split_last() {
        fits(rest, last, "resources")?;
        before = rest;
    }
    Ok(())
}

/// Mounts one more file.
pub(super) fn add(mut desk: Desk<'_, '_>, resource: &Mounted) -> Result<Decision, Refusal> {
    close::refuse_ended(&desk.state)?;
    let known = mounted(&desk);
    if known
        .iter()
        .any(|other| other.id == resource.id || other.file == resource.file)
    {
        return Err(Refusal::Illegal("an id is used twice"));
    }
    fits(known, resource, "mount_path")?;
    let added = ResourceAdded {
        resource: resource.clone(),
    };
    desk.note(0, Kind::ResourceAdded, &added)?;
    Ok(desk.done(Answer::Appended))
}

/// Notes that a repository has another token: all resources of its address, for they have the same.
pub(super) fn rotate(mut desk: Desk<'_, '_>, resource: ResourceId) -> Result<Decision, Refusal> {
    let config = desk.state.config.as_deref();
    let same = config.map_or_else(Vec::new, |config| config.same_repository(resource));
    let same: Vec<_> = same.iter().map(|known| known.id).collect();
    if same.is_empty() {
        return Err(Problem::not_found(format_args!("resource `{resource}`")).into());
    }
    close::refuse_ended(&desk.state)?;
    let at = desk.at();
    for resource in same {
        desk.note(0, Kind::ResourceUpdated, &ResourceUpdated { resource, at })?;
    }
    Ok(desk.done(Answer::Appended))
}

/// Takes a mounted file away.
pub(super) fn remove(mut desk: Desk<'_, '_>, resource: ResourceId) -> Result<Decision, Refusal> {
    if !mounted(&desk).iter().any(|known| known.id == resource) {
        let config = desk.state.config.as_deref();
        if config.is_some_and(|config| config.repositories.iter().any(|known| known.id == resource))
        {
            return Err(Problem::invalid(format!(
                "resource `{resource}` is a repository and stays as long as its session"
            ))
            .into());
        }
        return Err(Problem::not_found(format_args!("resource `{resource}`")).into());
    }
    close::refuse_ended(&desk.state)?;
    desk.note(0, Kind::ResourceRemoved, &ResourceRemoved { resource })?;
    Ok(desk.done(Answer::Appended))
}

fn mounted<'d>(desk: &'d Desk<'_, '_>) -> &'d [Mounted] {
    let config = desk.state.config.as_deref();
    config.map_or(&[], |config| &config.resources)
}

fn fits(known: &[Mounted], new: &Mounted, field: &str) -> Result<(), Refusal> {
    if known.len() >= limits::RESOURCES {
        return Err(Problem::invalid(format!(
            "resources: a session has at most {}",
            limits::RESOURCES
        ))
        .into());
    }
    match known.iter().find(|other| other.path.meets(&new.path)) {
        Some(other) => {
            let words = new.path.refusal(&other.path);
            Err(Problem::invalid(format!("{field}: {words}")).into())
        }
        None => Ok(()),
    }
}
