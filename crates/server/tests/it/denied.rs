//! A whole server on a host that denies what confines: it says so, and chat goes on.
//!
//! The denial is a system call filter on a thread of its own, which everything that it starts
//! inherits.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Stdio,
    thread,
};

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter,
};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::support::{Binary, Does as _, Output, bash, message, of, said, script};

/// An ordinary user that no system has.
const NOBODY: u32 = 47_011;

/// The flags of `clone` that make namespaces.
const NEW_FLAGS: u64 = 0x7e02_0000;

/// Calls that are denied together, and the step that has to say so.
struct Denial {
    calls: &'static [(libc::c_long, Option<u64>)],
    step: &'static str,
}

const NAMESPACES: Denial = Denial {
    calls: &[
        (libc::SYS_unshare, None),
        (libc::SYS_clone, Some(NEW_FLAGS)),
    ],
    step: "make a user namespace",
};

const SIBLINGS: Denial = Denial {
    calls: &[(libc::SYS_clone, Some(NEW_FLAGS))],
    step: "make the other namespaces",
};

const MOUNTS: Denial = Denial {
    calls: &[(libc::SYS_mount, None)],
    step: "make mounts private",
};

/// What an operator is told to do.
const MEND: &str =
    "Operation not permitted (os error 1); a system call filter around the server refuses it: ";

/// Denies the calls to this thread and all that it starts from now on, for good.
fn deny(denial: &Denial) {
    let arch = std::env::consts::ARCH.try_into().unwrap();
    let mut rules = BTreeMap::new();
    for (number, flags) in denial.calls {
        // Each flag alone is enough.
        let bits = (0..64).map(|bit| 1_u64 << bit);
        let bits = bits.filter(|bit| flags.unwrap_or(0) & bit != 0);
        let rule = |bit| {
            let operator = SeccompCmpOp::MaskedEq(bit);
            let condition = SeccompCondition::new(0, SeccompCmpArgLen::Dword, operator, bit);
            SeccompRule::new(vec![condition.unwrap()]).unwrap()
        };
        rules.insert(*number, bits.map(rule).collect());
    }
    let refuse = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch).unwrap();
    let filter: BpfProgram = filter.try_into().unwrap();
    apply_filter(&filter).unwrap();
}

/// A place for a server of some user.
struct Room {
    folder: tempfile::TempDir,
    user: Option<u32>,
}

impl Room {
    fn new(user: Option<u32>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let room = Self { folder, user };
        fs::create_dir(room.dir()).unwrap();
        if let Some(user) = user {
            let open = fs::Permissions::from_mode(0o755);
            fs::set_permissions(room.folder.path(), open).unwrap();
            std::os::unix::fs::chown(room.dir(), Some(user), Some(user)).unwrap();
            // The folder with the program may be closed to other users.
            fs::copy(env!("CARGO_BIN_EXE_outlast"), room.program()).unwrap();
        }
        room
    }

    fn dir(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn program(&self) -> PathBuf {
        self.folder.path().join("outlast")
    }

    /// Makes a command of the binary as the user.
    fn command(&self) -> Command {
        let usual = Binary::command(&self.dir());
        let Some(user) = self.user else {
            return usual;
        };
        let set = usual.as_std().get_envs();
        let set = set.filter_map(|(name, value)| Some((name, value?)));
        let mut command = Command::new(self.program());
        command.env_clear().envs(set).uid(user).gid(user);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    async fn serve(&self, key: Option<&str>) -> Binary {
        Binary::start_as(&mut self.command(), &self.dir(), key).await
    }
}

/// Returns what the model's calls came to, and which of them as an error.
fn results(events: &[Value]) -> Vec<(bool, &str)> {
    let results = of(events, "agent.tool_result");
    let told = results.iter();
    told.map(|event| (event["is_error"] == true, said(event)))
        .collect()
}

/// Returns the names of everything below a folder.
fn names(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        found.push(entry.file_name().to_string_lossy().into_owned());
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(names(&entry.path()));
        }
    }
    found
}

/// What a server says and does that cannot isolate anything.
async fn refused(room: &Room, denial: &Denial) -> String {
    let server = room.serve(None).await;
    let verdict = format!("no sandbox can be started: {}: {MEND}", denial.step);
    let line = server
        .banner
        .lines()
        .find(|line| line.contains("sandboxes"));
    let line = line.unwrap().trim().to_owned();
    assert!(line.contains(&format!("NONE: {verdict}")), "{line}");
    assert!(
        line.contains("seccomp=unconfined") || line.contains("RestrictNamespaces=no"),
        "{line}"
    );

    let check = Output::of(room.command().arg("check")).await;
    assert_eq!(check.code, Some(1), "{check:?}");
    let (_, words) = line.split_once("NONE: ").unwrap();
    assert!(
        check.out.lines().any(|line| line == words),
        "{words}: {}",
        check.out
    );
    assert!(check.out.contains("  MISSING "), "{}", check.out);
    assert!(
        check.out.contains("isolation left: none: "),
        "{}",
        check.out
    );
    let check = Output::of(room.command().args(["check", "--json"])).await;
    assert_eq!(check.code, Some(1), "{check:?}");
    let report: Value = serde_json::from_str(check.out.trim()).unwrap();
    assert_eq!(report["summary"], words, "{report}");

    // Whatever the model tries is a tool error, and it goes on.
    let id = server.client.session("scripted").await;
    let touch = format!(
        "touch {}/escaped; echo from inside",
        room.folder.path().display()
    );
    let write = json!({"calls": [{"name": "write", "input": {"file_path": "a", "content": "x"}}]});
    let steps = json!([bash(&touch), write, {"text": "It said: {{results}}"}]);
    server.client.send(&id, &[script(steps)]).await;
    let events = server.client.idle(&id, 1).await;
    let told = results(&events);
    assert_eq!(told.len(), 2, "{told:?}");
    for (is_error, words) in &told {
        assert!(
            *is_error && words.contains(denial.step) && words.contains(MEND),
            "{told:?}"
        );
        assert!(!words.contains("from inside"), "{told:?}");
    }
    assert_eq!(of(&events, "agent.message").len(), 1, "{events:?}");
    assert_eq!(
        of(&events, "session.error"),
        [&Value::Null; 0],
        "{events:?}"
    );
    server.client.send(&id, &[message("Still there?")]).await;
    let events = server.client.idle(&id, 2).await;
    assert_eq!(of(&events, "agent.message").len(), 2, "{events:?}");
    // Nothing has run, confined or not.
    assert!(!room.folder.path().join("escaped").exists());
    let names = names(&room.dir().join("hands"));
    assert!(!names.iter().any(|name| name == "journal"), "{names:?}");
    assert!(server.stop().await.success());
    id
}

/// The same session, once the host allows it.
async fn mended(room: &Room, id: &str) {
    let key = fs::read_to_string(room.dir().join("local.key")).unwrap();
    let server = room.serve(Some(key.trim())).await;
    assert!(!server.banner.contains("NONE"), "{}", server.banner);
    let steps = json!([bash("echo from inside"), {"text": "{{results}}"}]);
    server.client.send(id, &[script(steps)]).await;
    let events = server.client.idle(id, 3).await;
    assert_eq!(results(&events).last(), Some(&(false, "from inside")));
    assert!(server.stop().await.success());
}

/// Runs something on a thread of its own, so that what is denied there is denied nowhere else.
fn apart<T: Send>(run: impl AsyncFnOnce() -> T + Send) -> T {
    let runtime = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
    };
    thread::scope(|scope| {
        let thread = scope.spawn(|| runtime().unwrap().block_on(run()));
        thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// As root where this is root, and as somebody else.
fn told_and_refused(denial: &Denial) {
    let is_root = rustix::process::geteuid().is_root();
    let users: &[_] = if is_root {
        &[None, Some(NOBODY)]
    } else {
        &[None]
    };
    for user in users {
        let room = Room::new(*user);
        let id = apart(async || {
            deny(denial);
            refused(&room, denial).await
        });
        apart(async || mended(&room, &id).await);
    }
}

#[test]
fn denied_namespaces_are_told_and_refused_and_chat_goes_on() {
    told_and_refused(&NAMESPACES);
}

#[test]
fn denied_siblings_are_told_and_refused_and_chat_goes_on() {
    told_and_refused(&SIBLINGS);
}

#[test]
fn denied_mounts_are_told_and_refused_and_chat_goes_on() {
    told_and_refused(&MOUNTS);
}
