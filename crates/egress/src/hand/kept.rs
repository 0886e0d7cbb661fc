//! What follows from the credentials of a hand, as long as they are those.

use std::{collections::HashMap, sync::Arc};

use outlast_kernel::Unreachable;

use super::{credentials::Held, place::Place, policy::Policy, worn, worn::Worn};
use crate::replace::Table;

/// Places for which what credentials mean is kept.
const MOST: usize = 64;

/// What was made of a hand's credentials.
#[derive(Debug)]
pub(crate) struct Kept {
    held: Arc<[Held]>,
    /// What is looked for in all that comes back.
    sweep: Arc<Table>,
    unreachable: Arc<[Unreachable]>,
    worn: HashMap<Place, Arc<Worn>>,
}

impl Kept {
    pub(crate) fn new(held: Arc<[Held]>, policy: &Policy) -> Self {
        let unreachable = held.iter().filter_map(|one| one.unreachable(policy));
        Self {
            sweep: worn::sweep(&held),
            unreachable: unreachable.collect(),
            worn: HashMap::new(),
            held,
        }
    }

    /// Tells whether it was made of these.
    pub(crate) fn is_of(&self, held: &Arc<[Held]>) -> bool {
        Arc::ptr_eq(&self.held, held)
    }

    /// Returns what they mean for a place.
    pub(crate) fn worn(&mut self, place: &Place) -> Arc<Worn> {
        if let Some(worn) = self.worn.get(place) {
            return worn.clone();
        }
        if self.worn.len() >= MOST {
            self.worn.clear();
        }
        let worn = Arc::new(Worn::new(self.held.clone(), place, self.sweep.clone()));
        self.worn.insert(place.clone(), worn.clone());
        worn
    }

    /// Returns those that name hosts which the hand may not.
    pub(crate) fn unreachable(&self) -> Arc<[Unreachable]> {
        self.unreachable.clone()
    }
}
