//! `write`: the whole of a file.

use std::io::Write as _;

use super::paths::{Roots, Want, resolve};
use crate::input::Fields;

/// Runs the tool.
pub(super) fn run(input: &str, roots: &Roots) -> Result<String, String> {
    let mut fields = Fields::parse("write", input)?;
    let given = fields.path("file_path")?;
    let content = fields.required("content")?;
    let place = resolve("write", &given, Want::Write, roots)?;
    place.make_parents()?;
    let mut file = place.open_to_write()?;
    file.set_len(0)
        .and_then(|()| file.write_all(content.as_bytes()))
        .map_err(|error| place.says(&error))?;
    Ok(format!("wrote {} bytes to {given}", content.len()))
}
