//! Every path that the server answers, taken from its code: a new one is attacked without being named.

use std::{collections::BTreeSet, fs, path::Path};

use outlast_testkit::canary::below;

/// Rooms that have routes.
const ROOMS: [&str; 3] = ["api", "egress", "server"];

/// What a literal begins with that is a path.
const ROOTS: [&str; 4] = ["/v1/", "/outlast/v1/", "/metrics", BRAINS];

/// How the paths of brains are written in the code.
const BRAINS: &str = "{BRAINS}";

/// Where brains ask models.
pub(super) const DOOR: &str = "/outlast/v1/brains";

/// Returns them, with names in place of what differs.
pub(super) fn paths() -> BTreeSet<String> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = BTreeSet::new();
    for file in ROOMS
        .iter()
        .flat_map(|room| below(&crates.join(room).join("src")))
    {
        let Ok(text) = fs::read_to_string(file) else {
            continue;
        };
        for root in ROOTS {
            let begin = format!("\"{root}");
            let literals = text.split(&begin).skip(1);
            let paths = literals.filter_map(|rest| rest.split('"').next());
            found.extend(paths.map(|rest| format!("{root}{rest}").replace(BRAINS, DOOR)));
        }
    }
    found.retain(|path| path.bytes().all(|byte| byte.is_ascii_graphic()));
    found
}

/// Returns a path with what it names in the place of the names.
pub(super) fn filled(path: &str, ids: &[(&str, String)]) -> String {
    let part = |part: &str| {
        let Some(name) = part.strip_prefix('{') else {
            return part.to_owned();
        };
        let known = ids.iter().find(|(known, _)| name.contains(known));
        known.map_or_else(|| "x".to_owned(), |(_, id)| id.clone())
    };
    path.split('/').map(part).collect::<Vec<_>>().join("/")
}

#[test]
fn the_paths_of_all_rooms_are_found() {
    let paths = paths();
    assert!(paths.len() > 50, "{paths:#?}");
    for path in [
        "/v1/sessions/{session_id}/events/stream",
        "/v1/vaults/{vault_id}/credentials/{credential_id}",
        "/v1/messages/count_tokens",
        "/v1/skills",
        "/outlast/v1/keys/{key_id}/revoke",
        "/outlast/v1/audit",
        "/outlast/v1/brains/v1/messages",
        "/metrics",
    ] {
        assert!(paths.contains(path), "{path} is not among {paths:#?}");
    }
}
