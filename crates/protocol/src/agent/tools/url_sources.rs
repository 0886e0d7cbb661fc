//! `url_sources` of `web_fetch`: which sources give addresses to fetch.

use serde::{Deserialize, Serialize};

use crate::read::At;
use crate::words::words;
use crate::{Problem, limits};

/// Which sources give addresses; null means all of that source.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct UrlSources {
    /// Results of custom tools.
    pub client_tool_results: Option<ToolFilter>,
    /// Results of the web tools.
    pub server_tool_results: Option<ToolFilter>,
    /// Text of user messages.
    pub user_input: Option<UserInput>,
}

/// Which tools' results give addresses.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ToolFilter {
    /// Those of all.
    All,
    /// Those of none.
    None,
    /// Those of the named ones.
    Only {
        /// The names.
        tools: Vec<ToolReference>,
    },
    /// Those of all but the named ones.
    Except {
        /// The names.
        tools: Vec<ToolReference>,
    },
}

/// One named tool.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(tag = "type", rename = "tool_reference")]
pub struct ToolReference {
    /// Its name, compared exactly.
    pub name: String,
}

words! {
    /// Whether user messages give addresses.
    #[serde(tag = "type")]
    pub enum UserInput {
        /// They do.
        All = "all",
        /// They do not.
        None = "none",
    }
}

words! {
    /// The kinds of filter.
    enum Kind {
        All = "all",
        None = "none",
        Only = "only",
        Except = "except",
    }
}

impl UrlSources {
    pub(super) fn parse(at: &At<'_>) -> Result<Self, Problem> {
        let mut object = at.object()?;
        let sources = Self {
            client_tool_results: object.field("client_tool_results").read(filter)?,
            server_tool_results: object.field("server_tool_results").read(filter)?,
            user_input: object.field("user_input").read(user_input)?,
        };
        object.finish()?;
        let nothing = Self {
            client_tool_results: Some(ToolFilter::None),
            server_tool_results: Some(ToolFilter::None),
            user_input: Some(UserInput::None),
        };
        if sources == nothing {
            return Err(at.refuse("must not set all three sources to `none`"));
        }
        Ok(sources)
    }

    /// Checks that each name in a list is that of a tool which has such results.
    pub(super) fn check_names(&self, tools: &At<'_>, custom: &[&str]) -> Result<(), Problem> {
        let check = |field: &str, filter: &Option<ToolFilter>, known: &[&str], what: &str| {
            let unknown = filter
                .iter()
                .flat_map(ToolFilter::tools)
                .find(|tool| !known.contains(&tool.name.as_str()));
            match unknown {
                None => Ok(()),
                Some(tool) => Err(tools.refuse(format_args!(
                    "url_sources.{field}: `{}` is not {what}",
                    crate::read::excerpt(&tool.name)
                ))),
            }
        };
        check(
            "client_tool_results",
            &self.client_tool_results,
            custom,
            "a custom tool of the same `tools` array",
        )?;
        check(
            "server_tool_results",
            &self.server_tool_results,
            &["web_search", "web_fetch"],
            "`web_search` or `web_fetch`",
        )
    }
}

impl ToolFilter {
    fn tools(&self) -> &[ToolReference] {
        match self {
            Self::All | Self::None => &[],
            Self::Only { tools } | Self::Except { tools } => tools,
        }
    }
}

fn filter(at: &At<'_>) -> Result<ToolFilter, Problem> {
    if at.raw().is_string() {
        return Ok(match at.word(UserInput::TABLE)? {
            UserInput::All => ToolFilter::All,
            UserInput::None => ToolFilter::None,
        });
    }
    let mut object = at.object()?;
    let filter = match object.field("type").required()?.word(Kind::TABLE)? {
        Kind::All => ToolFilter::All,
        Kind::None => ToolFilter::None,
        Kind::Only => ToolFilter::Only {
            tools: references(&object.field("tools").required()?)?,
        },
        Kind::Except => ToolFilter::Except {
            tools: references(&object.field("tools").required()?)?,
        },
    };
    object.finish()?;
    Ok(filter)
}

fn references(at: &At<'_>) -> Result<Vec<ToolReference>, Problem> {
    let mut references: Vec<ToolReference> = Vec::new();
    for item in at.items(1..=limits::URL_SOURCE_TOOLS)? {
        let mut object = item.object()?;
        object
            .field("type")
            .required()?
            .word(&[("tool_reference", ())])?;
        let name = object.field("name").required()?;
        let reference = ToolReference {
            name: name.text(1..=limits::TOOL_NAME)?.to_owned(),
        };
        object.finish()?;
        if references.contains(&reference) {
            return Err(name.refuse("is in the list already; names must be different"));
        }
        references.push(reference);
    }
    Ok(references)
}

fn user_input(at: &At<'_>) -> Result<UserInput, Problem> {
    if at.raw().is_string() {
        return at.word(UserInput::TABLE);
    }
    let mut object = at.object()?;
    let input = object.field("type").required()?.word(UserInput::TABLE)?;
    object.finish()?;
    Ok(input)
}
