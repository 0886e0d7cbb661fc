//! The floor of everything durable: one write and one sync on the same disk.

use std::{
    fs::{File, OpenOptions},
    io::Write as _,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::Result;
use tokio::{task::spawn_blocking, time::Instant};

/// Bytes of one write: about what a record of one kilobyte takes.
const BYTES: usize = 1_200;

/// A file that grows by synced writes.
#[derive(Clone, Debug)]
pub(crate) struct Disk(Arc<Mutex<File>>);

impl Disk {
    /// Opens a file in the folder.
    pub(crate) fn open(dir: &Path) -> Result<Self> {
        let path = dir.join("floor.bin");
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        file.sync_all()?;
        Ok(Self(Arc::new(Mutex::new(file))))
    }

    /// Appends and syncs once; returns how long that took.
    pub(crate) async fn sync(&self) -> Result<Duration> {
        let file = self.0.clone();
        // Timed inside: the way to the thread is not the disk's.
        spawn_blocking(move || once(&file)).await?
    }

    /// Appends and syncs without pause for a while; returns syncs a second.
    pub(crate) async fn rate(&self, time: Duration) -> Result<f64> {
        let file = self.0.clone();
        spawn_blocking(move || {
            let (begun, mut count) = (Instant::now(), 0_u32);
            while begun.elapsed() < time {
                once(&file)?;
                count += 1;
            }
            Ok(f64::from(count) / begun.elapsed().as_secs_f64())
        })
        .await?
    }
}

fn once(file: &Mutex<File>) -> Result<Duration> {
    let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
    let begun = Instant::now();
    file.write_all(&[b'x'; BYTES])?;
    file.sync_data()?;
    Ok(begun.elapsed())
}
