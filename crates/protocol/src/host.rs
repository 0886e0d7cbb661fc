//! The grammar of host names.

/// Checks one label: letters, digits and inner hyphens.
pub(crate) fn is_label(label: &str) -> bool {
    (1..=63).contains(&label.len())
        && !label.starts_with('-')
        && !label.ends_with('-')
        && label
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// Checks a whole name: one label or several; an IPv4 address passes too.
pub(crate) fn is_name(name: &str) -> bool {
    name.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_labels_with_dots() {
        for good in [
            "a",
            "example.com",
            "xn--bcher-kva.example",
            "10.0.0.1",
            "a-b.c1",
        ] {
            assert!(is_name(good), "{good}");
        }
        let long = "a".repeat(64);
        for bad in [
            "",
            ".",
            "a.",
            ".a",
            "a..b",
            "-a",
            "a-",
            "a_b",
            "a b",
            "bücher.de",
            &long,
        ] {
            assert!(!is_name(bad), "{bad}");
        }
    }
}
