//! Permission policies, the built-in tools, and what a call needs before it may run.

use serde::{Deserialize, Serialize};

use crate::Problem;
use crate::read::{At, Slot};

/// When a call of a built-in tool may run.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Policy {
    /// At once.
    #[default]
    AlwaysAllow,
    /// When the client says so.
    AlwaysAsk,
    /// As a judgement of each call says.
    Auto,
}

impl Policy {
    pub(super) fn parse(slot: Slot<'_>) -> Result<Option<Self>, Problem> {
        slot.optional().map(|at| Self::parse_at(&at)).transpose()
    }

    fn parse_at(at: &At<'_>) -> Result<Self, Problem> {
        const POLICIES: &[(&str, Policy)] = &[
            ("always_allow", Policy::AlwaysAllow),
            ("always_ask", Policy::AlwaysAsk),
            ("auto", Policy::Auto),
        ];
        let mut object = at.object()?;
        let policy = object.field("type").required()?.word(POLICIES)?;
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

/// A tool of the agent toolset.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Builtin {
    /// A persistent shell.
    Bash,
    /// Reads a file.
    Read,
    /// Writes a file.
    Write,
    /// Replaces text in a file.
    Edit,
    /// Finds files by name.
    Glob,
    /// Finds lines by pattern.
    Grep,
    /// Fetches a page.
    WebFetch,
    /// Searches the web.
    WebSearch,
}

impl Builtin {
    /// Every tool, in the order it is offered.
    pub const ALL: [Self; 8] = [
        Self::Bash,
        Self::Read,
        Self::Write,
        Self::Edit,
        Self::Glob,
        Self::Grep,
        Self::WebFetch,
        Self::WebSearch,
    ];

    /// The words of the wire.
    pub const TABLE: &'static [(&'static str, Self)] = &[
        ("bash", Self::Bash),
        ("read", Self::Read),
        ("write", Self::Write),
        ("edit", Self::Edit),
        ("glob", Self::Glob),
        ("grep", Self::Grep),
        ("web_fetch", Self::WebFetch),
        ("web_search", Self::WebSearch),
    ];

    /// Returns the name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Bash => "bash",
            Self::Read => "read",
            Self::Write => "write",
            Self::Edit => "edit",
            Self::Glob => "glob",
            Self::Grep => "grep",
            Self::WebFetch => "web_fetch",
            Self::WebSearch => "web_search",
        }
    }

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
