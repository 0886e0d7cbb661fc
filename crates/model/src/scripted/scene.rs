//! Where in its script a conversation stands.

use std::borrow::Cow;

use super::Rejection;
use super::free;
use super::request::{Message, Request, Role};
use super::script::{Script, Step};

/// A conversation and what the model is to make of it.
#[derive(Debug)]
pub(super) struct Scene<'a> {
    pub(super) request: &'a Request,
    /// What the tools returned since the model last spoke.
    pub(super) results: Vec<String>,
    /// The newest text of the user.
    pub(super) user: String,
    /// The newest script and how many responses there have been since.
    script: Option<(Script, usize)>,
    /// How many responses there have been since the newest text of the user.
    answered: usize,
    /// How many responses there have been in all.
    spoken: usize,
    /// Whether the newest text came after the script.
    has_moved_on: bool,
}

/// A step, and how often it has been played before in a row.
#[derive(Debug)]
pub(super) struct Part<'a> {
    pub(super) step: Cow<'a, Step>,
    pub(super) turn: usize,
}

impl<'a> Scene<'a> {
    /// Reads the conversation.
    ///
    /// # Errors
    /// If its newest script cannot be read.
    pub(super) fn set(request: &'a Request) -> Result<Self, Rejection> {
        let messages = &request.messages;
        let mut script = None;
        let mut newest = None;
        for (index, message) in messages.iter().enumerate().rev() {
            let Some(text) = (message.role == Role::User)
                .then(|| message.text())
                .flatten()
            else {
                continue;
            };
            let found = Script::find(&text)?;
            newest.get_or_insert((index, text));
            if let Some(found) = found {
                script = Some((index, found));
                break;
            }
        }
        let (newest_at, user) = newest.unwrap_or_default();
        let has_moved_on = script.as_ref().is_none_or(|(index, _)| *index < newest_at);
        Ok(Self {
            request,
            results: results(messages),
            user,
            script: script.map(|(index, script)| (script, responses(messages, index))),
            answered: responses(messages, newest_at),
            spoken: responses(messages, 0),
            has_moved_on,
        })
    }

    /// Returns the step to play now.
    pub(super) fn part(&self) -> Part<'_> {
        if let Some((script, done)) = &self.script {
            if let Some((step, turn)) = script.step(*done) {
                return Part {
                    step: Cow::Borrowed(step),
                    turn,
                };
            }
            if !self.has_moved_on {
                return Part {
                    step: Cow::Owned(free::over()),
                    turn: 0,
                };
            }
        }
        let is_first = self.spoken == self.answered;
        let step = free::step(self, self.answered, is_first);
        Part {
            step: Cow::Owned(step),
            turn: 0,
        }
    }

    /// Tells whether the response before was one that paused, so that it may be gone on with.
    pub(super) fn is_continuation(&self) -> bool {
        self.script.as_ref().is_some_and(|(script, done)| {
            let last = done.checked_sub(1).and_then(|last| script.step(last));
            last.is_some_and(|(step, _)| step.pauses())
        })
    }
}

/// Counts the responses after the message at `index`.
fn responses(messages: &[Message], index: usize) -> usize {
    let later = messages.iter().skip(index + 1);
    later
        .filter(|message| message.role == Role::Assistant)
        .count()
}

/// Collects what tools returned since the last response.
fn results(messages: &[Message]) -> Vec<String> {
    let last = messages
        .iter()
        .rposition(|message| message.role == Role::Assistant);
    let since = last.map_or(0, |last| last + 1);
    messages
        .iter()
        .skip(since)
        .flat_map(Message::results)
        .collect()
}
