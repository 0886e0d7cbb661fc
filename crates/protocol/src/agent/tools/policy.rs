//! Permission policies, the built-in tools, and what a call needs before it may run.

use crate::Problem;
use crate::read::At;
use crate::words::words;

words! {
    /// When a call of a built-in tool may run.
    #[derive(Default)]
    #[serde(tag = "type")]
    pub enum Policy {
        /// At once.
        #[default]
        AlwaysAllow = "always_allow",
        /// When the client says so.
        AlwaysAsk = "always_ask",
        /// As a judgement of each call says.
        Auto = "auto",
    }
}

impl Policy {
    pub(super) fn parse(at: &At<'_>) -> Result<Self, Problem> {
        let mut object = at.object()?;
        let policy = object.field("type").required()?.word(Self::TABLE)?;
        object.finish()?;
        Ok(policy)
    }
}

/// What a call needs before it may run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Gate {
    /// The client runs it and answers.
    Custom,
    /// A hand runs it, if the policy lets it.
    Builtin {
        /// The policy.
        policy: Policy,
    },
    /// The tool is switched off for this agent.
    Disabled,
    /// The agent has no such tool.
    Unknown,
}

words! {
    /// A tool of the agent toolset, in the order it is offered.
    pub enum Builtin {
        /// A persistent shell.
        Bash = "bash",
        /// Reads a file.
        Read = "read",
        /// Writes a file.
        Write = "write",
        /// Replaces text in a file.
        Edit = "edit",
        /// Finds files by name.
        Glob = "glob",
        /// Finds lines by pattern.
        Grep = "grep",
        /// Fetches a page.
        WebFetch = "web_fetch",
        /// Searches the web.
        WebSearch = "web_search",
    }
}

impl Builtin {
    /// Reads a name; `None` if it is not that of a built-in tool.
    pub fn parse(name: &str) -> Option<Self> {
        Self::TABLE
            .iter()
            .find_map(|(word, tool)| (*word == name).then_some(*tool))
    }

    /// Tells whether it works on the web and not in a sandbox.
    pub fn is_web(self) -> bool {
        match self {
            Self::WebFetch | Self::WebSearch => true,
            Self::Bash | Self::Read | Self::Write | Self::Edit | Self::Glob | Self::Grep => false,
        }
    }
}
