//! One installation: a sandbox of its own, whose writable layer becomes the layer. It has a way out only
//! for what has no mirror.

use std::{
    fs, io,
    net::TcpListener,
    os::unix::net::UnixStream as Channel,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use outlast_init::{
    frame::{Decoder, encode},
    install::{COMMAND, Job, Said},
    outlet,
};
use outlast_sandbox::{Cgroups, Confined, Image, Launcher, Pressure, Purpose, Spec};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, Interest},
    net::UnixStream,
    task::spawn_blocking,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    Order,
    keep::{Part, Shelf},
    outlets::Outlets,
    steps::{self, Plan},
};
use crate::{
    Limits,
    namespace::{link::listener, maker::Failed, usage, words},
};

/// How often to look at what an installation wrote.
const LOOK: Duration = Duration::from_millis(500);

/// How much of what a manager said is told.
const LINES: usize = 15;
const CHARACTERS: usize = 1_500;

/// What installations need.
pub(super) struct Installer<'a> {
    pub(super) shelf: &'a Shelf,
    pub(super) launcher: &'a Arc<Launcher>,
    pub(super) program: &'a Arc<Image>,
    pub(super) stop: &'a CancellationToken,
    pub(super) outlets: &'a Outlets,
}

/// Makes a failure of one manager's part.
fn failed(manager: &str, reason: impl Into<String>, mend: Option<String>) -> Failed {
    Failed {
        step: format!("install the {manager} packages of the environment"),
        reason: reason.into(),
        mend,
    }
}

/// Makes a failure that is no manager's.
fn broken(error: impl Into<io::Error>) -> Failed {
    let error: io::Error = error.into();
    Failed {
        step: "install the packages of the environment".to_owned(),
        reason: error.to_string(),
        mend: None,
    }
}

impl Installer<'_> {
    /// Installs what is ordered; whole or not at all.
    pub(super) async fn run(&self, key: &str, order: &Order<'_>) -> Result<(), Failed> {
        for manager in order.wanted.packages.managers() {
            if let Some(lack) = order.wanted.lacks(manager, order.image) {
                return Err(failed(manager.as_str(), lack, None));
            }
        }
        let (part, confined, channel, job) = self.start(key, order).await?;
        let layer = part.folder().join("upper");
        let mut talk = Talk::new(channel, order.image).map_err(broken)?;
        let limit = order.wanted.limit;
        let through = async {
            let outlet = talk.begin(&job).await.map_err(broken)?;
            // Given away on request until nothing more is said.
            let _open = outlet.map(|outlet| self.outlets.open(order.incarnation, outlet));
            talk.through().await
        };
        let told = tokio::select! {
            told = timeout(limit, through) => told.map_err(|_| {
                let seconds = limit.as_secs();
                format!("it took longer than the {seconds} s of `hands.packages.install_seconds`")
            }),
            words = beyond(layer.clone(), order.limits) => Err(words),
            () = self.stop.cancelled() => Err("the host of the sandboxes ends".to_owned()),
        };
        let told = told.unwrap_or_else(|words| Err(talk.failed(words)));
        let limits = order.limits;
        let told = told.map_err(|failed| because(failed, &confined, limits));
        let done = spawn_blocking(move || {
            // Everything in it has ended before anybody touches its layer.
            drop(confined);
            told?;
            steps::clear(&layer).map_err(broken)?;
            if let Some(words) = too_large(&layer, limits) {
                return Err(broken(io::Error::other(words)));
            }
            part.finish(&layer).map_err(broken)
        });
        done.await.map_err(io::Error::other).map_err(broken)?
    }

    /// Starts the sandbox; returns it with our end of its channel.
    async fn start(
        &self,
        key: &str,
        order: &Order<'_>,
    ) -> Result<(Part, Confined, Channel, Job), Failed> {
        let (shelf, key) = (self.shelf.clone(), key.to_owned());
        let (launcher, program) = (Arc::clone(self.launcher), Arc::clone(self.program));
        let (base, wanted, limits) = (order.base.clone(), order.wanted.clone(), order.limits);
        let started = spawn_blocking(move || {
            let part = shelf.begin(&key).map_err(broken)?;
            let layer = part.folder().join("upper");
            fs::create_dir_all(&layer).map_err(broken)?;
            let ids = launcher.ids();
            let counted = !matches!(launcher.verdict().cgroups, Cgroups::None { .. });
            let planned = steps::plan(&layer, ids, limits, counted, &wanted);
            let Plan { job, shown } = planned
                .map_err(|(manager, error)| failed(manager.as_str(), error.to_string(), None))?;
            steps::give(&layer, ids).map_err(broken)?;
            let (ours, theirs) = Channel::pair().map_err(broken)?;
            let spec = Spec {
                name: part.name().to_owned(),
                program,
                argv: vec!["outlast-init".to_owned(), COMMAND.to_owned()],
                channel: theirs.into(),
                folder: part.folder(),
                shown,
                limits: outlast_sandbox::Limits {
                    memory_bytes: limits.memory_bytes,
                    pids: limits.pids,
                    cpu_millis: limits.cpu_millis,
                    disk_bytes: limits.disk_bytes,
                    inodes: limits.inodes,
                },
                base,
                above: Vec::new(),
                cover: Vec::new(),
                purpose: Purpose::Install,
            };
            let confined = launcher.start(spec).map_err(|error| Failed {
                step: format!("start the sandbox that installs packages: {}", error.step),
                reason: error.source.to_string(),
                mend: error.mend,
            })?;
            Ok((part, confined, ours, job))
        });
        started.await.map_err(io::Error::other).map_err(broken)?
    }
}

/// Names a limit that struck.
fn because(mut failed: Failed, confined: &Confined, limits: Limits) -> Failed {
    let struck = words::struck(Pressure::default(), confined.pressure(), &limits);
    if let Some(words) = struck {
        let words = words.trim_matches(['[', ']']);
        failed.reason = format!("{words}; {}", failed.reason);
    }
    failed
}

/// What helps where a root file system is not fit.
const IMAGE: &str = "choose an image that has it by the environment's metadata `outlast.image`";

/// Waits until an installation wrote too much; returns the words for it.
async fn beyond(layer: PathBuf, limits: Limits) -> String {
    loop {
        sleep(LOOK).await;
        let path = layer.clone();
        // A failure to look is not one to write.
        let found = spawn_blocking(move || too_large(&path, limits)).await;
        if let Ok(Some(words)) = found {
            return words;
        }
    }
}

/// Says which bound a layer is beyond, if one. Blocks.
fn too_large(layer: &Path, limits: Limits) -> Option<String> {
    let used = usage::measure(layer);
    if used.inodes > limits.inodes {
        let most = limits.inodes;
        return Some(format!(
            "they are more than the {most} files of `hands.inodes`"
        ));
    }
    (used.bytes > limits.disk_bytes).then(|| {
        let most = limits.disk_bytes >> 20;
        format!("they take more than the {most} MiB of `hands.disk_mib`")
    })
}

/// The conversation with PID 1.
struct Talk<'a> {
    channel: UnixStream,
    decoder: Decoder,
    image: Option<&'a str>,
    /// Whose turn it is.
    manager: Option<String>,
}

impl<'a> Talk<'a> {
    fn new(channel: Channel, image: Option<&'a str>) -> io::Result<Self> {
        channel.set_nonblocking(true)?;
        Ok(Self {
            channel: UnixStream::from_std(channel)?,
            decoder: Decoder::default(),
            image,
            manager: None,
        })
    }

    /// Makes a failure of whose turn it is.
    fn failed(&self, reason: impl Into<String>) -> Failed {
        match &self.manager {
            Some(manager) => failed(manager, reason, None),
            None => broken(io::Error::other(reason.into())),
        }
    }

    /// Gives the job; returns the listener that leads out, if the job wants one.
    async fn begin(&mut self, job: &Job) -> io::Result<Option<TcpListener>> {
        self.channel.write_all(&encode(job)?).await?;
        if !job.outlet {
            return Ok(None);
        }
        let mut buffer = vec![0; 1024];
        let take = || outlet::take(&self.channel, &mut buffer);
        let (length, came) = self.channel.async_io(Interest::READABLE, take).await?;
        self.decoder.push(buffer.get(..length).unwrap_or_default());
        listener(came).map(Some)
    }

    /// Listens to the end.
    async fn through(&mut self) -> Result<(), Failed> {
        loop {
            match self.next().await.map_err(broken)? {
                None => return Err(self.failed("its sandbox ended in the middle")),
                Some(Said::Open) => {}
                Some(Said::Began { manager }) => self.manager = Some(manager),
                Some(Said::Done) => return Ok(()),
                Some(Said::Absent { manager }) => {
                    let root = match self.image {
                        Some(image) => format!("the image `{image}` has no {manager}"),
                        None => format!("the server's machine has no {manager} below `/usr`"),
                    };
                    return Err(failed(&manager, root, Some(IMAGE.to_owned())));
                }
                Some(Said::Failed {
                    manager,
                    ended,
                    output,
                }) => {
                    let reason = format!("{manager} {ended}: {}", last_lines(&output));
                    return Err(failed(&manager, reason, None));
                }
            }
        }
    }

    async fn next(&mut self) -> io::Result<Option<Said>> {
        let mut buffer = vec![0; 16 * 1024];
        loop {
            if let Some(said) = self.decoder.take()? {
                return Ok(Some(said));
            }
            match self.channel.read(&mut buffer).await? {
                0 => return Ok(None),
                length => self.decoder.push(buffer.get(..length).unwrap_or_default()),
            }
        }
    }
}

/// Takes the last lines of what a program said, without what moves a cursor.
fn last_lines(output: &str) -> String {
    let printable = |sign: &char| *sign == '\n' || !sign.is_control();
    let text: String = output.chars().filter(printable).collect();
    let lines: Vec<_> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let from = lines.len().saturating_sub(LINES);
    let text = lines.get(from..).unwrap_or_default().join("\n");
    let surplus = text.chars().count().saturating_sub(CHARACTERS);
    text.chars().skip(surplus).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_bounded_and_clean() {
        assert_eq!(last_lines("a\n\n  \nb\u{1b}[0m\n"), "a\nb[0m");
        let many: String = (0..100).map(|line| format!("line {line}\n")).collect();
        assert_eq!(last_lines(&many).lines().count(), LINES);
        assert!(last_lines(&many).ends_with("line 99"));
        let long = "\u{e4}".repeat(10 * CHARACTERS);
        assert_eq!(last_lines(&long).chars().count(), CHARACTERS);
        assert_eq!(last_lines(""), "");
    }
}
