//! A database behind a pooler: by session it is as good as the database itself, by transaction it is
//! refused by name.

use std::{
    fs,
    net::TcpStream,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use outlast_store::postgres::OpenError;
use outlast_testkit::postgres::Syncs;
use tokio::time::sleep;

use super::{kit::Kit, nodes::whole};

/// A running `PgBouncer`.
struct Pooler {
    server: Child,
    url: String,
}

impl Pooler {
    async fn start(kit: &mut Kit, mode: &str) -> Self {
        let (database, own) = (kit.cluster.listen(None), kit.cluster.free());
        let dir = tempfile::tempdir_in(kit.root.path()).unwrap().keep();
        let config = format!(
            "[databases]\n* = host=127.0.0.1 port={database}\n[pgbouncer]\n\
             listen_addr = 127.0.0.1\nlisten_port = {own}\nunix_socket_dir =\npool_mode = {mode}\n\
             auth_type = trust\nauth_file = {}\n",
            dir.join("users").display()
        );
        fs::write(dir.join("users"), "\"postgres\" \"\"\n").unwrap();
        fs::write(dir.join("pgbouncer.ini"), config).unwrap();
        let mut server = Command::new("pgbouncer");
        if rustix::process::geteuid().is_root() {
            // It refuses to run as root, and has to be able to read what is here.
            server.args(["-u", "nobody"]);
            open(kit.root.path());
            open(&dir);
        }
        let server = server
            .arg(dir.join("pgbouncer.ini"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("pgbouncer: {error}: see `scripts/test install`"));
        for _ in 0..500 {
            if TcpStream::connect(("127.0.0.1", own)).is_ok() {
                break;
            }
            sleep(Duration::from_millis(10)).await;
        }
        let url = format!("postgres://postgres@127.0.0.1:{own}/postgres?sslmode=disable");
        Self { server, url }
    }
}

/// Lets everybody look into a folder.
fn open(dir: &Path) {
    fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).unwrap();
}

impl Drop for Pooler {
    fn drop(&mut self) {
        self.server.kill().unwrap();
        self.server.wait().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_behind_a_pooler_has_to_keep_its_sessions() {
    let mut kit = Kit::start(Syncs::None);
    let pooler = Pooler::start(&mut kit, "transaction").await;
    let refused = kit.at(&pooler.url, "node").await.unwrap_err();
    assert!(matches!(refused, OpenError::Pooled), "{refused}");
    // By statement it says so itself.
    let pooler = Pooler::start(&mut kit, "statement").await;
    let refused = kit.at(&pooler.url, "node").await.unwrap_err().to_string();
    assert!(refused.contains("statement pooling mode"), "{refused}");

    let pooler = Pooler::start(&mut kit, "session").await;
    let (store, world) = kit.world_at(&pooler.url, "node").await;
    let session = world.session().await;
    for number in 0..10 {
        world.send(session, &number.to_string()).await;
    }
    assert!(whole(&world, session).await > 10);
    store.close().await;
}
