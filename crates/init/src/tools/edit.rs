//! `edit`: one string for another.

use std::io::{Read as _, Write as _};

use super::{
    paths::{Roots, Want, resolve},
    read::TEXT_BYTES,
};
use crate::input::Fields;

/// Runs the tool.
pub(super) fn run(input: &str, roots: &Roots) -> Result<String, String> {
    let mut fields = Fields::parse("edit", input)?;
    let given = fields.path("file_path")?;
    let old = fields.required("old_string")?;
    let new = fields.required("new_string")?;
    let all = fields.flag("replace_all")?;
    if old.is_empty() {
        return Err("edit: old_string must not be empty".to_owned());
    }
    let place = resolve("edit", &given, Want::Write, roots)?;
    let (file, size) = place.open_regular()?;
    if size > TEXT_BYTES {
        return Err(format!(
            "edit: {given} is {size} bytes, exceeds {TEXT_BYTES}-byte limit; \
             use bash for larger files"
        ));
    }
    let mut bytes = Vec::new();
    file.take(TEXT_BYTES)
        .read_to_end(&mut bytes)
        .map_err(|error| place.says(&error))?;
    let text = String::from_utf8(bytes)
        .map_err(|_| format!("edit: {given}: not valid UTF-8 text (cannot edit binary files)"))?;
    let count = text.matches(&old).count();
    let edited = match (count, all) {
        (0, _) => return Err(format!("edit: old_string not found in {given}")),
        (1, _) | (_, true) => text.replace(&old, &new),
        (_, false) => {
            return Err(format!(
                "edit: old_string appears {count} times in {given} (must be unique unless \
                 replace_all is true)"
            ));
        }
    };
    let mut file = place.open_to_write()?;
    file.set_len(0)
        .and_then(|()| file.write_all(edited.as_bytes()))
        .map_err(|error| place.says(&error))?;
    Ok(format!("edited {given} ({count} replacement(s))"))
}
