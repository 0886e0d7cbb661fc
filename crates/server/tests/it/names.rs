//! Strangely named files: uploaded, mounted, edited inside, left as outputs, downloaded.

use std::{fs, os::unix::ffi::OsStrExt as _, path::Path};

use outlast_hands::files::escaped;
use serde_json::json;

use crate::{
    files::{content, id, mount, outputs, upload},
    support::{Does as _, Output, TestServer, bash, of, outlast, said, script},
};

/// Names that can be mounted, and what is in the file.
fn mounted() -> Vec<(String, Vec<u8>)> {
    let binary: Vec<u8> = (0..=255_u8).cycle().take(100_000).collect();
    let names = [
        "two words ",
        "-rf",
        "--",
        "quote'\"`$(touch x);*?[a]",
        "line\nfeed\ttab",
        "...",
        "..a..",
        "%2E%2E%2Fup",
        "100%",
        ".part",
        "plain",
        "plain.part",
        // One letter with its accent, and the same in two signs.
        "caf\u{e9}",
        "cafe\u{301}",
        "\u{202e}\u{1f980}",
    ];
    let names = names.map(str::to_owned).into_iter();
    let long = ["x".repeat(255), "\u{e9}".repeat(127)];
    let named = |(number, name): (usize, String)| (name, binary[number..].to_vec());
    let mut files: Vec<_> = names.chain(long).enumerate().map(named).collect();
    files.push(("empty".to_owned(), Vec::new()));
    files
}

/// Puts a line behind each file, in a folder of its own.
const EDIT: &str = r#"
mkdir /mnt/session/outputs/in && cd /mnt/session/uploads/in &&
find . -type f -print0 | while IFS= read -r -d '' name; do
    to=/mnt/session/outputs/in/$name
    cat -- "$name" > "$to" && printf '\nedited' >> "$to" || echo "failed: $name"
done
echo done"#;

/// Leaves names that are no text, and other names of files.
const BYTES: &str = r#"
cd /mnt/session/outputs && printf 1 > $'\xff\xfe' && mkdir $'d\xe9' && printf 2 > $'d\xe9/\x1b[31m' &&
printf 3 > "$(head -c 255 /dev/zero | tr '\0' '\351')" &&
ln in/plain twin && ln /mnt/session/uploads/in/plain stolen; ln /etc/passwd passwd;
ln -s in/plain link; echo done"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_any_name_comes_out_as_it_went_in() {
    let server = TestServer::start().await;
    let (client, here) = (server.client(), tempfile::tempdir().unwrap());
    let session = client.session("scripted").await;
    let mut wanted = Vec::new();
    for (name, mut bytes) in mounted() {
        let file = upload(client, here.path(), &name, &bytes).await;
        // A form has no line ends in a name.
        assert_eq!(file["filename"], name.replace(['\n', '\t'], "_"));
        mount(client, &session, &file, &format!("/in/{name}")).await;
        bytes.extend_from_slice(b"\nedited");
        wanted.push((escaped(format!("in/{name}").as_bytes()), bytes));
    }
    let write = json!({"file_path": "/mnt/session/outputs/by tool\n'%41'", "content": "one"});
    let path = &write["file_path"];
    let edit = json!({"file_path": path, "old_string": "one", "new_string": "two"});
    let tools =
        json!({"calls": [{"name": "write", "input": write}, {"name": "edit", "input": edit}]});
    let steps = json!([bash(EDIT), bash(BYTES), tools, {"text": "the end"}]);
    let events = server.play(&session, &[script(steps)], 1).await;
    let results = of(&events, "agent.tool_result");
    assert_eq!(said(results[0]).trim(), "done");
    let refused = said(results[1]);
    assert!(refused.contains("cross-device link"), "{refused}");
    assert!(refused.trim().ends_with("done"), "{refused}");
    let plain = wanted.iter().find(|(name, _)| name == "in/plain").unwrap();
    let twin = plain.1.clone();
    wanted.extend([
        ("%FF%FE".to_owned(), b"1".to_vec()),
        ("d%E9/%1B[31m".to_owned(), b"2".to_vec()),
        ("%E9".repeat(255), b"3".to_vec()),
        ("by tool%0A'%2541'".to_owned(), b"two".to_vec()),
        ("twin".to_owned(), twin),
    ]);
    wanted.sort();
    let found = outputs(client, &session).await;
    let names: Vec<_> = found.iter().map(|(name, _)| name.as_str()).collect();
    let expected: Vec<_> = wanted.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, expected);
    for ((name, file), (_, bytes)) in found.iter().zip(&wanted) {
        assert!(content(client, file).await == *bytes, "{name}");
    }
    let long = &found.iter().find(|(name, _)| name.len() == 765).unwrap().1;
    downloads(&server, &session, &wanted, id(long)).await;
}

/// Everything is saved under the name that the server has for it, but for the one that is too long.
async fn downloads(
    server: &TestServer,
    session: &str,
    wanted: &[(String, Vec<u8>)],
    too_long: &str,
) {
    let here = tempfile::tempdir().unwrap();
    let (dir, url) = (here.path().join("out"), server.server().url());
    let command = |arguments: &[&str]| {
        let mut command = outlast(here.path());
        command.args(arguments).env("OUTLAST_URL", &url);
        command.env("OUTLAST_API_KEY", server.key());
        command
    };
    let all = ["sessions", "download", session, "-o", dir.to_str().unwrap()];
    let done = Output::of(&mut command(&all)).await;
    assert_eq!(done.code, Some(1), "{done:?}");
    let skipped = format!("({too_long}): File name too long");
    assert!(done.err.contains(&skipped), "{done:?}");
    assert!(done.err.contains("files download ID --output"), "{done:?}");
    let one = here.path().join("one");
    let one = ["files", "download", too_long, "-o", one.to_str().unwrap()];
    let done = Output::of(&mut command(&one)).await;
    assert_eq!(done.code, Some(0), "{done:?}");
    for (name, bytes) in wanted {
        let path = if name.len() == 765 {
            here.path().join("one")
        } else {
            dir.join(name)
        };
        assert!(fs::read(path).unwrap() == *bytes, "{name}");
    }
    let is_part = |path: &Path| {
        let name = path.file_name().unwrap_or_default().as_bytes();
        name.starts_with(b".file_")
    };
    let left = crate::support::leftovers::files(here.path());
    assert!(!left.iter().any(|path| is_part(path)), "{left:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_download_stays_in_its_folder_and_tells_what_is_in_the_way() {
    let server = TestServer::start().await;
    let session = server.client().session("scripted").await;
    // The first file stays published though another one has its place as a folder by then.
    let make = |command: &str| [script(json!([bash(command), {"text": "ok"}]))];
    let first = "cd /mnt/session/outputs && echo 1 > a && mkdir b && echo 2 > b/c";
    server.play(&session, &make(first), 1).await;
    let second = "cd /mnt/session/outputs && rm a && mkdir a && echo 3 > a/d && echo 4 > e";
    server.play(&session, &make(second), 2).await;
    let here = tempfile::tempdir().unwrap();
    let (dir, outside) = (here.path().join("out"), here.path().join("outside"));
    for path in [&dir, &outside] {
        fs::create_dir(path).unwrap();
    }
    std::os::unix::fs::symlink(&outside, dir.join("b")).unwrap();
    let mut command = outlast(here.path());
    command.args(["sessions", "download", &session, "--force", "-o"]);
    command.arg(&dir).env("OUTLAST_URL", server.server().url());
    let done = Output::of(command.env("OUTLAST_API_KEY", server.key())).await;
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(done.err.contains("b` is a link"), "{done:?}");
    assert!(done.err.contains("2 of 4 files were not saved"), "{done:?}");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    assert_eq!(fs::read_to_string(dir.join("e")).unwrap(), "4\n");
    // The newer one comes first.
    assert_eq!(fs::read_to_string(dir.join("a/d")).unwrap(), "3\n");
}
