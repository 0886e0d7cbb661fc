//! A database server of a test's own: started by it, in a directory of its own, gone with it.

#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a server that does not start is a failed test"
)]
use std::{
    fs, io,
    net::TcpListener,
    os::unix::{
        fs::{PermissionsExt as _, chown},
        process::CommandExt as _,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};

/// The user that owns the cluster where we are root: the server refuses to run as root.
const USER: &str = "postgres";

/// How long a server may take to start or to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// Whether the server waits for the disk.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Syncs {
    /// As it does by itself.
    All,
    /// Never: what a test is about is not the disk.
    None,
}

/// How a server ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Stop {
    /// Sessions are cut off, and what was open is taken back.
    Fast,
    /// As if it had crashed: it has to recover when it starts again.
    Immediate,
}

/// A running server that is reached by a socket in its own directory.
#[derive(Debug)]
pub struct Cluster {
    programs: PathBuf,
    dir: PathBuf,
    owner: Option<(u32, u32)>,
    syncs: Syncs,
    /// What its socket is named by, and where else it listens.
    port: u16,
    /// More of the server's command line.
    more: Vec<String>,
    server: Option<Child>,
}

impl Cluster {
    /// Makes a cluster in a fresh folder, and starts its server.
    ///
    /// # Panics
    ///
    /// If Postgres is not installed, or does not start.
    pub fn start(syncs: Syncs) -> Self {
        let owner = owner();
        let dir = folder(owner);
        let mut cluster = Self {
            programs: programs(),
            dir,
            owner,
            syncs,
            port: 5_432,
            more: Vec::new(),
            server: None,
        };
        let data = cluster.data();
        let made = cluster
            .command("initdb")
            .args([
                "-A",
                "trust",
                "-U",
                USER,
                "-E",
                "UTF8",
                "--no-locale",
                "-N",
                "-D",
            ])
            .arg(&data)
            .output()
            .expect("initdb can be run");
        let words = String::from_utf8_lossy(&made.stderr);
        assert!(made.status.success(), "initdb: {words}");
        cluster.resume();
        cluster
    }

    /// Returns how a database is reached; `postgres` is there from the start.
    pub fn url(&self, database: &str) -> String {
        let dir = self.dir.to_string_lossy().replace('/', "%2F");
        format!("postgres://{USER}@{dir}:{}/{database}", self.port)
    }

    /// Has the server listen on loopback too, encrypted if there is a certificate with its key as
    /// PEM; returns the port.
    ///
    /// # Panics
    ///
    /// If it does not start again.
    pub fn listen(&mut self, certificate: Option<(&str, &str)>) -> u16 {
        self.stop(Stop::Fast);
        self.port = self.free();
        self.more = vec!["-h".into(), "127.0.0.1".into()];
        if let Some((certificate, key)) = certificate {
            self.give("server.crt", certificate);
            self.give("server.key", key);
            for option in [
                "ssl=on",
                "ssl_cert_file=server.crt",
                "ssl_key_file=server.key",
            ] {
                self.more.extend(["-c".into(), option.into()]);
            }
        }
        self.resume();
        self.port
    }

    /// Returns a port on loopback that nobody listens on.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn free(&self) -> u16 {
        let bound = TcpListener::bind(("127.0.0.1", 0)).expect("there is a free port");
        bound.local_addr().expect("it has an address").port()
    }

    /// Puts a file into the server's data that only its owner may read.
    fn give(&self, name: &str, text: &str) {
        let path = self.data().join(name);
        fs::write(&path, text).expect("a file can be written");
        let own = fs::Permissions::from_mode(0o600);
        fs::set_permissions(&path, own).expect("its mode can be set");
        if let Some((user, group)) = self.owner {
            chown(&path, Some(user), Some(group)).expect("it can be given away");
        }
    }

    /// Starts the server again.
    ///
    /// # Panics
    ///
    /// If it does not take sessions in time.
    pub fn resume(&mut self) {
        let log = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.dir.join("log"))
            .expect("the log can be opened");
        let fsync = match self.syncs {
            Syncs::All => "fsync=on",
            Syncs::None => "fsync=off",
        };
        let mut server = self.command("postgres");
        server
            .arg("-D")
            .arg(self.data())
            .arg("-k")
            .arg(&self.dir)
            .args(["-h", "", "-c", fsync, "-c", "max_connections=400"])
            .args(["-c", "shared_buffers=64MB", "-c", "max_wal_size=2GB"])
            .args(["-p", &self.port.to_string()])
            .args(&self.more)
            .stdout(Stdio::null())
            .stderr(log);
        self.server = Some(server.spawn().expect("postgres can be run"));
        self.wait(|own| own.tell("SELECT 1").is_some());
    }

    fn wait(&mut self, ready: impl Fn(&Self) -> bool) {
        let mut left = PATIENCE.as_millis() / 20;
        while !ready(self) {
            let log = fs::read_to_string(self.dir.join("log")).unwrap_or_default();
            left = left
                .checked_sub(1)
                .unwrap_or_else(|| panic!("the server is not ready: {log}"));
            pause();
        }
    }

    /// Ends the server, and waits until it did.
    ///
    /// # Panics
    ///
    /// If it does not run.
    pub fn stop(&mut self, how: Stop) {
        let signal = match how {
            Stop::Fast => Signal::INT,
            Stop::Immediate => Signal::QUIT,
        };
        let mut server = self.server.take().expect("the server runs");
        signal_to(&server, signal).expect("the server can be told");
        server.wait().expect("the server ends");
    }

    /// Runs a command by `psql`; returns what it prints, if it succeeds.
    pub fn tell(&self, command: &str) -> Option<String> {
        self.tell_in("postgres", command)
    }

    /// Runs a command in a database.
    pub fn tell_in(&self, database: &str, command: &str) -> Option<String> {
        let mut psql = self.command("psql");
        psql.arg("-h").arg(&self.dir);
        psql.args(["-p", &self.port.to_string(), "-U", USER]);
        psql.args(["-X", "-q", "-A", "-t"]);
        psql.args(["-v", "ON_ERROR_STOP=1", "-c", command, "-d", database]);
        let said = psql.output().ok()?;
        said.status
            .success()
            .then(|| String::from_utf8_lossy(&said.stdout).trim().to_owned())
    }

    /// Has so many clients of `pgbench` commit plain rows of one kilobyte for some seconds; returns
    /// how many a second.
    ///
    /// # Panics
    ///
    /// If `pgbench` fails.
    pub fn bench(&self, clients: usize, seconds: u64) -> f64 {
        let table = "CREATE TABLE IF NOT EXISTS floor \
                     (id bigserial PRIMARY KEY, session bigint, body text)";
        self.tell(table).expect("a table can be made");
        let script = self.dir.join("floor.sql");
        let insert = "INSERT INTO floor (session, body) VALUES (:client_id, :body);\n";
        fs::write(&script, insert).expect("a script can be written");
        let body = format!("body='{}'", "x".repeat(1_024));
        let (clients, seconds) = (clients.to_string(), seconds.to_string());
        let jobs = if clients == "1" { "1" } else { "2" };
        let said = self
            .command("pgbench")
            .arg("-h")
            .arg(&self.dir)
            .args(["-p", &self.port.to_string()])
            .args([
                "-U", USER, "-n", "-M", "prepared", "-c", &clients, "-j", jobs,
            ])
            .args(["-T", &seconds, "-D", &body, "-f"])
            .arg(&script)
            .arg("postgres")
            .output()
            .expect("pgbench can be run");
        let text = String::from_utf8_lossy(&said.stdout);
        let rate = text.lines().find_map(|line| line.strip_prefix("tps = "));
        let rate = rate.and_then(|line| line.split(' ').next()?.parse().ok());
        rate.unwrap_or_else(|| panic!("pgbench says no rate: {text}"))
    }

    fn data(&self) -> PathBuf {
        self.dir.join("data")
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        command.current_dir(&self.dir).stdin(Stdio::null());
        if let Some((user, group)) = self.owner {
            command.uid(user).gid(group);
        }
        command
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Some(mut server) = self.server.take()
            && signal_to(&server, Signal::QUIT).is_ok()
        {
            drop(server.wait());
        }
        drop(fs::remove_dir_all(&self.dir));
    }
}

fn signal_to(server: &Child, signal: Signal) -> io::Result<()> {
    let pid = i32::try_from(server.id()).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or(io::ErrorKind::InvalidInput)?;
    Ok(kill_process(pid, signal)?)
}

#[expect(
    clippy::disallowed_methods,
    reason = "no runtime is at hand, and this is a test"
)]
fn pause() {
    std::thread::sleep(Duration::from_millis(20));
}

/// Makes a folder whose path is short enough for a socket.
fn folder(owner: Option<(u32, u32)>) -> PathBuf {
    let mut number = [0; 8];
    let mut random = fs::File::open("/dev/urandom").expect("there is randomness");
    io::Read::read_exact(&mut random, &mut number).expect("there is randomness");
    let name: String = number.iter().map(|byte| format!("{byte:02x}")).collect();
    let dir = std::env::temp_dir().join(format!("outlast-pg-{name}"));
    fs::create_dir(&dir).expect("a folder can be made");
    if let Some((user, group)) = owner {
        chown(&dir, Some(user), Some(group)).expect("the folder can be given away");
    }
    dir
}

/// Returns where the newest server's programs are.
fn programs() -> PathBuf {
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
        return bin;
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders = std::env::split_paths(&path);
    let found = folders.find(|folder: &PathBuf| Path::new(folder).join("initdb").exists());
    found.expect("Postgres is installed: scripts/test install")
}

/// Returns who is to own the cluster, if not we.
fn owner() -> Option<(u32, u32)> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").expect("users are known");
    let fields = users
        .lines()
        .find_map(|line| line.strip_prefix(USER)?.strip_prefix(':'))
        .expect("there is a user `postgres`");
    let mut numbers = fields.split(':').skip(1).map(|text| text.parse().ok());
    numbers.next().flatten().zip(numbers.next().flatten())
}
