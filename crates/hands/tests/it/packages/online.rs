//! Packages without a mirror: fetched through the way out of the sandbox that installs them.

use std::{
    net::TcpListener,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use outlast_hands::{
    Outlet, Provisioner as _, Recipe,
    images::Images,
    packages::{Mirrors, Rest, Wanted},
};
use outlast_protocol::{environment::Packages, id::IncarnationId};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpStream,
};

use super::{
    debian::{REPOSITORY, ROOT, script},
    refused, with,
};
use crate::support::{Node, sh};

/// A proxy that has one host, whose files are in a folder.
#[derive(Clone, Debug)]
struct Proxy {
    folder: PathBuf,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    fn of(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            asked: Arc::default(),
        }
    }

    /// Serves the way out of an installation, once it has one, for ever.
    async fn serve(&self, node: &Node, hand: IncarnationId) {
        let outlet = loop {
            match node.driver.outlet(hand).await.unwrap() {
                Some(outlet) => break outlet,
                None => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        };
        self.accept(outlet).await;
    }

    async fn accept(&self, outlet: TcpListener) {
        let outlet = tokio::net::TcpListener::from_std(outlet).unwrap();
        loop {
            let (stream, _) = outlet.accept().await.unwrap();
            // Whoever goes away in the middle asks again.
            drop(self.answer(stream).await);
        }
    }

    async fn answer(&self, stream: TcpStream) -> std::io::Result<()> {
        let mut stream = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if stream.read_line(&mut head).await? == 0 {
                return Ok(());
            }
        }
        let line = head.lines().next().unwrap().to_owned();
        self.asked.lock().unwrap().push(line.clone());
        let path = line.strip_prefix("GET http://deb.test/./");
        let file = path.map(|rest| self.folder.join(rest.split(' ').next().unwrap()));
        let found = file.and_then(|file| std::fs::read(file).ok());
        let (status, body) = match (&found, path) {
            (Some(body), _) => ("200 OK", body.as_slice()),
            (None, Some(_)) => ("404 Not Found", &b""[..]),
            (None, None) => ("403 Forbidden", &b""[..]),
        };
        let length = body.len();
        let head =
            format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(body).await?;
        stream.shutdown().await
    }
}

/// Provisions while a proxy serves.
async fn made(
    node: &Node,
    proxy: &Proxy,
    recipe: &Recipe,
) -> Result<Arc<dyn outlast_hands::Hand>, outlast_hands::ProvisionError> {
    tokio::select! {
        made = node.driver.provision(recipe) => made,
        () = proxy.serve(node, recipe.incarnation) => unreachable!("it serves for ever"),
    }
}

fn fetched(packages: Packages, image: Option<&str>) -> Recipe {
    let wanted = Wanted {
        packages,
        mirrors: Mirrors::default(),
        rest: Rest::Fetched,
        limit: super::GENEROUS,
    };
    Recipe {
        image: image.map(str::to_owned),
        outlet: Some(Outlet::default()),
        ..with(wanted)
    }
}

fn names(items: &[&str]) -> Vec<String> {
    items.iter().map(|item| (*item).to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn apt_as_root_goes_through_the_way_out() {
    let node = Node::new().await;
    let (root, files) = (
        node.dir.path().join("rootfs.tar.gz"),
        node.dir.path().join("files"),
    );
    std::fs::create_dir(&files).unwrap();
    script(ROOT, &root);
    script(REPOSITORY, &files);
    let images = Images::new(node.dir.path().join("images"));
    images.import("debian", &root, None).unwrap();
    let proxy = Proxy::of(&files);
    let apt = |items: &[&str]| Packages {
        apt: names(items),
        ..Packages::default()
    };
    let recipe = fetched(apt(&["tiny"]), Some("debian"));
    let hand = made(&node, &proxy, &recipe).await.unwrap();
    assert_eq!(sh(&hand, "tiny").await, "tiny 2.0 with data");
    let own = node.driver.outlet(recipe.incarnation).await.unwrap();
    assert!(own.is_some(), "the hand has one of its own");
    // The layer is there: nothing is fetched again.
    let asked = proxy.asked.lock().unwrap().len();
    assert!(asked > 2, "{:?}", proxy.asked);
    let next = fetched(apt(&["tiny"]), Some("debian"));
    let hand = node.provision(&next).await;
    assert_eq!(sh(&hand, "tiny").await, "tiny 2.0 with data");
    assert_eq!(proxy.asked.lock().unwrap().len(), asked);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_manager_asks_its_own_registry_through_it() {
    let node = Node::new().await;
    let proxy = Proxy::of(node.dir.path());
    let list = names(&["outlast-test-of-nothing"]);
    let pip = Packages {
        pip: list.clone(),
        ..Packages::default()
    };
    let told = refused(made(&node, &proxy, &fetched(pip, None)).await);
    assert!(told.contains("install the pip packages"), "{told}");
    let asked = proxy.asked.lock().unwrap().clone();
    assert!(
        asked
            .iter()
            .any(|line| line.starts_with("CONNECT pypi.org:443")),
        "{asked:?}"
    );
    // Where a hand has no way out nobody fetches anything.
    let mut refuses = fetched(
        Packages {
            pip: list,
            ..Packages::default()
        },
        None,
    );
    if let Some(wanted) = &mut refuses.packages {
        wanted.rest = Rest::Refused;
    }
    let told = refused(node.driver.provision(&refuses).await);
    assert!(told.contains("no mirror of pip"), "{told}");
}
