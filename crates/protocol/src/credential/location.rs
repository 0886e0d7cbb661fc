//! The parts of a request that a secret is put into.

use serde::{Deserialize, Serialize};

use crate::Problem;
use crate::read::{At, Slot};

/// Where a placeholder is replaced; one of both at least.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Location {
    /// In the body.
    pub body: bool,
    /// In values of headers.
    pub header: bool,
}

/// Where it shall be replaced from now on; what is left out stays.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct LocationPatch {
    body: Option<bool>,
    header: Option<bool>,
}

impl Location {
    /// Reads the location of a new credential: absent is everywhere, an absent field of it is not.
    pub(super) fn create(slot: Slot<'_>) -> Result<Self, Problem> {
        let none = Self {
            body: false,
            header: false,
        };
        match slot.not_clearable()? {
            None => Ok(Self {
                body: true,
                header: true,
            }),
            Some(at) => LocationPatch::read(&at)?.over(none),
        }
    }
}

impl LocationPatch {
    pub(super) fn read(at: &At<'_>) -> Result<Self, Problem> {
        let mut object = at.object()?;
        let mut flag = |name: &'static str| -> Result<Option<bool>, Problem> {
            let at = object.field(name).not_clearable()?;
            at.map(|at| at.boolean()).transpose()
        };
        let patch = Self {
            body: flag("body")?,
            header: flag("header")?,
        };
        object.finish()?;
        Ok(patch)
    }

    /// Lays the patch over what is stored.
    pub(super) fn over(self, stored: Location) -> Result<Location, Problem> {
        let next = Location {
            body: self.body.unwrap_or(stored.body),
            header: self.header.unwrap_or(stored.header),
        };
        if next.body || next.header {
            return Ok(next);
        }
        Err(Problem::invalid(
            "auth.injection_location: `header` or `body` must be true, or the secret would be used \
             nowhere",
        ))
    }
}
