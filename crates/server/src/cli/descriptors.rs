//! Open files: a server has a socket for every client and a few files for every sandbox.

use rustix::process::{Resource, getrlimit, setrlimit};

use super::failure::{Exit, Failure};

/// Fewer are not enough for a server that is of use.
const LEAST: u64 = 256;

/// Raises what this process may open to what it is allowed to raise.
///
/// # Errors
///
/// If even that is too little: a server that starts all the same would fail its clients one by one.
pub(super) fn raise() -> Result<(), Failure> {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // What cannot be raised is judged as it is.
    let _ = setrlimit(Resource::Nofile, limit);
    enough(getrlimit(Resource::Nofile).current)
}

/// Judges a limit; `None` is none.
fn enough(files: Option<u64>) -> Result<(), Failure> {
    match files {
        Some(files) if files < LEAST => {
            let words =
                format!("this process may open {files} files, and at least {LEAST} are needed");
            Err(Failure::say(Exit::Failed, words).hint("raise the limit: ulimit -n 65536"))
        }
        Some(_) | None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_few_files_are_refused_with_the_command_that_mends_it() {
        assert!(enough(None).is_ok() && enough(Some(LEAST)).is_ok());
        let failure = enough(Some(LEAST - 1)).unwrap_err();
        assert!(failure.error.to_string().contains("255"));
        assert!(failure.hint.unwrap().contains("ulimit"));
    }
}
