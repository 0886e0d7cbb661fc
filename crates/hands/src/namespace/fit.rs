//! Layers of another kind than new hands have here, such as those of a server that made no images, or
//! whose bounds were others.

use std::{io, sync::Arc};

use super::{Folder, Node, layer::Stop, maker::bounds, uploads::blocking, usage, words};
use crate::{Limits, ProvisionError};

impl Node {
    /// Lays the files of a hand that is about to begin into a disk with the bounds of its limits,
    /// where this host makes disks and the hand's layer is another.
    ///
    /// What is too large for those bounds is refused, and stays as it is: no hand is held by less than
    /// the configuration says. Where no disks are made a layer stays what it is.
    pub(super) async fn fit(
        self: &Arc<Self>,
        folder: &Folder,
        limits: Limits,
    ) -> Result<(), ProvisionError> {
        let (node, place) = (Arc::clone(self), folder.clone());
        let fitted = blocking(move || node.fitted(&place, &limits)).await;
        fitted.map_err(|error| ProvisionError::Step {
            incarnation: folder.incarnation(),
            step: "lay its files into a disk with the bounds that are configured".to_owned(),
            reason: error.to_string(),
            mend: (error.kind() == io::ErrorKind::FileTooLarge).then(|| words::RAISE.to_owned()),
        })
    }

    fn fitted(&self, folder: &Folder, limits: &Limits) -> io::Result<()> {
        let launcher = self.maker.launcher();
        if launcher.fits(&folder.tree(), &bounds(limits))? {
            return Ok(());
        }
        let Some(old) = folder.layer()? else {
            return Ok(());
        };
        // Before all of it is packed for nothing.
        let used = usage::measure(old.path());
        if used.bytes > limits.disk_bytes || used.inodes > limits.inodes {
            let words = format!("its files {}", words::more_than(limits));
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, words));
        }
        let (sum, pack) = self.pack_at(&old, folder, &Stop::default())?;
        drop(old);
        self.unpack(folder, limits, pack, &sum)
    }
}
