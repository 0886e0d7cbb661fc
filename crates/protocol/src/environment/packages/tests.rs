use proptest::prelude::*;

use super::syntax::name;
use super::*;

const GOOD: &[(Manager, &str, &str)] = &[
    (Manager::Apt, "jq", "jq"),
    (Manager::Apt, "g++", "g++"),
    (Manager::Apt, "libc6:amd64", "libc6"),
    (Manager::Apt, "jq=1.6-2.1+deb12u1", "jq"),
    (Manager::Apt, "vim=2:9.0.1378-2~x", "vim"),
    (Manager::Cargo, "ripgrep", "ripgrep"),
    (Manager::Cargo, "Cargo-Edit@0.12.2+x", "cargo_edit"),
    (Manager::Gem, "rake", "rake"),
    (Manager::Gem, "rake:13.0.6", "rake"),
    (Manager::Gem, "rake:~>13.0", "rake"),
    (Manager::Go, "example.com/cmd/tool", "example.com/cmd/tool"),
    (
        Manager::Go,
        "example.com/x/tool/v2@v2.0.0-rc.1",
        "example.com/x/tool/v2",
    ),
    (Manager::Npm, "left-pad", "left-pad"),
    (Manager::Npm, "left-pad@1.3.0", "left-pad"),
    (Manager::Npm, "left-pad@^1", "left-pad"),
    (Manager::Npm, "left-pad@next", "left-pad"),
    (Manager::Npm, "@types/node", "@types/node"),
    (Manager::Npm, "@types/node@>=20.1", "@types/node"),
    (Manager::Npm, "x@*", "x"),
    (Manager::Pip, "numpy", "numpy"),
    (Manager::Pip, "numpy==1.2", "numpy"),
    (Manager::Pip, "Zope.Interface>=5,<6", "zope-interface"),
    (Manager::Pip, "uvicorn[standard,x_y]==0.1.*", "uvicorn"),
    (Manager::Pip, "a~=1!2.0+local", "a"),
];

/// No manager takes any of these.
const BAD: &[&str] = &[
    "-r",
    "--index-url=x",
    "a b",
    " a",
    "a\n",
    "a;b",
    "$(a)",
    "`a`",
    "a|b",
    "./a",
    "../a",
    "/a",
    "~/a",
    ".",
    "a/../b",
    "https://example.com/a",
    "git+https://example.com/a",
    "a@file:b",
    "a@npm:b@1",
    "a @ https://example.com/a",
    "a'b",
    "a\"b",
    "a\\b",
    "\u{e4}",
    "a=",
    "a@",
    "a:",
    "a=-x",
    "a@-x",
    "a:-x",
    "@",
    "@a",
    "@/a",
    "@a/",
    "@-a/b",
    "a[",
    "a[]",
    "a[-x]",
    "a==",
    "a==1,",
    "a<",
    "a.tar.gz@",
];

#[test]
fn each_manager_has_its_syntax() {
    for (manager, text, wanted) in GOOD {
        assert_eq!(name(*manager, text).as_deref(), Some(*wanted), "{text}");
    }
    for (_, manager) in Manager::TABLE {
        for text in BAD {
            assert_eq!(name(*manager, text), None, "{} {text:?}", manager.as_str());
        }
    }
    for (manager, text) in [
        (Manager::Apt, "jq-"),
        (Manager::Apt, "jq/stable"),
        (Manager::Apt, "JQ"),
        (Manager::Apt, "a"),
        (Manager::Apt, "jq*"),
        (Manager::Cargo, "7zip"),
        (Manager::Cargo, "a.b"),
        (Manager::Gem, "rake.gem"),
        (Manager::Go, "tool"),
        (Manager::Go, "example.com"),
        (Manager::Go, "example.com/-x"),
        (Manager::Go, "example.com/a//b"),
        (Manager::Gem, "file:a"),
        (Manager::Npm, "file:a"),
        (Manager::Npm, "npm:a"),
        (Manager::Npm, "a.tgz"),
        (Manager::Npm, "a@1.tar.gz"),
        (Manager::Npm, "a/b"),
        (Manager::Npm, "a@||"),
        (Manager::Pip, "a-1-py3-none-any.whl"),
        (Manager::Pip, "a.zip"),
        (Manager::Pip, "a;python_version<'3'"),
        (Manager::Pip, "a-"),
    ] {
        assert_eq!(name(manager, text), None, "{text}");
    }
}

#[test]
fn managers_come_in_the_order_of_installation() {
    let packages = Packages {
        pip: vec!["a".to_owned()],
        apt: vec!["jq".to_owned()],
        ..Packages::default()
    };
    let managers: Vec<_> = packages.managers().collect();
    assert_eq!(managers, [Manager::Apt, Manager::Pip]);
    assert!(!packages.is_empty() && Packages::default().is_empty());
}

proptest! {
    #[test]
    fn what_passes_is_one_harmless_argument(text in "[-@a-zA-Z0-9._~/:=<>!\\[\\],+*^ ;$]{1,12}") {
        for (_, manager) in Manager::TABLE {
            if name(*manager, &text).is_some() {
                prop_assert!(!text.starts_with(['-', '.', '/', '~']), "{}", text);
                prop_assert!(!text.contains([' ', ';', '$']), "{}", text);
                prop_assert!(!text.contains("..") || *manager != Manager::Go, "{}", text);
                prop_assert!(!text.contains("//"), "{}", text);
            }
        }
    }
}
