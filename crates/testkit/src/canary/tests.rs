//! A canary that cannot sing is worth nothing: each form, at each place.

use std::{
    fs::File,
    io::Write as _,
    process::{Command, Stdio},
};

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE},
};

use super::*;
use crate::random::Seeded;

fn secret() -> String {
    draw("canary", &Seeded::new(7))
}

fn search() -> Search {
    let mut canary = Canary::default();
    canary.hide("the key", secret());
    canary.hide("another", draw("other", &Seeded::new(8)));
    canary.search().unwrap()
}

/// Returns the secret in each form, with something around it, and the words for the form.
fn forms() -> Vec<(&'static str, Vec<u8>)> {
    let secret = secret();
    let hex: String = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
    let percent: String = secret.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let some = secret.replace('/', "%2F").replace('?', "%3F");
    let some = some
        .replace('>', "%3E")
        .replace('+', "%2B")
        .replace('=', "%3D");
    let reversed: String = secret.chars().rev().collect();
    let mut forms = vec![
        ("as it is", format!("<{secret}>")),
        ("reversed", format!("<{reversed}>")),
        ("in hex", format!("0{hex}0")),
        ("in hex", hex.to_uppercase()),
        ("percent-encoded", percent.to_uppercase()),
        ("percent-encoded", format!("a={percent}&b")),
        ("percent-encoded", format!("a={some}&b")),
        ("percent-encoded", format!("a={}&b", some.to_lowercase())),
    ];
    for before in ["", "x", "xy", "xyz", "a longer text "] {
        for after in ["", "\u{1}", "~~~~", "\n"] {
            let whole = format!("{before}{secret}{after}");
            forms.push(("in base64", STANDARD.encode(&whole)));
            forms.push(("in base64", URL_SAFE.encode(&whole)));
        }
    }
    let bytes = forms
        .into_iter()
        .map(|(words, text)| (words, text.into_bytes()));
    bytes.collect()
}

#[test]
fn every_form_is_found_and_named_without_being_quoted() {
    let search = search();
    for (words, form) in forms() {
        let told = search.bytes("the log", &[b"some text ", &form[..], b" more"].concat());
        assert_eq!(
            told,
            [format!("a secret stands in the log: the key {words}")]
        );
        assert!(!told[0].contains(&secret()));
    }
}

#[test]
fn what_is_no_secret_is_not_found() {
    let search = search();
    let text = secret();
    for innocent in [&text[1..], &text[..text.len() - 1], "", "canary-"] {
        assert_eq!(
            search.bytes("here", innocent.as_bytes()),
            Vec::<String>::new()
        );
    }
    let nobody = Canary::default().search().unwrap();
    assert_eq!(nobody.bytes("here", text.as_bytes()), Vec::<String>::new());
}

#[test]
fn secrets_in_one_another_are_all_found() {
    let mut canary = Canary::default();
    canary.hide("the inner", "0123456789abcdef");
    canary.hide("the outer", "x0123456789abcdefx");
    let told = canary
        .search()
        .unwrap()
        .bytes("it", b" x0123456789abcdefx ");
    assert_eq!(told.len(), 2, "{told:?}");
}

#[test]
fn files_are_searched_across_edges_behind_holes_and_unpacked() {
    let dir = tempfile::tempdir().unwrap();
    let search = search();
    let write = |name: &str, bytes: &[u8]| std::fs::write(dir.path().join(name), bytes).unwrap();
    let edge = 1 << 20;
    for (number, (_, form)) in forms().into_iter().enumerate() {
        // Wherever the edge cuts it.
        let before = edge - 1 - number % form.len();
        write(
            &format!("edge{number}"),
            &[&vec![b'.'; before][..], &form[..]].concat(),
        );
    }
    let found = search.files(&under(dir.path(), &[]));
    assert_eq!(found.len(), forms().len(), "{found:#?}");

    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| std::fs::write(dir.path().join(name), bytes).unwrap();
    let bytes = [&vec![b'.'; 3 * edge][..], secret().as_bytes(), &[b'.'; 9]].concat();
    write("zstd", &zstd::encode_all(&bytes[..], 1).unwrap());
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&bytes).unwrap();
    write("gzip", &gzip.finish().unwrap());
    let mut cut = zstd::encode_all(&bytes[..], 1).unwrap();
    cut.truncate(cut.len() / 2);
    cut.extend_from_slice(secret().as_bytes());
    write("cut", &cut);
    let sparse = File::create(dir.path().join("sparse")).unwrap();
    sparse.set_len(1 << 30).unwrap();
    std::os::unix::fs::FileExt::write_at(&sparse, secret().as_bytes(), 1 << 29).unwrap();
    std::fs::create_dir(dir.path().join("in")).unwrap();
    write("in/may", secret().as_bytes());
    let hex: String = secret().bytes().map(|byte| format!("{byte:02x}")).collect();
    write(&hex, b"");
    let found = search.files(&under(dir.path(), &["in/may"]));
    assert_eq!(found.len(), 5, "{found:#?}");
    for name in ["zstd: ", "gzip: ", "cut: ", "sparse: ", "in hex"] {
        assert!(
            found.iter().any(|line| line.contains(name)),
            "{name} {found:#?}"
        );
    }
}

#[test]
fn environments_and_arguments_of_descendants_are_searched() {
    let search = search();
    let mut child = Command::new("sh")
        .args(["-c", "sleep 600 & wait", &format!("--key={}", secret())])
        .env("TOKEN", STANDARD.encode(secret()))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let of_both = || {
        let pids = descendants(&[std::process::id()]);
        assert!(pids.contains(&child.id()));
        [search.environments(&pids), search.arguments(&pids)]
    };
    // Until the second one has become what it is.
    let mut found = of_both();
    for _ in 0..500 {
        if found[0].len() > 1 {
            break;
        }
        std::thread::yield_now();
        found = of_both();
    }
    let [environments, arguments] = found;
    for pid in descendants(&[child.id()]) {
        drop(Command::new("kill").arg(pid.to_string()).status());
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(environments.len() > 1, "{environments:?}");
    assert!(
        environments.iter().all(|line| line.ends_with("in base64")),
        "{environments:?}"
    );
    assert!(
        arguments.iter().all(|line| line.ends_with("as it is")),
        "{arguments:?}"
    );
    assert!(!arguments.is_empty());
}
