//! Root file systems that were made elsewhere: taken in by the command, stood on by a session.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::Command,
};

use outlast_server::client::Client;
use serde_json::{Value, json};

use crate::support::{Binary, Does as _, Output, bash, of, outlast, said, script};

/// Packs programs of this machine with what they load, behind links; `$1` is where to.
const PACK: &str = r#"
t=$(mktemp -d); trap 'rm -rf "$t"' EXIT
mkdir -p "$t/system/usr/bin" "$t/system/usr/lib" "$t/opt/old"
for p in bash cat ls id stat; do
    b=$(command -v $p); install -D "$b" "$t/system/usr/bin/$p"
    for l in $(ldd "$b" | grep -o '/[^ ]*'); do install -D "$l" "$t/system/usr/lib/$(basename "$l")"; done
done
ln -s /system/usr "$t/usr"; ln -s usr/bin "$t/bin"
for l in lib lib64; do ln -s usr/lib "$t/$l"; done
echo 'of the image' > "$t/opt/mark"; echo old > "$t/opt/old/a"
chmod 6755 "$t/system/usr/bin/id"; mkfifo "$t/opt/pipe"
# Only root can make one, and only root's test shows that it is left out.
mkdir "$t/dev"; mknod "$t/dev/sda" b 8 0 2>/dev/null || true
eval "$2"
tar -C "$t" --owner=0 --group=0 -cf "$1" .
"#;

/// Packs a root file system after one more command in it.
fn pack(dir: &Path, name: &str, more: &str) -> PathBuf {
    let path = dir.join(name);
    let mut command = Command::new("bash");
    let packed = command.args(["-ec", PACK, "bash"]).arg(&path).arg(more);
    assert!(packed.status().unwrap().success());
    path
}

async fn import(dir: &Path, name: &str, file: &Path) -> Output {
    let mut command = outlast(dir);
    Output::of(command.args(["images", "import", name]).arg(file)).await
}

/// Makes a session whose sandbox stands on an image.
async fn session(client: &Client, image: &str) -> String {
    let tools = json!([{"type": "agent_toolset_20260401"}]);
    let agent = json!({"name": "tester", "model": "scripted", "tools": tools});
    let agent = client.post("/v1/agents", &agent).await.unwrap();
    let place = json!({"name": image, "metadata": {"outlast.image": image}});
    let place = client.post("/v1/environments", &place).await.unwrap();
    let body = json!({"agent": agent["id"], "environment_id": place["id"]});
    let session = client.post("/v1/sessions", &body).await.unwrap();
    session["id"].as_str().unwrap().to_owned()
}

/// Plays calls in one turn; returns whether each was an error, and what it said.
async fn results(client: &Client, image: &str, mut calls: Vec<Value>) -> Vec<(bool, String)> {
    let session = session(client, image).await;
    calls.push(json!({"text": "the end"}));
    client.send(&session, &[script(calls.into())]).await;
    let events = client.idle(&session, 1).await;
    let ended = of(&events, "agent.message");
    assert_eq!(said(ended.last().unwrap()), "the end", "{events:?}");
    let results = of(&events, "agent.tool_result").into_iter();
    let told = results.map(|result| {
        let text = said(result).trim().to_owned();
        (result["is_error"] == true, text)
    });
    told.collect()
}

fn call(name: &str, input: &Value) -> Value {
    json!({"calls": [{"name": name, "input": input}]})
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_without_users_or_tmp_and_with_links_for_folders_works() {
    let dir = tempfile::tempdir().unwrap();
    let server = Binary::start(dir.path(), None).await;
    let file = pack(dir.path(), "linked.tar", "true");
    let done = import(dir.path(), "linked", &file).await;
    assert_eq!(done.code, Some(0), "{done:?}");
    let found = results(
        &server.client,
        "linked",
        vec![
            bash("id -un; id -u; pwd; cat /opt/mark; echo t > /tmp/t && cat /tmp/t; ls /dev/sda /opt/pipe"),
            bash("stat -c %a /usr/bin/id; echo $HOME; cat /etc/passwd; echo x > /usr/x"),
            call("write", &json!({"file_path": "a/b", "content": "c"})),
            bash("cat a/b"),
        ],
    )
    .await;
    let lines: Vec<_> = found[0].1.lines().collect();
    assert_eq!(
        lines[..5],
        ["agent", "1000", "/workspace", "of the image", "t"],
        "{found:?}"
    );
    for missing in ["/dev/sda", "/opt/pipe"] {
        let said = |line: &&str| line.contains(missing) && line.contains("No such file");
        assert!(lines.iter().any(said), "{found:?}");
    }
    let second = &found[1].1;
    assert!(second.starts_with("755\n/home/agent\n"), "{second}");
    for part in ["agent:x:1000:", "Permission denied"] {
        assert!(second.contains(part), "{second}");
    }
    assert_eq!((found[2].0, &found[3]), (false, &(false, "c".to_owned())));
    assert!(server.stop().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_without_a_shell_that_runs_says_so_and_keeps_the_file_tools() {
    let dir = tempfile::tempdir().unwrap();
    let server = Binary::start(dir.path(), None).await;
    for (image, more, words) in [
        (
            "bare",
            "rm \"$t/system/usr/bin/bash\"",
            "there is no /bin/bash in this sandbox",
        ),
        // The file is there; what loads it is not.
        (
            "unloaded",
            "rm -r \"$t/system/usr/lib\"",
            "/bin/bash cannot be executed: No such file",
        ),
        (
            "empty",
            "rm -rf \"$t\"; mkdir \"$t\"; echo x > \"$t/x\"",
            "there is no /bin/bash",
        ),
    ] {
        let file = pack(dir.path(), image, more);
        let done = import(dir.path(), image, &file).await;
        assert_eq!(done.code, Some(0), "{done:?}");
        let found = results(
            &server.client,
            image,
            vec![
                bash("echo never"),
                call("bash", &json!({"restart": true})),
                bash("echo never"),
                call("write", &json!({"file_path": "a", "content": "needle\n"})),
                call("grep", &json!({"pattern": "needle"})),
            ],
        )
        .await;
        for told in [&found[0], &found[2]] {
            assert!(told.0 && told.1.contains(words), "{image}: {told:?}");
        }
        assert!(!found[3].0, "{image}: {found:?}");
        assert_eq!(found[4].1, "/workspace/a:1:needle", "{image}");
    }
    assert!(server.stop().await.success());
}

/// Writes an archive of one file each.
fn layer(files: &[(&str, &str)]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (path, content) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        builder
            .append_data(&mut header, path, content.as_bytes())
            .unwrap();
    }
    builder.into_inner().unwrap()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Returns the digest of a file, in hex.
fn sha256(path: &Path) -> String {
    let sum = Command::new("sha256sum").arg(path).output().unwrap();
    String::from_utf8(sum.stdout).unwrap()[..64].to_owned()
}

/// Makes an OCI layout of layers, the lowest first.
fn layout(dir: &Path, layers: &[Vec<u8>]) -> PathBuf {
    let place = dir.join("layout");
    let blobs = place.join("blobs/sha256");
    fs::create_dir_all(&blobs).unwrap();
    let blob = |bytes: &[u8]| {
        let new = blobs.join("new");
        fs::write(&new, bytes).unwrap();
        let sum = sha256(&new);
        fs::rename(new, blobs.join(&sum)).unwrap();
        json!({"digest": format!("sha256:{sum}"), "size": bytes.len()})
    };
    let layers: Vec<_> = layers.iter().map(|layer| blob(layer)).collect();
    let manifest = blob(json!({"layers": layers}).to_string().as_bytes());
    let index = json!({"manifests": [manifest]}).to_string();
    fs::write(place.join("index.json"), index).unwrap();
    fs::write(place.join("oci-layout"), "{}").unwrap();
    place
}

#[tokio::test(flavor = "multi_thread")]
async fn upper_layers_take_away_what_lower_ones_have() {
    let dir = tempfile::tempdir().unwrap();
    let server = Binary::start(dir.path(), None).await;
    let base = fs::read(pack(dir.path(), "base.tar", "true")).unwrap();
    let upper = layer(&[
        ("opt/.wh.mark", ""),
        ("opt/old/.wh..wh..opq", ""),
        ("opt/old/new", "of the second"),
        // Through a link of the layer below.
        ("usr/share/note", "noted"),
    ]);
    let done = import(dir.path(), "layered", &layout(dir.path(), &[base, upper])).await;
    assert_eq!(done.code, Some(0), "{done:?}");
    let look = "ls /opt /opt/old; cat /opt/old/new /system/usr/share/note; ls -a /opt /opt/old";
    let found = results(&server.client, "layered", vec![bash(look)]).await;
    let text = &found[0].1;
    assert!(text.starts_with("/opt:\nold\n\n/opt/old:\nnew\n"), "{text}");
    assert!(text.contains("of the secondnoted"), "{text}");
    assert!(!text.contains(".wh."), "{text}");
    assert!(server.stop().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_taken_is_refused_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let here = dir.path();
    let good = fs::read(pack(here, "good.tar", "true")).unwrap();
    let sparse = |format: &str| {
        let line = format!(
            "truncate -s 70G \"$t/hole\"; tar -C \"$t\" --sparse --format={format} -cf \"$1\" hole; exit"
        );
        fs::read(pack(here, "sparse.tar", &line)).unwrap()
    };
    let mut upward = layer(&[("aaaaaaa", "x")]);
    upward[..7].copy_from_slice(b"../evil");
    let sum: u32 = upward[..148]
        .iter()
        .chain(&upward[156..512])
        .map(|byte| u32::from(*byte))
        .sum();
    upward[148..156].copy_from_slice(format!("{:06o}\0 ", sum + 8 * 32).as_bytes());
    let file = here.join("archive");
    for (bytes, words) in [
        (Vec::new(), "there is nothing in it"),
        (vec![7; 100_000], "the archive cannot be taken"),
        (
            good[..good.len() / 2].to_vec(),
            "the archive cannot be taken",
        ),
        (
            gzip(&good)[..100_000].to_vec(),
            "the archive cannot be taken",
        ),
        (
            b"\x1f\x8bno gzip at all".to_vec(),
            "the archive cannot be taken",
        ),
        (upward, "`../evil`: its path leads out of the image"),
        (sparse("gnu"), "`hole`: the image is too large"),
        (sparse("posix"), "pack it without `--sparse`"),
        (layer(&[("a", "x"), ("a/b", "y")]), "`a/b`: Not a directory"),
    ] {
        fs::write(&file, bytes).unwrap();
        let done = import(here, "bad", &file).await;
        assert_eq!(done.code, Some(1), "{done:?}");
        assert!(done.err.contains(words), "{words}: {done:?}");
    }
    let folder = here.join("folder");
    fs::create_dir(&folder).unwrap();
    let layout = layout(here, &[good]);
    let blobs: Vec<_> = fs::read_dir(layout.join("blobs/sha256")).unwrap().collect();
    for blob in blobs {
        let path = blob.unwrap().path();
        let mut bytes = fs::read(&path).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(path, bytes).unwrap();
    }
    for (path, words) in [
        (
            folder,
            "a folder must be an OCI layout, with an `index.json`",
        ),
        (layout, "digest"),
        (here.join("none"), "No such file or directory"),
    ] {
        let done = import(here, "bad", &path).await;
        assert_eq!(done.code, Some(1), "{done:?}");
        assert!(done.err.contains(words), "{words}: {done:?}");
    }
    let listed = Output::of(outlast(here).args(["images", "list", "--json"])).await;
    assert_eq!((listed.code, listed.out.as_str()), (Some(0), ""));
    let left = fs::read_dir(here.join("images")).unwrap();
    let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["lock"]);
    assert!(!here.join("evil").exists());
}
