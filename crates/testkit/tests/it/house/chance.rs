//! Chance comes from `Entropy` alone, so that a seed decides all of a simulation.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The rooms that a simulation runs.
const SIMULATED: &[&str] = &[
    "api", "egress", "harness", "kernel", "model", "session", "store", "testkit",
];

/// Collects the source files below a folder.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            found.push(path);
        }
    }
}

/// Returns the lines at which a choice begins that the runtime makes by a die of its own.
fn unbiased(text: &str) -> Vec<usize> {
    let lines: Vec<_> = text.lines().map(str::trim).collect();
    let is_die = |at: usize| {
        let mut behind = lines[at + 1..].iter();
        let first = behind.find(|line| !line.is_empty() && !line.starts_with("//"));
        first.is_none_or(|line| !line.starts_with("biased;"))
    };
    let begins = |at: &usize| lines[*at].ends_with("select! {");
    let found = (0..lines.len()).filter(begins).filter(|at| is_die(*at));
    found.map(|at| at + 1).collect()
}

#[test]
fn what_is_ready_at_once_is_taken_in_a_stated_order() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    for room in SIMULATED {
        sources(&crates.join(room).join("src"), &mut files);
    }
    let mut wrong = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        wrong.extend(unbiased(&text).iter().map(|line| (file.clone(), *line)));
    }
    assert!(wrong.is_empty(), "`select!` without `biased;`: {wrong:#?}");
}

#[test]
fn a_die_is_found() {
    let die = "tokio::select! {\n    // why\n    () = a => {}\n}";
    let stated = "let x = select! {\n    // why\n\n    biased;\n    () = a => {}\n};";
    assert_eq!((unbiased(die), unbiased(stated)), (vec![1], vec![]));
}
