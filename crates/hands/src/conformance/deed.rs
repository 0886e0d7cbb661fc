//! What the suite has a hand do with files, and with its way out.

use outlast_protocol::CallResult;
use serde::{Deserialize, Serialize};

use crate::outlet::ADDRESS;

/// One thing to do inside; paths are absolute.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum Deed {
    /// Writes a file, and makes the folders above it.
    Write {
        /// Where.
        path: String,
        /// All that is in it then.
        bytes: Vec<u8>,
        /// Its permissions.
        mode: u32,
    },
    /// Writes a file of the numbers from 1 on, one a line, and makes the folders above it.
    Lines {
        /// Where.
        path: String,
        /// The last number.
        count: u32,
    },
    /// Makes a file that is all hole but for its last bytes, [`Deed::END`].
    Hole {
        /// Where, in a folder that is there.
        path: String,
        /// Bytes before those.
        bytes: u64,
    },
    /// Makes a symbolic link, and the folders above it.
    Link {
        /// Where.
        path: String,
        /// What it holds.
        target: String,
    },
    /// Gives a file a second name, in a folder that is there.
    Twin {
        /// The name.
        path: String,
        /// The one that it has.
        of: String,
    },
    /// Gives a file another name in its folder.
    Rename {
        /// The one that it has.
        path: String,
        /// Of any bytes.
        name: Vec<u8>,
    },
    /// Removes a file, a link or a folder with all that is in it.
    Remove {
        /// What.
        path: String,
    },
    /// Says what is there, in the words of [`Deed::file`] or as `absent`, `folder` or
    /// `link TARGET`.
    Look {
        /// Where.
        path: String,
    },
    /// Says a line to whoever serves the way out, and what comes back.
    Say {
        /// Without what a shell reads as its own.
        word: String,
    },
    /// Says what a variable of its environment holds, or `absent`.
    Variable {
        /// Which.
        name: String,
    },
}

impl Deed {
    /// What a file ends in that is all hole before.
    pub const END: &'static [u8] = b"end";

    /// Says what a file is, in one line: its permissions, its size and the SHA-256 of its bytes.
    pub fn file(mode: u32, bytes: &[u8]) -> String {
        use aws_lc_rs::digest::{SHA256, digest};
        let digest = digest(&SHA256, bytes);
        let hex: String = digest.as_ref().iter().map(|b| format!("{b:02x}")).collect();
        format!("file {mode:o} {} {hex}", bytes.len())
    }

    /// Returns the bytes of [`Deed::Lines`].
    pub fn lines(count: u32) -> Vec<u8> {
        let lines: String = (1..=count).map(|number| format!("{number}\n")).collect();
        lines.into_bytes()
    }

    /// Makes the call of a driver that has a shell.
    pub fn in_bash(&self) -> (String, String) {
        let command = match self {
            Self::Write { path, bytes, mode } => {
                let (octal, at) = (octal(bytes), quoted(path));
                format!(
                    "{} && printf '{octal}' > {at} && chmod {mode:o} {at}",
                    above(path)
                )
            }
            Self::Lines { path, count } => {
                format!("{} && seq {count} > {}", above(path), quoted(path))
            }
            Self::Hole { path, bytes } => {
                let at = quoted(path);
                format!("truncate -s {bytes} {at} && printf end >> {at}")
            }
            Self::Link { path, target } => {
                format!(
                    "{} && ln -s {} {}",
                    above(path),
                    quoted(target),
                    quoted(path)
                )
            }
            Self::Twin { path, of } => format!("ln {} {}", quoted(of), quoted(path)),
            Self::Rename { path, name } => {
                format!(
                    "mv -T {} {}/$'{}'",
                    quoted(path),
                    quoted(folder(path)),
                    octal(name)
                )
            }
            Self::Remove { path } => format!("rm -r {}", quoted(path)),
            Self::Look { path } => {
                let at = quoted(path);
                format!(
                    "if [ -L {at} ]; then echo \"link $(readlink {at})\"; elif [ -d {at} ]; then echo folder; \
                     elif [ -f {at} ]; then echo file $(stat -c '%a %s' {at}) $(sha256sum < {at} | cut -d ' ' -f 1); \
                     else echo absent; fi"
                )
            }
            Self::Say { word } => {
                let (host, port) = (ADDRESS.ip(), ADDRESS.port());
                format!(
                    "(exec 9<>/dev/tcp/{host}/{port} && echo {} >&9 && head -n 1 <&9)",
                    quoted(word)
                )
            }
            Self::Variable { name } => format!("printenv {} || echo absent", quoted(name)),
        };
        let input = serde_json::json!({"command": command});
        ("bash".to_owned(), input.to_string())
    }

    /// Makes the call of a driver that only pretends.
    pub fn pretended(&self) -> (String, String) {
        let input = serde_json::to_string(self).unwrap_or_default();
        ("deed".to_owned(), input)
    }
}

/// Writes a text so that a shell takes it as it is.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Writes bytes as a shell and its `printf` read them.
fn octal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("\\{byte:03o}")).collect()
}

/// Makes the folders above a path.
fn above(path: &str) -> String {
    format!("mkdir -p {}", quoted(folder(path)))
}

fn folder(path: &str) -> &str {
    path.rsplit_once('/').map_or("/", |(folder, _)| folder)
}

/// Returns the text of a result, without what a shell adds.
pub(super) fn text(result: &CallResult) -> String {
    use outlast_protocol::content::Block;
    let texts = result.content.iter().map(|block| match block {
        Block::Text { text } => text.as_str(),
        Block::Image { .. } | Block::Document { .. } | Block::SearchResult { .. } => "(no text)",
    });
    texts.collect::<Vec<_>>().join("\n").trim_end().to_owned()
}
