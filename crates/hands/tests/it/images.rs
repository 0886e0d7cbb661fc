//! A sandbox that stands on an imported image: one of this host's own programs, as `tar` packs them.

use std::{path::Path, process::Command};

use outlast_hands::{Keep, Provisioner as _, Recipe, images::Images};
use serde_json::json;

use crate::support::{Node, bash, call, failed, fine, recipe, sh};

/// Packs a few programs with what they load.
pub(crate) fn rootfs(at: &Path) {
    let line = "t=$(mktemp -d); for p in bash cat ls id touch; do b=$(command -v $p); \
                install -D $b $t/usr/bin/$p; \
                for l in $(ldd $b | grep -o '/[^ ]*'); do install -D $l $t/usr/lib/$(basename $l); done; done; \
                ln -s usr/bin $t/bin; ln -s usr/lib $t/lib; ln -s usr/lib $t/lib64; \
                mkdir -p $t/etc $t/opt $t/home/other; echo 'me:x:1000:1000::/me:/bin/bash' > $t/etc/passwd; \
                echo of the image > $t/opt/mark; chmod 4755 $t/usr/bin/id; \
                tar -C $t --owner=0 --group=0 -czf \"$0\" .; rm -r $t";
    let done = Command::new("sh").args(["-ec", line]).arg(at).status();
    assert!(done.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_stands_on_an_image() {
    let node = Node::new().await;
    let file = node.dir.path().join("rootfs.tar.gz");
    rootfs(&file);
    let images = Images::new(node.dir.path().join("images"));
    let listed = images.import("small", &file, None).unwrap();
    assert!(listed.digest.starts_with("sha256:") && listed.entries > 10);
    let first = Recipe {
        image: Some("small".to_owned()),
        ..recipe()
    };
    let hand = node.provision(&first).await;
    assert_eq!(
        sh(&hand, "cat /opt/mark; pwd").await,
        "of the image\n/workspace"
    );
    assert_eq!(sh(&hand, "id -un; id -u").await, "agent\n1000");
    assert!(failed(&bash(&hand, "python3 --version").await).contains("not found"));
    for command in ["touch /usr/x", "touch /opt/x", "echo x > /etc/passwd"] {
        assert!(bash(&hand, command).await.is_error, "{command}");
    }
    fine(&call(&hand, "write", json!({"file_path": "a", "content": "x"})).await);
    let next = Recipe {
        predecessor: Some(first.incarnation),
        incarnation: recipe().incarnation,
        ..first.clone()
    };
    let hand = node.provision(&next).await;
    assert_eq!(sh(&hand, "cat a").await, "x");
    node.driver
        .reap(next.incarnation, Keep::Nothing)
        .await
        .unwrap();
    let missing = Recipe {
        image: Some("other".to_owned()),
        ..recipe()
    };
    let words = node
        .driver
        .provision(&missing)
        .await
        .unwrap_err()
        .to_string();
    assert!(
        words.contains("find the image `other`: there is none of that name here; known: small; `outlast images import other FILE`"),
        "{words}"
    );
}
