//! Managers other than Python's: this machine's own, each with a mirror that it or its format made.

use std::{fs, path::Path, process::Command};

use outlast_hands::{
    Provisioner as _, Recipe,
    packages::{Mirrors, Rest, Wanted},
};
use outlast_protocol::environment::Packages;

use super::{python, refused, with};
use crate::support::{Node, bash, failed, sh};

/// Fills a cache of npm's from a registry on loopback that has `tiny`, `helper` and `@scope/part`.
const NPM: &str = r##"
import http.server, io, json, subprocess, sys, tarfile, tempfile, threading
cache, port = sys.argv[1], None
has = {"tiny": {"helper": "^1.0.0"}, "helper": {}, "@scope/part": {}}
files = {
    "tiny": {"index.js": "module.exports = 'tiny with ' + require('helper');",
             "cli.js": "#!/usr/bin/env node\nconsole.log(require('tiny'))"},
    "helper": {"index.js": "module.exports = 'helper';"},
    "@scope/part": {"index.js": "module.exports = 'part';"},
}
def manifest(name):
    made = {"name": name, "version": "1.0.0", "main": "index.js", "dependencies": has[name]}
    return {**made, "bin": {"tiny": "cli.js"}} if name == "tiny" else made
def tarball(name):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as out:
        for path, text in {"package.json": json.dumps(manifest(name)), **files[name]}.items():
            info = tarfile.TarInfo("package/" + path); info.size = len(text); info.mode = 0o755
            out.addfile(info, io.BytesIO(text.encode()))
    return packed.getvalue()
class Registry(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        path = self.path.lstrip("/").replace("%2f", "/").replace("%2F", "/")
        name, sep, _ = path.partition("/-/")
        if name not in has: self.send_error(404); return
        at = f"http://127.0.0.1:{port}/{name}/-/{name.split('/')[-1]}-1.0.0.tgz"
        version = {**manifest(name), "dist": {"tarball": at}}
        body = tarball(name) if sep else json.dumps(
            {"name": name, "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/octet-stream" if sep else "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Registry)
port = server.server_address[1]
threading.Thread(target=server.serve_forever, daemon=True).start()
with tempfile.TemporaryDirectory() as prefix:
    subprocess.run(["/usr/bin/npm", "install", "--cache", cache, "--prefix", prefix, "--no-audit",
                    "--no-fund", f"--registry=http://127.0.0.1:{port}/", "tiny", "@scope/part"], check=True)
"##;

/// Writes a module `example.com/tool` with a program, as a proxy in files has it.
const GO: &str = r##"
import os, sys, zipfile
module, version = "example.com/tool", "v1.2.3"
at = f"{sys.argv[1]}/{module}/@v"
os.makedirs(at)
mod = f"module {module}\n\ngo 1.18\n"
main = "package main\n\nfunc main() { println(\"by go\") }\n"
open(f"{at}/list", "w").write(version + "\n")
open(f"{at}/{version}.info", "w").write(f'{{"Version":"{version}","Time":"2020-01-01T00:00:00Z"}}')
open(f"{at}/{version}.mod", "w").write(mod)
with zipfile.ZipFile(f"{at}/{version}.zip", "w") as out:
    for path, text in {"go.mod": mod, "cmd/tool/main.go": main}.items():
        out.writestr(f"{module}@{version}/{path}", text)
"##;

/// Builds `tiny_gem`, which needs `part_gem` and brings a program.
const GEM: &str = r##"
cd "$(mktemp -d)"
gem() { printf '%s\n' "Gem::Specification.new do |s| s.name = '$1'; s.version = '1.0.0'; s.summary = 's'
s.authors = ['a']; s.files = Dir['lib/*.rb'] + Dir['bin/*']; $2 end" > $1.gemspec
/usr/bin/gem build -q $1.gemspec -o "$0/$1-1.0.0.gem" 2>/dev/null; rm -r lib bin; mkdir lib bin; }
mkdir lib bin
echo "PART = 'part'" > lib/part_gem.rb
gem part_gem
echo "require 'part_gem'; TINY = \"tiny with #{PART}\"" > lib/tiny_gem.rb
printf '#!/usr/bin/env ruby\nrequire "tiny_gem"; puts TINY\n' > bin/tiny-gem; chmod +x bin/tiny-gem
gem tiny_gem "s.bindir = 'bin'; s.executables = ['tiny-gem']; s.add_dependency 'part_gem', '>= 1'"
"##;

/// Writes a crate `tiny-tool` with a program and the crate that it needs, as `cargo vendor` has them.
const CARGO: &str = r##"
import json, os, sys
crates = {
    "tiny-tool": ("tiny-part = \"1\"", {"main.rs": "fn main() { println!(\"tool with {}\", tiny_part::PART) }"}),
    "tiny-part": ("", {"lib.rs": "pub const PART: &str = \"part\";"}),
}
for name, (needs, files) in crates.items():
    at = f"{sys.argv[1]}/{name}"
    os.makedirs(at + "/src")
    open(at + "/Cargo.toml", "w").write(
        f'[package]\nname = "{name}"\nversion = "1.2.0"\nedition = "2021"\n[dependencies]\n{needs}\n')
    for path, text in files.items(): open(f"{at}/src/{path}", "w").write(text)
    open(at + "/.cargo-checksum.json", "w").write(json.dumps({"files": {}, "package": "0" * 64}))
"##;

fn wanted(packages: Packages, mirrors: Mirrors) -> Recipe {
    with(Wanted {
        packages,
        mirrors,
        rest: Rest::Refused,
        limit: super::GENEROUS,
    })
}

fn list(items: &[&str]) -> Vec<String> {
    items.iter().map(|item| (*item).to_owned()).collect()
}

/// Makes an empty folder for a mirror.
fn mirror(node: &Node, name: &str) -> std::path::PathBuf {
    let dir = node.dir.path().join("mirrors").join(name);
    fs::create_dir_all(&dir).unwrap();
    dir
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn npm_installs_from_a_cache_that_it_filled() {
    let node = Node::new().await;
    let npm = mirror(&node, "npm");
    python(NPM, &[text(&npm)]);
    let of = |items: &[&str]| {
        let mirrors = Mirrors {
            npm: Some(npm.clone()),
            ..Mirrors::default()
        };
        let packages = Packages {
            npm: list(items),
            ..Packages::default()
        };
        wanted(packages, mirrors)
    };
    let hand = node.provision(&of(&["tiny@1.0.0", "@scope/part"])).await;
    assert_eq!(sh(&hand, "tiny").await, "tiny with helper");
    let line = "node -e \"console.log(require('tiny'), require('@scope/part'))\"";
    assert_eq!(sh(&hand, line).await, "tiny with helper part");
    let words = refused(node.driver.provision(&of(&["absent"])).await);
    assert!(words.contains("install the npm packages"), "{words}");
    assert!(words.contains("ENOTCACHED"), "{words}");
    let empty = mirror(&node, "empty");
    let mut none = of(&["tiny"]);
    if let Some(wanted) = &mut none.packages {
        wanted.mirrors.npm = Some(empty);
        wanted.packages.npm = list(&["tiny@^1"]);
    }
    let words = refused(node.driver.provision(&none).await);
    assert!(words.contains("is no cache of npm's"), "{words}");
}

#[tokio::test(flavor = "multi_thread")]
async fn gems_are_installed_with_what_they_need() {
    let node = Node::new().await;
    let gem = mirror(&node, "gem");
    let built = Command::new("bash").args(["-ec", GEM]).arg(&gem).status();
    assert!(built.unwrap().success());
    let of = |items: &[&str]| {
        let mirrors = Mirrors {
            gem: Some(gem.clone()),
            ..Mirrors::default()
        };
        let packages = Packages {
            gem: list(items),
            ..Packages::default()
        };
        wanted(packages, mirrors)
    };
    let hand = node.provision(&of(&["tiny_gem:~>1.0"])).await;
    assert_eq!(sh(&hand, "tiny-gem").await, "tiny with part");
    let line = "ruby -e 'require \"tiny_gem\"; puts TINY'";
    assert_eq!(sh(&hand, line).await, "tiny with part");
    let words = refused(node.driver.provision(&of(&["absent_gem"])).await);
    assert!(words.contains("install the gem packages"), "{words}");
    assert!(words.contains("absent_gem"), "{words}");
}

#[tokio::test(flavor = "multi_thread")]
async fn go_builds_a_program_from_a_proxy_in_files() {
    let node = Node::new().await;
    let go = mirror(&node, "go");
    python(GO, &[text(&go)]);
    let of = |items: &[&str]| {
        let mirrors = Mirrors {
            go: Some(go.clone()),
            ..Mirrors::default()
        };
        let packages = Packages {
            go: list(items),
            ..Packages::default()
        };
        wanted(packages, mirrors)
    };
    for item in [
        "example.com/tool/cmd/tool@v1.2.3",
        "example.com/tool/cmd/tool",
    ] {
        let hand = node.provision(&of(&[item])).await;
        assert_eq!(sh(&hand, "tool 2>&1").await, "by go", "{item}");
        failed(&bash(&hand, "ls ~/go").await);
    }
    let words = refused(node.driver.provision(&of(&["example.com/absent"])).await);
    assert!(words.contains("install the go packages"), "{words}");
    assert!(words.contains("example.com/absent"), "{words}");
}

#[tokio::test(flavor = "multi_thread")]
async fn cargo_builds_a_program_from_vendored_crates() {
    let node = Node::new().await;
    let cargo = mirror(&node, "cargo");
    python(CARGO, &[text(&cargo)]);
    let of = |items: &[&str]| {
        let mirrors = Mirrors {
            cargo: Some(cargo.clone()),
            ..Mirrors::default()
        };
        let packages = Packages {
            cargo: list(items),
            ..Packages::default()
        };
        wanted(packages, mirrors)
    };
    for item in ["tiny-tool@1.2.0", "tiny-tool"] {
        let hand = node.provision(&of(&[item])).await;
        assert_eq!(sh(&hand, "tiny-tool").await, "tool with part", "{item}");
        failed(&bash(&hand, "ls ~/.cargo").await);
    }
    for (item, words) in [("absent", "absent"), ("tiny-tool@1.3.0", "1.3.0")] {
        let told = refused(node.driver.provision(&of(&[item])).await);
        assert!(told.contains("install the cargo packages"), "{told}");
        assert!(told.contains(words), "{told}");
    }
    let mut none = of(&["tiny-tool"]);
    if let Some(wanted) = &mut none.packages {
        wanted.mirrors.cargo = Some(mirror(&node, "empty"));
        wanted.packages.cargo = list(&["tiny-tool@1"]);
    }
    let told = refused(node.driver.provision(&none).await);
    assert!(told.contains("as `cargo vendor` makes them"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn managers_install_into_one_layer() {
    let node = Node::new().await;
    let (npm, pip) = (mirror(&node, "npm"), super::wheels(&node));
    python(NPM, &[text(&npm)]);
    let packages = Packages {
        npm: list(&["tiny"]),
        pip: list(&["greet==1.0"]),
        ..Packages::default()
    };
    let mirrors = Mirrors {
        npm: Some(npm),
        pip: Some(pip),
        ..Mirrors::default()
    };
    let hand = node.provision(&wanted(packages, mirrors)).await;
    assert_eq!(
        sh(&hand, "tiny; greet").await,
        "tiny with helper\nhello 1.0"
    );
    assert_eq!(super::layers(&node).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_without_a_manager_says_so() {
    let node = Node::new().await;
    let file = node.dir.path().join("rootfs.tar.gz");
    crate::images::rootfs(&file);
    let images = outlast_hands::images::Images::new(node.dir.path().join("images"));
    images.import("small", &file, None).unwrap();
    let packages = Packages {
        pip: list(&["greet"]),
        ..Packages::default()
    };
    let mirrors = Mirrors {
        pip: Some(super::wheels(&node)),
        ..Mirrors::default()
    };
    let small = Recipe {
        image: Some("small".to_owned()),
        ..wanted(packages, mirrors)
    };
    let words = refused(node.driver.provision(&small).await);
    assert!(words.contains("the image `small` has no pip"), "{words}");
    assert!(words.contains("`outlast.image`"), "{words}");
}
