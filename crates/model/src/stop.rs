//! Why a response ended.

use std::fmt;

/// The `stop_reason` of a response.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum StopReason {
    /// The model said what it had to say.
    EndTurn,
    /// `max_tokens` ran out, perhaps in the middle of a tool call.
    MaxTokens,
    /// One of the request's stop sequences came up.
    StopSequence,
    /// The model waits for tool results.
    ToolUse,
    /// A server tool paused; the content is to be sent back as it is to go on.
    PauseTurn,
    /// The model or its provider declined; `stop_details` may say why.
    Refusal,
    /// The context window is full.
    ContextWindowExceeded,
    /// The provider compacted the context and paused.
    Compaction,
    /// A reason this version does not know.
    Other(String),
}

impl StopReason {
    /// Reads the wire's word; an unknown one is kept.
    pub fn parse(word: &str) -> Self {
        match word {
            "end_turn" => Self::EndTurn,
            "max_tokens" => Self::MaxTokens,
            "stop_sequence" => Self::StopSequence,
            "tool_use" => Self::ToolUse,
            "pause_turn" => Self::PauseTurn,
            "refusal" => Self::Refusal,
            "model_context_window_exceeded" => Self::ContextWindowExceeded,
            "compaction" => Self::Compaction,
            other => Self::Other(other.to_owned()),
        }
    }

    /// Returns the wire's word.
    pub fn as_str(&self) -> &str {
        match self {
            Self::EndTurn => "end_turn",
            Self::MaxTokens => "max_tokens",
            Self::StopSequence => "stop_sequence",
            Self::ToolUse => "tool_use",
            Self::PauseTurn => "pause_turn",
            Self::Refusal => "refusal",
            Self::ContextWindowExceeded => "model_context_window_exceeded",
            Self::Compaction => "compaction",
            Self::Other(word) => word,
        }
    }
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_survives_the_round_trip() {
        for word in [
            "end_turn",
            "max_tokens",
            "stop_sequence",
            "tool_use",
            "pause_turn",
            "refusal",
            "model_context_window_exceeded",
            "compaction",
            "something_new",
        ] {
            assert_eq!(StopReason::parse(word).as_str(), word);
        }
        assert_eq!(StopReason::parse("x"), StopReason::Other("x".to_owned()));
    }
}
