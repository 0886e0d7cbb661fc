use std::fs;

use crate::support::{Output, outlast};

#[tokio::test]
async fn what_is_in_force_is_printed_without_secrets() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("outlast.toml");
    fs::write(
        &file,
        "[upstream]\napi_key = 'sk-not-to-be-seen'\n[kernel]\nbrains = 3\n",
    )
    .unwrap();
    let mut command = outlast(dir.path());
    command
        .env("OUTLAST__KERNEL__ATTEMPTS", "7")
        .args(["config", "print"]);
    let printed = Output::of(&mut command).await;
    assert_eq!(printed.code, Some(0), "{printed:?}");
    let lines = [
        "brains = 3",
        "attempts = 7",
        "api_key = \"[redacted]\"",
        "outlast.toml",
    ];
    for line in lines {
        assert!(
            printed.out.contains(line),
            "{line:?} is not in {}",
            printed.out
        );
    }
    assert!(!printed.out.contains("sk-not-to-be-seen"));
    // What is printed can be read again.
    fs::write(&file, printed.out.replace("[redacted]", "sk-other")).unwrap();
    let checked = Output::of(outlast(dir.path()).args(["config", "check"])).await;
    assert_eq!(checked.code, Some(0), "{checked:?}");
}

#[tokio::test]
async fn what_is_wrong_is_said_with_its_place() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("outlast.toml"), "[kernal]\nbrains = 3\n").unwrap();
    for command in [
        &["config", "check"][..],
        &["config", "print"],
        &["serve"],
        &["sessions", "list"],
    ] {
        let refused = Output::of(outlast(dir.path()).args(command)).await;
        assert_eq!(refused.code, Some(2), "{refused:?}");
        let named = refused.err.contains("`kernal`") && refused.err.contains("outlast.toml");
        assert!(named && refused.err.contains("hint:"), "{refused:?}");
    }
}

#[tokio::test]
async fn the_defaults_are_printed_with_their_words() {
    let dir = tempfile::tempdir().unwrap();
    let printed = Output::of(outlast(dir.path()).args(["config", "print", "--defaults"])).await;
    assert_eq!(printed.out, outlast_server::config::DEFAULTS);
}

#[tokio::test]
async fn a_mistyped_variable_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = outlast(dir.path());
    command
        .env("OUTLAST_UPSTREAM_KEY", "x")
        .args(["config", "check"]);
    let checked = Output::of(&mut command).await;
    assert_eq!(checked.code, Some(0), "{checked:?}");
    assert!(
        checked.err.contains("OUTLAST_UPSTREAM_KEY means nothing"),
        "{checked:?}"
    );
}
