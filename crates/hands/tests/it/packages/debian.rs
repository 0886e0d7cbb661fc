//! Debian's packages over an image: by this machine's own apt and dpkg, packed into a small one.

use std::{path::Path, process::Command};

use outlast_hands::{
    Provisioner as _, Recipe,
    images::Images,
    packages::{Mirrors, Rest, Wanted},
};
use outlast_protocol::environment::Packages;

use super::{refused, with};
use crate::support::{Node, bash, failed, sh};

/// Packs apt, dpkg and what they need into a root file system.
pub(super) const ROOT: &str = r#"
t=$(mktemp -d)
take() { for f in "$@"; do install -D "$f" "$t$(realpath -s "$f" | sed 's,^/\(bin\|sbin\|lib\|lib64\)/,/usr/\1/,')"; done; }
need() { for p in "$@"; do b=$(command -v "$p" || echo "$p"); take "$b"; take $(ldd "$b" 2>/dev/null | grep -o '/[^ ]*'); done; }
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
mkdir -p $t/usr/{bin,sbin,lib,lib64} $t/var/lib/dpkg/{info,updates,triggers} $t/etc/apt/apt.conf.d $t/root
for l in bin sbin lib lib64; do ln -s usr/$l $t/$l; done
need bash sh cat chown ls rm mv mkdir touch id stat tar diff find gzip xz apt-get apt-config dpkg dpkg-deb dpkg-split \
  dpkg-query dpkg-trigger ldconfig start-stop-daemon update-alternatives \
  /usr/lib/apt/methods/{file,copy,store,gpgv,http}
for f in $(ldconfig -p | grep -oE '/[^ ]*/lib(apt-private|nss_files|nss_compat)[^ ]*'); do take $f; done
mkdir -p $t/usr/share; cp -r /usr/share/dpkg $t/usr/share/
: > $t/var/lib/dpkg/status; : > $t/var/lib/dpkg/available; dpkg --print-architecture > $t/var/lib/dpkg/arch
echo 'deb [trusted=yes] http://deb.test/ ./' > $t/etc/apt/sources.list
echo 'root:x:0:0::/root:/bin/sh' > $t/etc/passwd; echo 'root:x:0:' > $t/etc/group
tar -C $t --owner=0 --group=0 -czf "$0" .; rm -r $t"#;

/// Builds `tiny`, which needs `tiny-data`, has a script that runs as root and a file that replaces another.
pub(super) const REPOSITORY: &str = r#"
cd "$0"
package() {
  d=$(mktemp -d); mkdir -p $d/DEBIAN $d/usr/bin $d/usr/share/$1 $d/etc
  printf 'Package: %s\nVersion: %s\nArchitecture: all\nMaintainer: a <a@example.com>\nDescription: d\n%s' "$1" "$2" "$3" > $d/DEBIAN/control
}
pack() { dpkg-deb --root-owner-group --build $d "$1.deb" > /dev/null; rm -r $d; }
package tiny-data 1.0 ''; echo data > $d/usr/share/tiny-data/word; rmdir $d/usr/bin; pack tiny-data_1.0
for v in 1.0 2.0; do
  package tiny $v 'Depends: tiny-data
'
  printf '#!/bin/sh\necho "tiny %s with $(cat /usr/share/tiny-data/word)"\n' $v > $d/usr/bin/tiny
  echo kept > $d/etc/tiny.conf; echo /etc/tiny.conf > $d/DEBIAN/conffiles
  printf '#!/bin/sh\nset -e\nid -u > /var/lib/tiny-uid\nchown 33:33 /etc/tiny.conf\n' > $d/DEBIAN/postinst
  chmod 755 $d/usr/bin/tiny $d/DEBIAN/postinst; chmod 4755 $d/usr/bin/tiny; pack tiny_$v
done
package broken 1.0 ''; printf '#!/bin/sh\necho no luck >&2; exit 3\n' > $d/DEBIAN/postinst
chmod 755 $d/DEBIAN/postinst; pack broken_1.0
for f in *.deb; do
  dpkg-deb -f $f; printf 'Filename: ./%s\nSize: %s\nSHA256: %s\n\n' $f $(stat -c %s $f) $(sha256sum < $f | cut -d' ' -f1)
done > Packages"#;

pub(super) fn script(text: &str, at: &Path) {
    let done = Command::new("bash").args(["-ec", text]).arg(at).status();
    assert!(done.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn apt_installs_over_an_image() {
    let node = Node::new().await;
    let (root, mirror) = (
        node.dir.path().join("rootfs.tar.gz"),
        node.dir.path().join("mirror"),
    );
    std::fs::create_dir(&mirror).unwrap();
    script(ROOT, &root);
    script(REPOSITORY, &mirror);
    let images = Images::new(node.dir.path().join("images"));
    images.import("debian", &root, None).unwrap();
    let of = |image: Option<&str>, items: &[&str]| {
        let packages = Packages {
            apt: items.iter().map(|item| (*item).to_owned()).collect(),
            ..Packages::default()
        };
        let mirrors = Mirrors {
            apt: Some(mirror.clone()),
            ..Mirrors::default()
        };
        let wanted = Wanted {
            packages,
            mirrors,
            rest: Rest::Refused,
            limit: super::GENEROUS,
        };
        Recipe {
            image: image.map(str::to_owned),
            ..with(wanted)
        }
    };
    let hand = node.provision(&of(Some("debian"), &["tiny=1.0"])).await;
    assert_eq!(sh(&hand, "tiny").await, "tiny 1.0 with data");
    // Its scripts ran as root of the sandbox, which the commands are not, and nothing is left of apt's.
    assert_eq!(
        sh(&hand, "cat /var/lib/tiny-uid /etc/tiny.conf; id -u").await,
        "0\nkept\n1000"
    );
    assert_eq!(
        sh(&hand, "dpkg-query -W -f '${Version}\\n' tiny").await,
        "1.0"
    );
    for command in [
        "ls /.packages",
        "echo x >> /usr/bin/tiny",
        "rm /etc/tiny.conf",
    ] {
        let rootless = !rustix::process::geteuid().is_root();
        assert!(bash(&hand, command).await.is_error || rootless, "{command}");
    }
    let newest = node.provision(&of(Some("debian"), &["tiny"])).await;
    assert_eq!(sh(&newest, "tiny").await, "tiny 2.0 with data");
    for (item, words) in [
        ("absent", "Unable to locate package absent"),
        ("broken", "no luck"),
    ] {
        let told = refused(node.driver.provision(&of(Some("debian"), &[item])).await);
        assert!(told.contains("install the apt packages"), "{told}");
        assert!(told.contains(words), "{told}");
    }
    let told = refused(node.driver.provision(&of(None, &["tiny"])).await);
    assert!(told.contains("over an image alone"), "{told}");
    let small = node.dir.path().join("small.tar.gz");
    crate::images::rootfs(&small);
    images.import("small", &small, None).unwrap();
    let told = refused(node.driver.provision(&of(Some("small"), &["tiny"])).await);
    assert!(told.contains("the image `small` has no apt"), "{told}");
    failed(&bash(&hand, "apt-get install tiny").await);
}
