//! Files that a sandbox shows read-only, and those it leaves for people.

use std::{io, pin::Pin};

use outlast_hands::{
    Keep, Provisioner as _, Recipe,
    files::{Reader, Upload},
};
use tokio::io::AsyncReadExt as _;

use crate::support::{Node, bash, recipe, sh, text};

fn upload(path: &str, id: &str, content: &[u8]) -> Upload {
    Upload {
        path: path.to_owned(),
        id: id.to_owned(),
        bytes: content.len() as u64,
    }
}

fn reader(content: &'static [u8]) -> Reader {
    Box::pin(content)
}

/// Gives some bytes and then fails.
struct Broken(bool);

impl tokio::io::AsyncRead for Broken {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
        buffer: &mut tokio::io::ReadBuf<'_>,
    ) -> std::task::Poll<io::Result<()>> {
        if std::mem::replace(&mut self.0, true) {
            return std::task::Poll::Ready(Err(io::Error::other("gone")));
        }
        buffer.put_slice(b"half");
        std::task::Poll::Ready(Ok(()))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn uploads_come_before_and_while_a_hand_lives_and_pass_to_its_successor() {
    let node = Node::new().await;
    let (driver, first) = (&node.driver, recipe());
    let one = upload("data/one", "file_1", b"one");
    driver
        .place(first.incarnation, &one, reader(b"one"))
        .await
        .unwrap();
    let hand = node.provision(&first).await;
    assert_eq!(sh(&hand, "cat /mnt/session/uploads/data/one").await, "one");
    let two = upload("two", "file_2", b"two");
    driver
        .place(first.incarnation, &two, reader(b"two"))
        .await
        .unwrap();
    assert_eq!(sh(&hand, "cat /mnt/session/uploads/two").await, "two");
    let tries = "cd /mnt/session/uploads && for do in 'rm two' 'touch new' 'chmod 777 two' \
        'mv two three' 'mkdir d' 'truncate -s 0 two' 'setfattr -n user.a -v b two' \
        'mount -o remount,rw .' 'umount /mnt/session/uploads'; do $do && echo \"$do worked\"; done";
    let tried = text(&bash(&hand, tries).await);
    assert!(!tried.contains("worked"), "{tried}");
    // Something half read is not seen, and what it would have replaced stays.
    let broken = driver
        .place(
            first.incarnation,
            &upload("two", "x", b"half more"),
            Box::pin(Broken(false)),
        )
        .await;
    assert!(broken.is_err());
    assert_eq!(sh(&hand, "cat /mnt/session/uploads/two").await, "two");
    let listed = driver.uploads(first.incarnation).await.unwrap();
    assert_eq!(listed, [one.clone(), two.clone()]);
    driver.unplace(first.incarnation, "two").await.unwrap();
    assert_eq!(sh(&hand, "ls /mnt/session/uploads").await.trim(), "data");
    let predecessor = Some(first.incarnation);
    let second = Recipe {
        predecessor,
        ..recipe()
    };
    let hand = node.provision(&second).await;
    assert_eq!(sh(&hand, "cat /mnt/session/uploads/data/one").await, "one");
    assert_eq!(driver.uploads(second.incarnation).await.unwrap(), [one]);
    driver
        .reap(second.incarnation, Keep::Nothing)
        .await
        .unwrap();
    assert_eq!(driver.uploads(second.incarnation).await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn outputs_are_read_from_a_living_hand_and_from_what_it_left() {
    let node = Node::new().await;
    let (driver, recipe) = (&node.driver, recipe());
    let hand = node.provision(&recipe).await;
    assert_eq!(driver.outputs(recipe.incarnation).await.unwrap(), []);
    let make = "cd /mnt/session/outputs && mkdir sub && echo hi > 'sub/a b' && ln -s /etc/passwd link \
        && ln 'sub/a b' hard && echo x > x && mkfifo pipe && chmod 0 x";
    sh(&hand, make).await;
    let paths = async || -> Vec<String> {
        let listed = driver.outputs(recipe.incarnation).await.unwrap();
        listed.into_iter().map(|output| output.path).collect()
    };
    assert_eq!(paths().await, ["hard", "sub/a b", "x"]);
    sh(&hand, "rm /mnt/session/outputs/hard").await;
    assert_eq!(paths().await, ["sub/a b", "x"]);
    driver.reap(recipe.incarnation, Keep::Layer).await.unwrap();
    assert_eq!(paths().await, ["sub/a b", "x"]);
    let mut content = String::new();
    let mut output = driver.output(recipe.incarnation, "sub/a b").await.unwrap();
    output.read_to_string(&mut content).await.unwrap();
    assert_eq!(content, "hi\n");
    for path in ["link", "pipe", "../outputs/x", "none"] {
        assert!(
            driver.output(recipe.incarnation, path).await.is_err(),
            "{path}"
        );
    }
    driver
        .reap(recipe.incarnation, Keep::Nothing)
        .await
        .unwrap();
    let gone = driver.outputs(recipe.incarnation).await.unwrap_err();
    assert_eq!(gone.kind(), io::ErrorKind::NotFound);
}
