//! Words that a model reads of a bound, whoever keeps it: a control group outside, or a watch inside.

/// Says that a sandbox used more memory than it may, and what came of it.
pub fn memory(limit: u64, killed: u64) -> String {
    let killed = if killed == 1 {
        "1 process was killed".to_owned()
    } else {
        format!("{killed} processes were killed")
    };
    format!(
        "[the sandbox's memory limit of {} was reached: {killed}]",
        size(limit)
    )
}

/// Says that a sandbox wanted more processes than it may have.
pub fn processes(limit: u32) -> String {
    format!("[the sandbox's limit of {limit} processes was reached]")
}

/// Writes a size as a person would.
pub fn size(bytes: u64) -> String {
    match bytes {
        bytes if bytes >= 1 << 30 && bytes.trailing_zeros() >= 30 => {
            format!("{} GiB", bytes >> 30)
        }
        bytes if bytes >= 1 << 20 => format!("{} MiB", bytes >> 20),
        bytes => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_counts_are_written_for_people() {
        for (limit, killed, words) in [
            (
                1 << 30,
                1,
                "limit of 1 GiB was reached: 1 process was killed]",
            ),
            (
                512 << 20,
                2,
                "limit of 512 MiB was reached: 2 processes were killed]",
            ),
            (
                1_000,
                1,
                "limit of 1000 bytes was reached: 1 process was killed]",
            ),
        ] {
            let told = memory(limit, killed);
            assert!(told.ends_with(words), "{told}");
        }
    }
}
