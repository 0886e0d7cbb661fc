//! Arrows between rooms point down, and some must never exist.

use std::collections::{BTreeMap, BTreeSet};

use cargo_metadata::{DependencyKind, MetadataCommand};

/// What each room may use beside what those rooms may use themselves.
const MAY_USE: &[(&str, &[&str])] = &[
    ("media", &[]),
    ("protocol", &["media"]),
    ("session", &["protocol"]),
    ("blobs", &["protocol"]),
    ("store", &["session", "blobs"]),
    ("model", &["protocol"]),
    ("vault", &["store", "reach", "scrub"]),
    ("reach", &[]),
    ("scrub", &["protocol"]),
    ("sandbox", &[]),
    ("init", &["media"]),
    ("hands", &["protocol", "blobs", "sandbox", "init"]),
    ("kernel", &["store", "hands", "scrub"]),
    ("harness", &["kernel", "model", "sandbox"]),
    ("egress", &["kernel", "model", "reach", "vault"]),
    ("api", &["kernel", "vault"]),
    ("server", &["api", "egress", "harness"]),
    ("testkit", &["api", "egress", "harness"]),
    ("bench", &["protocol"]),
];

/// Arrows whose absence is the design, even where a detour would allow them.
const NEVER: &[(&str, &str)] = &[
    ("api", "harness"),
    ("api", "hands"),
    ("harness", "store"),
    ("harness", "hands"),
    ("hands", "store"),
    ("hands", "vault"),
    ("harness", "vault"),
    ("kernel", "vault"),
    ("bench", "session"),
];

/// Returns the rooms that `room` may use, by any number of arrows.
fn allowed(room: &str) -> BTreeSet<&'static str> {
    let mut found = BTreeSet::new();
    let mut open = vec![room.to_owned()];
    while let Some(next) = open.pop() {
        let rooms = MAY_USE
            .iter()
            .find(|(name, _)| **name == next)
            .map(|(_, rooms)| *rooms);
        for room in rooms.unwrap_or_default() {
            if found.insert(*room) {
                open.push((*room).to_owned());
            }
        }
    }
    found
}

/// Returns the direct dependencies of every room on other rooms, development aside.
fn arrows() -> BTreeMap<String, BTreeSet<String>> {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml");
    let metadata = MetadataCommand::new()
        .manifest_path(manifest)
        .no_deps()
        .exec()
        .unwrap();
    let room = |name: &str| name.strip_prefix("outlast-").map(str::to_owned);
    let uses = |package: &cargo_metadata::Package| {
        let real = package
            .dependencies
            .iter()
            .filter(|to| to.kind != DependencyKind::Development);
        real.filter_map(|to| room(&to.name)).collect()
    };
    let packages = metadata.packages.iter();
    packages
        .filter_map(|package| Some((room(&package.name)?, uses(package))))
        .collect()
}

#[test]
fn rooms_use_only_what_the_design_allows() {
    let mut wrong = Vec::new();
    for (room, uses) in arrows() {
        assert!(
            MAY_USE.iter().any(|(name, _)| *name == room),
            "room `{room}` is not in the plan"
        );
        let allowed = allowed(&room);
        for used in uses {
            let never = NEVER.contains(&(room.as_str(), used.as_str()));
            if never || !allowed.contains(used.as_str()) {
                wrong.push(format!("{room} -> {used}"));
            }
        }
    }
    assert!(wrong.is_empty(), "arrows that must not exist: {wrong:?}");
}

#[test]
fn nothing_but_the_binary_uses_the_server() {
    let users: Vec<_> = arrows()
        .into_iter()
        .filter(|(_, uses)| uses.contains("server"))
        .collect();
    assert!(users.is_empty(), "{users:?}");
}
