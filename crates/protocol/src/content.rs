//! Content blocks of messages and tool results.

mod check;
mod inline;

pub(crate) use check::{message, result, system};

use outlast_media::Unfit;
use serde::{Deserialize, Serialize};

/// One block of content, in the form the wire has.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Block {
    /// Plain text.
    Text {
        /// The text itself.
        text: String,
    },
    /// A picture.
    Image {
        /// Where its bytes are.
        source: Source,
    },
    /// A document, usually a PDF.
    Document {
        /// Where its bytes or text are.
        source: Source,
        /// A title the model sees.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        title: Option<String>,
        /// What the document is about, for the model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        context: Option<String>,
    },
    /// A search hit, in tool results only.
    SearchResult {
        /// The address of the hit.
        source: String,
        /// Its title.
        title: String,
        /// Text blocks.
        content: Vec<TextBlock>,
        /// Whether the model may cite it.
        citations: Citations,
    },
}

impl Block {
    /// Makes a text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }

    /// Checks that a model takes the bytes that stand in the block, if any do.
    ///
    /// # Errors
    ///
    /// What is wrong with them.
    pub fn check(&self) -> Result<(), Unfit> {
        match self {
            Self::Image { source } | Self::Document { source, .. } => inline::check(source),
            Self::Text { .. } | Self::SearchResult { .. } => Ok(()),
        }
    }
}

impl TextBlock {
    /// Makes a text block.
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            kind: TextKind::Text,
            text: text.into(),
        }
    }
}

/// Where the bytes of an image or document are.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Source {
    /// Inline, base64.
    Base64 {
        /// The MIME type.
        media_type: String,
        /// Standard base64.
        data: String,
    },
    /// Inline plain text (documents only).
    Text {
        /// Always `text/plain`.
        media_type: String,
        /// The text.
        data: String,
    },
    /// Fetched by the model's provider.
    Url {
        /// The address.
        url: String,
    },
    /// A stored file.
    File {
        /// Its id.
        file_id: String,
    },
}

/// A block that can only be text: of agent and system messages, inside search results.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct TextBlock {
    /// Always `text`.
    #[serde(rename = "type")]
    pub kind: TextKind,
    /// The text itself.
    pub text: String,
}

/// The one kind of a [`TextBlock`].
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TextKind {
    /// Plain text.
    Text,
}

/// Whether a search hit may be cited.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Citations {
    /// True if it may.
    pub enabled: bool,
}
