//! Ways out of real sandboxes: who holds the listener, what is trusted, and what of it stays.

use std::{
    fs,
    net::TcpListener,
    os::{fd::AsFd as _, unix::fs::MetadataExt as _},
    sync::Arc,
};

use outlast_hands::{
    Hand, Keep, Outlet, Provisioner as _, Recipe,
    namespace::Namespaces,
    outlet::{ADDRESS, BUNDLE},
};

use crate::{
    escapes::python,
    support::{Node, bash, failed, recipe, sh, until},
};

/// A recipe with a way out, and an authority that says whose it is.
fn open(whose: &str) -> Recipe {
    Recipe {
        outlet: Some(Outlet {
            variables: vec![("TOKEN".to_owned(), format!("placeholder of {whose}"))],
            authority: Some(format!("AUTHORITY OF {whose}\n")),
        }),
        ..recipe()
    }
}

async fn listener(node: &Node, recipe: &Recipe) -> TcpListener {
    let outlet = node.driver.outlet(recipe.incarnation).await.unwrap();
    outlet.expect("it asked for one")
}

/// Returns the processes of the host that have a socket open, as far as this user may look.
fn holders(inode: u64) -> Vec<String> {
    let name = format!("socket:[{inode}]");
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let holds = |process: &fs::DirEntry| {
        let Ok(fds) = fs::read_dir(process.path().join("fd")) else {
            return false;
        };
        fds.flatten()
            .any(|fd| fs::read_link(fd.path()).is_ok_and(|to| to.as_os_str() == name.as_str()))
    };
    let found = processes.filter(holds);
    let names = found.map(|process| process.file_name().into_string().unwrap());
    // The links `self` and `thread-self` are no others.
    names.filter(|name| name.parse::<u32>().is_ok()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_host_holds_the_listener() {
    let node = Node::new().await;
    let recipe = open("a");
    let hand = node.provision(&recipe).await;
    let outlet = listener(&node, &recipe).await;
    let twin = fs::File::from(outlet.as_fd().try_clone_to_owned().unwrap());
    let inode = twin.metadata().unwrap().ino();
    drop(twin);
    // PID 1 lets go of it once it has sent it, before anything else runs.
    let own = [std::process::id().to_string()];
    until("the host alone holds it", || holders(inode) == own).await;
    // Nobody inside can have the address in its place, on any interface.
    for address in ["127.0.0.1", "0.0.0.0"] {
        let port = ADDRESS.port();
        let code = python(&format!(
            "s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n\
             s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)\n\
             try: s.bind(('{address}', {port})); s.listen(); print('taken')\n\
             except OSError as e: print(errno.errorcode[e.errno])"
        ));
        assert_eq!(sh(&hand, &code).await, "EADDRINUSE", "{address}");
    }
    let open = sh(&hand, "ls -l /proc/self/fd | grep -c socket: || true").await;
    assert_eq!(open, "0");
    drop(outlet);
    node.driver
        .reap(recipe.incarnation, Keep::Nothing)
        .await
        .unwrap();
    assert_eq!(holders(inode), [] as [&str; 0]);
}

/// What a sandbox trusts and is led by.
async fn seen(hand: &Arc<dyn Hand>) -> String {
    let command = format!(
        "grep -h AUTHORITY {BUNDLE} || echo nobody; cat /etc/apt/apt.conf.d/99outlet 2>/dev/null \
         | grep -c Proxy; echo \"$TOKEN|$https_proxy|$SSL_CERT_FILE\""
    );
    sh(hand, &command).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_leads_out_is_of_the_life_and_not_of_the_workspace() {
    of_the_life_alone(&Node::new().await.driver).await;
}

/// Does what somebody inside can to have another list in the place of the own one.
const SPOIL: &str = "mv /etc/ssl /etc/old; rm -rf /etc/ssl; ln -s /workspace /etc/ssl; \
                     mkdir -p /workspace/certs; rm -rf /etc/apt; echo > /etc/apt; \
                     echo AUTHORITY OF mine > /workspace/certs/ca-certificates.crt";

/// Asserts that each life has what leads it out, as it was given, and that no workspace has it.
pub(crate) async fn of_the_life_alone(driver: &Namespaces) {
    let first = open("first");
    let hand = driver.provision(&first).await.unwrap();
    let expected = |whose: &str| {
        format!("AUTHORITY OF {whose}\n2\nplaceholder of {whose}|http://127.0.0.1:3128|{BUNDLE}")
    };
    assert_eq!(seen(&hand).await, expected("first"));
    let own = fs::read_to_string(BUNDLE).unwrap_or_default();
    let lines = sh(&hand, &format!("grep -v AUTHORITY {BUNDLE} | wc -l")).await;
    assert_eq!(
        lines,
        own.lines().count().to_string(),
        "what the system trusts"
    );
    for path in [BUNDLE, "/etc/apt/apt.conf.d/99outlet"] {
        failed(&bash(&hand, &format!("echo 'AUTHORITY OF mine' >> {path}")).await);
        failed(&bash(&hand, &format!("rm {path}")).await);
    }
    sh(&hand, "echo kept > /workspace/kept").await;

    // One without a way out trusts nobody, whatever it begins with.
    let packed = driver.checkpoint(first.incarnation).await.unwrap();
    let closed = recipe();
    let restored = driver.restore(closed.incarnation, &closed.limits, packed);
    restored.await.unwrap();
    let hand_closed = driver.provision(&closed).await.unwrap();
    assert_eq!(sh(&hand_closed, "cat /workspace/kept").await, "kept");
    assert_eq!(seen(&hand_closed).await, "nobody\n0\n||");
    driver
        .reap(closed.incarnation, Keep::Nothing)
        .await
        .unwrap();

    // The next life trusts its own alone.
    sh(&hand, &format!("({SPOIL}) 2>/dev/null; true")).await;
    let second = Recipe {
        predecessor: Some(first.incarnation),
        ..open("second")
    };
    let hand = driver.provision(&second).await.unwrap();
    assert_eq!(seen(&hand).await, expected("second"));
    for life in [first.incarnation, second.incarnation] {
        driver.reap(life, Keep::Nothing).await.unwrap();
    }
}
