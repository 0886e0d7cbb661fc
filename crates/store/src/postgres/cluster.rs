//! A database server of one's own, for a trial: in a folder of its own, and gone with it.

use std::{
    fs, io,
    os::unix::{fs::chown, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};

/// The user that owns the cluster where we are root: the server refuses to run as root.
pub(super) const USER: &str = "postgres";

/// A cluster whose server listens at a socket in its folder and nowhere else.
///
/// Its methods block. When it is dropped its server ends; the folder is its maker's.
#[derive(Debug)]
pub struct Cluster {
    programs: PathBuf,
    dir: PathBuf,
    owner: Option<(u32, u32)>,
    settings: Vec<String>,
    /// What its socket is named by.
    port: u16,
    /// Settings of [`Cluster::listen`].
    more: Vec<String>,
    server: Option<Child>,
}

impl Cluster {
    /// Makes a cluster in a folder that is empty; `settings` are given to its server as they are,
    /// such as `fsync=off`. The server is not started.
    ///
    /// # Errors
    ///
    /// If Postgres is not installed, or the cluster cannot be made.
    pub fn make(dir: &Path, settings: &[&str]) -> io::Result<Self> {
        let owner = owner()?;
        if let Some((user, group)) = owner {
            chown(dir, Some(user), Some(group))?;
        }
        let cluster = Self {
            programs: programs()?,
            dir: dir.to_owned(),
            owner,
            settings: settings.iter().map(|text| (*text).to_owned()).collect(),
            port: 5_432,
            more: Vec::new(),
            server: None,
        };
        let mut initdb = cluster.command("initdb");
        initdb.args(["-A", "trust", "-U", USER, "-E", "UTF8"]);
        initdb.args(["--no-locale", "-N", "-D"]).arg(cluster.data());
        let made = initdb.output()?;
        if !made.status.success() {
            let words = String::from_utf8_lossy(&made.stderr);
            return Err(io::Error::other(format!("initdb: {}", words.trim())));
        }
        Ok(cluster)
    }

    /// Returns how a database is reached; `postgres` is there from the start.
    pub fn url(&self, database: &str) -> String {
        let dir = self.dir.to_string_lossy().replace('%', "%25");
        let (dir, port) = (dir.replace('/', "%2F"), self.port);
        format!("postgres://{USER}@{dir}:{port}/{database}")
    }

    /// Has the server listen on loopback too from its next start on, with these settings in place
    /// of those that were given here before.
    pub fn listen(&mut self, port: u16, settings: &[&str]) {
        self.port = port;
        let address = "listen_addresses=127.0.0.1";
        let all = [address].into_iter().chain(settings.iter().copied());
        self.more = all.map(str::to_owned).collect();
    }

    /// Starts the server; whoever wants to use it asks until it answers.
    ///
    /// # Errors
    ///
    /// If the program cannot be run.
    pub fn start(&mut self) -> io::Result<()> {
        let log = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.dir.join("log"))?;
        let mut server = self.command("postgres");
        server.arg("-D").arg(self.data()).arg("-k").arg(&self.dir);
        server.args(["-h", "", "-p", &self.port.to_string()]);
        for setting in self.settings.iter().chain(&self.more) {
            server.args(["-c", setting]);
        }
        self.server = Some(server.stdout(Stdio::null()).stderr(log).spawn()?);
        Ok(())
    }

    /// Tells whether the server was started and not ended.
    pub fn runs(&self) -> bool {
        self.server.is_some()
    }

    /// Tells how the server ended, if it did: one that was killed leaves processes for a moment, in
    /// which no other starts.
    ///
    /// # Errors
    ///
    /// If the system does not say.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        match &mut self.server {
            Some(server) => server.try_wait(),
            None => Ok(None),
        }
    }

    /// Sends a signal to the server: `INT` ends it in order, `QUIT` and `KILL` as a crash does,
    /// `STOP` and `CONT` stop it and let it go on.
    ///
    /// # Errors
    ///
    /// If it does not run.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        let server = self.server.as_ref();
        let number = server.and_then(|server| i32::try_from(server.id()).ok());
        let pid = number.and_then(Pid::from_raw);
        Ok(kill_process(pid.ok_or(io::ErrorKind::NotFound)?, signal)?)
    }

    /// Stops the server and all its processes where they are; they keep their connections.
    ///
    /// # Errors
    ///
    /// If it does not run.
    pub fn freeze(&self) -> io::Result<()> {
        // First whoever could start more of them.
        self.signal(Signal::STOP)?;
        self.signal_children(Signal::STOP)
    }

    /// Lets a server that was stopped go on.
    ///
    /// # Errors
    ///
    /// If it does not run.
    pub fn thaw(&self) -> io::Result<()> {
        self.signal_children(Signal::CONT)?;
        self.signal(Signal::CONT)
    }

    /// Sends a signal to the processes of the server, each of which leads a group of its own.
    fn signal_children(&self, signal: Signal) -> io::Result<()> {
        let server = self.server.as_ref().ok_or(io::ErrorKind::NotFound)?.id();
        let all = fs::read_dir("/proc")?.flatten();
        let numbers = all.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        for number in numbers.filter(|number| parent(*number) == Some(server)) {
            if let Some(pid) = Pid::from_raw(number) {
                match kill_process(pid, signal) {
                    Ok(()) | Err(rustix::io::Errno::SRCH) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }

    /// Sends a signal, and waits until the server has ended.
    ///
    /// # Errors
    ///
    /// If it does not run.
    pub fn end(&mut self, signal: Signal) -> io::Result<ExitStatus> {
        self.signal(signal)?;
        let server = self.server.take();
        server.ok_or(io::ErrorKind::NotFound)?.wait()
    }

    /// Returns what the server has said.
    pub fn log(&self) -> String {
        fs::read_to_string(self.dir.join("log")).unwrap_or_default()
    }

    /// Returns the folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Makes the command of one of the programs that came with the server, as the cluster's owner.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        command.current_dir(&self.dir).stdin(Stdio::null());
        if let Some((user, group)) = self.owner {
            command.uid(user).gid(group);
        }
        command
    }

    fn data(&self) -> PathBuf {
        self.dir.join("data")
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if self.server.is_some() {
            // One that was stopped ends when it goes on.
            drop(self.thaw());
            drop(self.end(Signal::QUIT));
        }
    }
}

fn parent(pid: i32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(1)?.parse().ok()
}

/// Returns where the newest server's programs are.
fn programs() -> io::Result<PathBuf> {
    let installed = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let mut versions: Vec<(u32, PathBuf)> = installed
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let version = path.file_name()?.to_str()?.parse().ok()?;
            Some((version, path.join("bin")))
        })
        .filter(|(_, bin)| bin.join("initdb").exists())
        .collect();
    versions.sort();
    if let Some((_, bin)) = versions.pop() {
        return Ok(bin);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders = std::env::split_paths(&path);
    let found = folders.find(|folder: &PathBuf| folder.join("initdb").exists());
    found.ok_or_else(|| {
        let words = "Postgres is not installed: there is no `initdb`";
        io::Error::new(io::ErrorKind::NotFound, words)
    })
}

/// Returns who is to own the cluster, if not we.
fn owner() -> io::Result<Option<(u32, u32)>> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let users = fs::read_to_string("/etc/passwd")?;
    let mut lines = users.lines();
    let line = lines.find_map(|line| line.strip_prefix(USER)?.strip_prefix(':'));
    let mut numbers = line.unwrap_or_default().split(':').skip(1);
    let mut number = || numbers.next().and_then(|text| text.parse().ok());
    match number().zip(number()) {
        Some(owner) => Ok(Some(owner)),
        None => Err(io::Error::other(format!(
            "Postgres does not run as root, and there is no user `{USER}`"
        ))),
    }
}
