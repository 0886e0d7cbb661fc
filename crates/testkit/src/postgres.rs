//! A database server of a test's own: started by it, in a directory of its own, gone with it.

#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a server that does not start is a failed test"
)]
use std::{
    fs,
    net::TcpListener,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown},
    time::Duration,
};

use outlast_store::postgres;
use rustix::process::Signal;
use tempfile::TempDir;

/// The user that clusters begin with.
const USER: &str = "postgres";

/// How long a server may take to start.
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
    // Ends before its folder goes.
    server: postgres::Cluster,
    /// What its socket is named by, and where else it listens.
    port: u16,
    _dir: TempDir,
}

impl Cluster {
    /// Makes a cluster in a fresh folder, and starts its server.
    ///
    /// # Panics
    ///
    /// If Postgres is not installed, or does not start.
    pub fn start(syncs: Syncs) -> Self {
        let mut made = tempfile::Builder::new();
        let dir = made.prefix("outlast-pg-").tempdir();
        let dir = dir.expect("a folder can be made");
        let fsync = match syncs {
            Syncs::All => "fsync=on",
            Syncs::None => "fsync=off",
        };
        let settings = [
            fsync,
            "max_connections=400",
            "shared_buffers=64MB",
            "max_wal_size=2GB",
        ];
        let server = postgres::Cluster::make(dir.path(), &settings);
        let server = server.expect("Postgres is installed: scripts/test install");
        let mut cluster = Self {
            server,
            port: 5_432,
            _dir: dir,
        };
        cluster.resume();
        cluster
    }

    /// Returns how a database is reached; `postgres` is there from the start.
    pub fn url(&self, database: &str) -> String {
        self.server.url(database)
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
        let mut settings = Vec::new();
        if let Some((certificate, key)) = certificate {
            self.give("server.crt", certificate);
            self.give("server.key", key);
            settings = vec![
                "ssl=on",
                "ssl_cert_file=server.crt",
                "ssl_key_file=server.key",
            ];
        }
        self.server.listen(self.port, &settings);
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
        let data = self.server.dir().join("data");
        let path = data.join(name);
        fs::write(&path, text).expect("a file can be written");
        let own = fs::Permissions::from_mode(0o600);
        fs::set_permissions(&path, own).expect("its mode can be set");
        let owner = fs::metadata(data).expect("the data are there");
        chown(&path, Some(owner.uid()), Some(owner.gid())).expect("it can be given away");
    }

    /// Starts the server again.
    ///
    /// # Panics
    ///
    /// If it does not take sessions in time.
    pub fn resume(&mut self) {
        self.server.start().expect("postgres can be run");
        let mut left = PATIENCE.as_millis() / 20;
        while self.tell("SELECT 1").is_none() {
            let log = self.server.log();
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
        self.server.end(signal).expect("the server runs");
    }

    /// Stops all of the server where it is; connections stay open, and nobody answers.
    ///
    /// # Panics
    ///
    /// If it does not run.
    pub fn freeze(&self) {
        self.server.freeze().expect("the server runs");
    }

    /// Lets a server that was stopped go on.
    ///
    /// # Panics
    ///
    /// If it does not run.
    pub fn thaw(&self) {
        self.server.thaw().expect("the server runs");
    }

    /// Runs a command by `psql`; returns what it prints, if it succeeds.
    pub fn tell(&self, command: &str) -> Option<String> {
        self.tell_in("postgres", command)
    }

    /// Runs a command in a database.
    pub fn tell_in(&self, database: &str, command: &str) -> Option<String> {
        let mut psql = self.server.command("psql");
        psql.arg("-h").arg(self.server.dir());
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
        let script = self.server.dir().join("floor.sql");
        let insert = "INSERT INTO floor (session, body) VALUES (:client_id, :body);\n";
        fs::write(&script, insert).expect("a script can be written");
        let body = format!("body='{}'", "x".repeat(1_024));
        let (clients, seconds) = (clients.to_string(), seconds.to_string());
        let jobs = if clients == "1" { "1" } else { "2" };
        let said = self
            .server
            .command("pgbench")
            .arg("-h")
            .arg(self.server.dir())
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
}

#[expect(
    clippy::disallowed_methods,
    reason = "no runtime is at hand, and this is a test"
)]
fn pause() {
    std::thread::sleep(Duration::from_millis(20));
}
