//! Builds the two static programs that this crate embeds: the helper that confines, and PID 1.
//!
//! A build of their own, because they need other code generation flags than the server, and with a
//! target folder of their own, because the outer build holds the lock of its own. That folder is the
//! same for all builds of one target folder: checks, tests, and what is released.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Package and binary of each program.
const PROGRAMS: [(&str, &str); 2] = [
    ("outlast-sandbox", "outlast-confine"),
    ("outlast-init", "outlast-init"),
];

fn main() {
    let crates = Path::new(&variable("CARGO_MANIFEST_DIR")).join("..");
    for watched in [
        "init/Cargo.toml",
        "init/src",
        "media/Cargo.toml",
        "media/src",
        "sandbox/Cargo.toml",
        "sandbox/src",
        "../Cargo.lock",
    ] {
        println!("cargo:rerun-if-changed={}", crates.join(watched).display());
    }
    let target = variable("TARGET");
    let out = PathBuf::from(variable("OUT_DIR"));
    // `<target>/<profile>/build/<package>/out`
    let shared = out.ancestors().nth(4).unwrap_or(&out).join("static");
    let mut build = Command::new(variable("CARGO"));
    build
        .args(["build", "--locked", "--release", "--target", &target])
        .current_dir(&crates)
        .env("CARGO_TARGET_DIR", &shared)
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env("RUSTFLAGS", "-C target-feature=+crt-static")
        // Small and without names: they start in every sandbox.
        .env("CARGO_PROFILE_RELEASE_DEBUG", "0")
        .env("CARGO_PROFILE_RELEASE_STRIP", "symbols")
        .env("CARGO_PROFILE_RELEASE_PANIC", "abort")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1");
    for (package, _) in PROGRAMS {
        build.args(["-p", package]);
    }
    for (_, binary) in PROGRAMS {
        build.args(["--bin", binary]);
    }
    // A wrapper such as clippy's driver would check instead of build.
    for wrapper in ["RUSTC_WORKSPACE_WRAPPER", "RUSTC_WRAPPER", "CLIPPY_ARGS"] {
        build.env_remove(wrapper);
    }
    let status = build.status();
    assert!(
        status.as_ref().is_ok_and(std::process::ExitStatus::success),
        "the static programs could not be built: {status:?}"
    );
    for (_, binary) in PROGRAMS {
        let built = shared.join(&target).join("release").join(binary);
        let kept = out.join(binary);
        let copied = fs::copy(&built, &kept);
        assert!(copied.is_ok(), "{}: {copied:?}", built.display());
        let name = binary.to_uppercase().replace('-', "_");
        println!("cargo:rustc-env={name}={}", kept.display());
    }
}

/// Reads a variable that cargo always sets.
#[expect(
    clippy::expect_used,
    reason = "a build script has nobody to return an error to"
)]
fn variable(name: &str) -> String {
    env::var(name).expect("cargo sets it")
}
