//! The stage between the server and a confined program; see [`outlast_sandbox::confine`].

#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    outlast_sandbox::confine::run()
}
