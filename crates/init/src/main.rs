//! PID 1 of a sandbox, and what it starts; see [`outlast_init`].

#![forbid(unsafe_code)]

use std::process::ExitCode;

use outlast_init::{install, launch, pid1, tools};

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    match args.next().as_deref() {
        None => pid1::run(),
        Some(launch::COMMAND) => launch::run(args),
        Some(tools::COMMAND) => tools::worker::run(),
        Some(install::COMMAND) => install::run(),
        Some(install::STEP) => install::step(args),
        Some(_) => ExitCode::FAILURE,
    }
}
