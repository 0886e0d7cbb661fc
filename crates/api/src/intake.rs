//! How much of all requests may be in memory, and how many of the costly kind run at once.

use std::sync::Arc;

use outlast_protocol::Problem;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::failure::overloaded;

/// What is counted as one, in bytes.
const UNIT: usize = 16 * 1024;

/// Bounds of what is taken in at once; past them a request is told to come back.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Bytes of bodies in memory, of all requests together.
    pub body_bytes: usize,
    /// Uploads at once.
    pub uploads: usize,
    /// Attempts of requests whose end is not known, remembered while they can be retried.
    pub attempts: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            body_bytes: 256 << 20,
            uploads: 64,
            attempts: 65_536,
        }
    }
}

/// What is left of the bounds.
#[derive(Debug)]
pub(crate) struct Intake {
    bytes: Arc<Semaphore>,
    uploads: Arc<Semaphore>,
}

/// What one body takes of the memory for all; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    bytes: Arc<Semaphore>,
    permit: Option<OwnedSemaphorePermit>,
}

impl Intake {
    pub(crate) fn new(bounds: Bounds) -> Self {
        let units = bounds.body_bytes.div_ceil(UNIT).min(Semaphore::MAX_PERMITS);
        Self {
            bytes: Arc::new(Semaphore::new(units)),
            uploads: Arc::new(Semaphore::new(bounds.uploads)),
        }
    }

    /// Begins to hold a body, which has nothing yet.
    pub(crate) fn hold(&self) -> Held {
        Held {
            bytes: self.bytes.clone(),
            permit: None,
        }
    }

    /// Begins an upload; it is over when this is dropped.
    pub(crate) fn upload(&self) -> Result<OwnedSemaphorePermit, Problem> {
        let permit = self.uploads.clone().try_acquire_owned();
        permit.map_err(|_| overloaded("too many uploads are under way"))
    }
}

impl Held {
    /// Makes room for a body of so many bytes.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), Problem> {
        let has = self
            .permit
            .as_ref()
            .map_or(0, OwnedSemaphorePermit::num_permits);
        let more = bytes.div_ceil(UNIT).saturating_sub(has);
        if more == 0 {
            return Ok(());
        }
        let taken = u32::try_from(more)
            .ok()
            .and_then(|more| self.bytes.clone().try_acquire_many_owned(more).ok());
        let full = || overloaded("the requests at hand have as many bytes as may be in memory");
        let taken = taken.ok_or_else(full)?;
        match &mut self.permit {
            Some(permit) => permit.merge(taken),
            None => self.permit = Some(taken),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use outlast_protocol::ErrorCode;

    use super::*;

    #[test]
    fn bodies_share_one_memory_and_give_it_back() {
        let intake = Intake::new(Bounds {
            body_bytes: 4 * UNIT,
            ..Bounds::default()
        });
        let (mut one, mut two) = (intake.hold(), intake.hold());
        one.grow(1).unwrap();
        one.grow(UNIT).unwrap();
        one.grow(3 * UNIT).unwrap();
        two.grow(UNIT).unwrap();
        let full = two.grow(UNIT + 1).unwrap_err();
        assert_eq!(full.code, ErrorCode::Overloaded);
        assert!(one.grow(usize::MAX).is_err());
        drop(one);
        two.grow(4 * UNIT).unwrap();
        drop(two);
        assert_eq!(intake.bytes.available_permits(), 4);
    }

    #[test]
    fn uploads_are_counted() {
        let intake = Intake::new(Bounds {
            uploads: 1,
            ..Bounds::default()
        });
        let one = intake.upload().unwrap();
        assert_eq!(intake.upload().unwrap_err().code, ErrorCode::Overloaded);
        drop(one);
        drop(intake.upload().unwrap());
    }
}
