//! Programs that write another format of records than this one.

use std::{fmt, sync::Arc};

use outlast_protocol::seam::Entropy;
use outlast_session::{Body, Formats, Json, Kind, chain};
use outlast_store::Material;

use super::Memory;

/// What a program of another time writes, and what it knows of the formats before its own.
#[derive(Clone, Copy)]
pub struct Era {
    /// The formats of the program that reads.
    pub formats: Formats,
    /// Returns the version and the body that the program of that time writes.
    pub write: fn(Kind, &Json) -> (u16, Json),
}

impl fmt::Debug for Era {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Era").finish_non_exhaustive()
    }
}

impl Memory {
    /// Returns the same store as a program of another time writes to it.
    #[must_use]
    pub fn of(&self, era: Era) -> Self {
        let era = Some(era);
        Self {
            seams: Arc::new(super::Seams {
                era,
                ..(*self.seams).clone()
            }),
            ..self.clone()
        }
    }
}

impl Era {
    /// Writes a body as that program does, and reads it as this one does.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    pub(super) fn material(
        &self,
        kind: Kind,
        body: &Json,
        entropy: &dyn Entropy,
    ) -> Result<Material, outlast_session::UnknownFormat> {
        let (version, written) = (self.write)(kind, body);
        let Material { salt, .. } = Material::fresh(&written, entropy);
        let digest = chain::digest(&salt.unwrap_or_default(), written.get());
        let body: Body = self.formats.read(kind, version, written)?;
        Ok(Material {
            salt,
            digest,
            body,
            version: Some(version),
        })
    }
}
