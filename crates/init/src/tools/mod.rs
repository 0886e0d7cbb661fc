//! The standard tools: what a model is told of them, and what they do.

mod edit;
mod glob;
mod grep;
mod paths;
mod read;
mod walk;
pub mod worker;
mod write;

use serde_json::{Value, json};

use crate::frame::Part;
pub use paths::Roots;

/// The hidden first argument that makes this program run one tool.
pub const COMMAND: &str = "tool";

/// The most characters of a result that a model is shown at once.
pub const INLINE_CHARACTERS: usize = 100_000;

/// What a model is told of a tool.
#[derive(Clone, Copy, Debug)]
pub struct Tool {
    /// Its name.
    pub name: &'static str,
    /// What it does, for the model.
    pub description: &'static str,
    /// Builds the JSON schema of its input.
    schema: fn() -> Value,
}

impl Tool {
    /// Returns the JSON schema of its input.
    pub fn input_schema(&self) -> Value {
        (self.schema)()
    }

    /// Returns whether it only reads; such calls may run beside each other in any order.
    pub fn reads_only(&self) -> bool {
        matches!(self.name, "read" | "glob" | "grep")
    }
}

/// The tools that every sandbox has, in the order in which they are offered.
pub const STANDARD: [Tool; 6] = [
    Tool {
        name: "bash",
        description: "Runs a command in a persistent bash shell that starts in /workspace. \
            Working directory, variables and functions persist between calls. Standard input is \
            empty; standard output and error come back together, at most the last 100 KiB. A \
            command may run 120 seconds unless timeout_ms says otherwise; after a timeout the \
            shell has to be restarted with restart: true.",
        schema: || {
            object(
                &json!({
                    "command": {"type": "string", "description": "The command to run. Required unless restart is true."},
                    "restart": {"type": "boolean", "description": "Ends the shell and everything it started, and starts a new one."},
                    "timeout_ms": {"type": "integer", "description": "How long the command may run, in milliseconds; 120000 if it is left out or not above 0. The server may allow less, and the result says so."},
                }),
                &[],
            )
        },
    },
    Tool {
        name: "read",
        description: "Reads a file: text as it is, up to 256 KiB at once; images (png, jpg, gif, \
            webp) and PDF documents as such.",
        schema: || {
            object(
                &json!({
                    "file_path": {"type": "string", "description": "The file, absolute or relative to /workspace."},
                    "view_range": {
                        "type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2,
                        "description": "First and last line to read, counted from 1; a last line of 0 or less means to the end.",
                    },
                }),
                &["file_path"],
            )
        },
    },
    Tool {
        name: "write",
        description: "Writes a file, replacing what it held; missing folders are made.",
        schema: || {
            object(
                &json!({
                    "file_path": {"type": "string", "description": "The file, absolute or relative to /workspace."},
                    "content": {"type": "string", "description": "The whole new content."},
                }),
                &["file_path", "content"],
            )
        },
    },
    Tool {
        name: "edit",
        description: "Replaces a string in a text file. old_string must occur exactly once unless \
            replace_all is true.",
        schema: || {
            object(
                &json!({
                    "file_path": {"type": "string", "description": "The file, absolute or relative to /workspace."},
                    "old_string": {"type": "string", "description": "What to replace, exactly as it stands in the file."},
                    "new_string": {"type": "string", "description": "What to put in its place."},
                    "replace_all": {"type": "boolean", "description": "Replaces every occurrence."},
                }),
                &["file_path", "old_string", "new_string"],
            )
        },
    },
    Tool {
        name: "glob",
        description: "Lists paths that match a pattern such as src/**/*.rs, newest first, at most 200.",
        schema: || {
            object(
                &json!({
                    "pattern": {"type": "string", "description": "A relative pattern; ** stands for any number of folders."},
                    "path": {"type": "string", "description": "The folder to search; /workspace if left out."},
                }),
                &["pattern"],
            )
        },
    },
    Tool {
        name: "grep",
        description: "Searches files for a regular expression and lists matching lines as \
            path:line:text. Leaves out .git, node_modules, links and binary files.",
        schema: || {
            object(
                &json!({
                    "pattern": {"type": "string", "description": "The regular expression."},
                    "path": {"type": "string", "description": "The file or folder to search; /workspace if left out."},
                }),
                &["pattern"],
            )
        },
    },
];

/// Builds the schema of an object.
fn object(properties: &Value, required: &[&str]) -> Value {
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

/// Returns a standard tool by name.
pub fn find(name: &str) -> Option<&'static Tool> {
    STANDARD.iter().find(|tool| tool.name == name)
}

/// Runs a file tool.
///
/// # Errors
///
/// The text that the model reads, beginning with the tool's name.
pub fn run(name: &str, input: &str, roots: &Roots) -> Result<Vec<Part>, String> {
    let text = match name {
        "read" => return read::run(input, roots).map(|part| vec![part]),
        "write" => write::run(input, roots)?,
        "edit" => edit::run(input, roots)?,
        "glob" => glob::run(input, roots)?,
        "grep" => grep::run(input, roots)?,
        other => return Err(unknown(other)),
    };
    Ok(vec![Part::Text(text)])
}

/// Says that there is no such tool.
pub fn unknown(name: &str) -> String {
    let known: Vec<&str> = STANDARD.iter().map(|tool| tool.name).collect();
    format!(
        "unknown tool `{name}`; this sandbox has {}",
        known.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_require_what_the_reference_requires() {
        let required: Vec<String> = STANDARD
            .iter()
            .map(|tool| format!("{} {}", tool.name, tool.input_schema()["required"]))
            .collect();
        assert_eq!(
            required,
            [
                r"bash []",
                r#"read ["file_path"]"#,
                r#"write ["file_path","content"]"#,
                r#"edit ["file_path","old_string","new_string"]"#,
                r#"glob ["pattern"]"#,
                r#"grep ["pattern"]"#,
            ]
        );
    }
}
