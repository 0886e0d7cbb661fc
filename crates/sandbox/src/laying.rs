//! Layers that are made before their sandbox: from a checkpoint, or from a layer of another kind.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::DirBuilderExt as _,
    path::Path,
};

use crate::{
    Launcher, Layer, Limits,
    disk::{self, Disk, IMAGE, UPPER},
};

impl Launcher {
    /// Makes an empty layer in the new folder of a sandbox, of the kind and with the bounds that a new
    /// sandbox has here. Blocks.
    ///
    /// # Errors
    ///
    /// What the system says; a host that makes images never makes a folder instead of one.
    pub fn new_layer(&self, folder: &Path, limits: &Limits) -> io::Result<Layer> {
        let Some(templates) = &self.templates else {
            let layer = Layer::plain(folder);
            fs::DirBuilder::new().mode(0o700).create(layer.path())?;
            return Ok(layer);
        };
        let image = folder.join(IMAGE);
        templates.copy(&image, limits, self.ids())?;
        Ok(Layer::on(Disk::open(&image)?.into()))
    }

    /// Tells whether the layer in the folder of a sandbox, if there is one, holds the bounds that a new
    /// sandbox has here.
    ///
    /// Where no images are made every layer does: an image that is there keeps the bounds it has.
    ///
    /// # Errors
    ///
    /// If it cannot be looked at.
    pub fn fits(&self, folder: &Path, limits: &Limits) -> io::Result<bool> {
        let Some(templates) = &self.templates else {
            return Ok(true);
        };
        match folder.join(IMAGE) {
            image if image.exists() => templates.fits(&image, limits),
            _ => Ok(!folder.join(UPPER).exists()),
        }
    }
}

impl Layer {
    /// Lets go of a layer in `folder` that was written to, and returns when all of it is with the
    /// host's file system, which is not synced for a plain one. Blocks.
    ///
    /// # Errors
    ///
    /// If something of it could not be written: behind an image the host's disk may be full.
    pub fn settle(self, folder: &Path) -> io::Result<()> {
        let Self { path, disk } = self;
        let Some(disk) = disk else { return Ok(()) };
        rustix::fs::syncfs(File::open(path)?)?;
        drop(disk);
        // Only when the kernel has let go of it the image says that it was put away in order.
        let image = File::options()
            .read(true)
            .write(true)
            .open(folder.join(IMAGE))?;
        disk::lock(&image)?;
        image.sync_all()
    }
}
