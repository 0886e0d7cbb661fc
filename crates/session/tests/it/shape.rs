//! What is stored of a state is read again by whoever has the same version, and by nobody else.

use outlast_session::STATE_VERSION;

/// The definitions of the version that is written beside it.
const KNOWN: &str = include_str!("shape.txt");

/// The definitions of today.
const SOURCE: &str = include_str!("../../src/state.rs");

/// Returns what is stored: types and fields in order, without words about them.
fn definitions() -> String {
    let mut out = format!("version {STATE_VERSION}\n");
    let mut inside = false;
    for line in SOURCE.lines() {
        let begins = line.starts_with("pub struct ") || line.starts_with("pub enum ");
        inside |= begins;
        let words = line.trim();
        let said = !words.is_empty() && !words.starts_with("//");
        if inside && said {
            out.push_str(line);
            out.push('\n');
        }
        inside &= !(line == "}" || begins && line.ends_with([';', '}']));
    }
    out
}

#[test]
fn a_state_of_another_shape_has_another_version() {
    assert_eq!(
        definitions(),
        KNOWN,
        "a state of another shape is another version: raise STATE_VERSION, then write `shape.txt` anew"
    );
}
