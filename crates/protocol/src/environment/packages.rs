//! What is installed in hands: lists of names by manager, checked item by item.

mod syntax;

use serde::{Deserialize, Serialize};

use crate::read::{At, Slot};
use crate::words::words;
use crate::{Problem, limits};

words! {
    /// A program that installs packages. Declared in the order in which they install.
    pub enum Manager {
        /// Of Debian and Ubuntu.
        Apt = "apt",
        /// Of Rust.
        Cargo = "cargo",
        /// Of Ruby.
        Gem = "gem",
        /// Of Go.
        Go = "go",
        /// Of Node.js.
        Npm = "npm",
        /// Of Python.
        Pip = "pip",
    }
}

/// Packages by manager, each in its manager's own syntax.
///
/// What was read by [`CreateEnvironment`](super::CreateEnvironment) or
/// [`UpdateEnvironment`](super::UpdateEnvironment) can stand behind a `--` among the arguments of
/// its manager: no item is an option, a path or an address.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(tag = "type", rename = "packages")]
pub struct Packages {
    /// Of Debian and Ubuntu.
    pub apt: Vec<String>,
    /// Of Rust.
    pub cargo: Vec<String>,
    /// Of Ruby.
    pub gem: Vec<String>,
    /// Of Go.
    pub go: Vec<String>,
    /// Of Node.js.
    pub npm: Vec<String>,
    /// Of Python.
    pub pip: Vec<String>,
}

impl Packages {
    /// Returns the list of one manager.
    pub fn of(&self, manager: Manager) -> &[String] {
        match manager {
            Manager::Apt => &self.apt,
            Manager::Cargo => &self.cargo,
            Manager::Gem => &self.gem,
            Manager::Go => &self.go,
            Manager::Npm => &self.npm,
            Manager::Pip => &self.pip,
        }
    }

    /// Returns the list of one manager, to be changed.
    fn of_mut(&mut self, manager: Manager) -> &mut Vec<String> {
        match manager {
            Manager::Apt => &mut self.apt,
            Manager::Cargo => &mut self.cargo,
            Manager::Gem => &mut self.gem,
            Manager::Go => &mut self.go,
            Manager::Npm => &mut self.npm,
            Manager::Pip => &mut self.pip,
        }
    }

    /// Returns the managers that have something to install, in the order in which they do.
    pub fn managers(&self) -> impl Iterator<Item = Manager> {
        let all = Manager::TABLE.iter().map(|(_, manager)| *manager);
        all.filter(|manager| !self.of(*manager).is_empty())
    }

    /// Tells whether nothing is to be installed.
    pub fn is_empty(&self) -> bool {
        self.managers().next().is_none()
    }
}

/// Packages as a client asks for them: a list that is left out keeps its value.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct PackagesRequest {
    lists: Vec<(Manager, Vec<String>)>,
}

impl PackagesRequest {
    /// Reads `packages`; null and nothing ask for no change.
    pub(super) fn read(slot: Slot<'_>) -> Result<Self, Problem> {
        let mut request = Self::default();
        let Some(at) = slot.optional() else {
            return Ok(request);
        };
        let mut object = at.object()?;
        if let Some(kind) = object.field("type").optional() {
            kind.word(&[("packages", ())])?;
        }
        for (name, manager) in Manager::TABLE {
            let read = |at: &At<'_>| list(at, *manager);
            if let Some(list) = object.field(name).read(read)? {
                request.lists.push((*manager, list));
            }
        }
        object.finish()?;
        Ok(request)
    }

    /// Lays the request over what is stored.
    pub(super) fn over(self, mut stored: Packages) -> Packages {
        for (manager, list) in self.lists {
            *stored.of_mut(manager) = list;
        }
        stored
    }
}

fn list(at: &At<'_>, manager: Manager) -> Result<Vec<String>, Problem> {
    let items = at.items(0..=limits::PACKAGES)?;
    let mut names = Vec::new();
    let mut list = Vec::new();
    for item in &items {
        let text = item.text(1..=limits::PACKAGE)?;
        let Some(name) = syntax::name(manager, text) else {
            return Err(item.refuse(syntax::words(manager)));
        };
        if names.contains(&name) {
            let words = format_args!("`{name}` is in this list already; name each package once");
            return Err(item.refuse(words));
        }
        names.push(name);
        list.push(text.to_owned());
    }
    Ok(list)
}

#[cfg(test)]
mod tests;
