//! What comes out of a hand on its way into the log or a file: without the session's own secrets.
//!
//! A second line, never the guarantee: no secret is in a hand. What gets into a result did so because
//! somebody outside echoed it.

mod reader;

use std::{fmt::Debug, sync::Arc};

use async_trait::async_trait;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use outlast_blobs::Reader;
use outlast_protocol::{
    CallResult,
    content::{Block, Source},
    id::{ResourceId, SessionId, VaultId},
};
use outlast_scrub::Scrubber;
use outlast_session::State;
use outlast_store::ReadError;

use crate::kernel::Inner;

/// Knows the secrets of sessions.
#[async_trait]
pub trait Sweep: Debug + Send + Sync {
    /// Returns what finds the secrets that a session with these vaults and repositories may use, as they
    /// are now.
    ///
    /// Secrets that nobody can open are not looked for, since nobody is given them either.
    ///
    /// # Errors
    ///
    /// If the store cannot be read; it is asked again.
    async fn of(
        &self,
        session: SessionId,
        vaults: &[VaultId],
        repositories: &[ResourceId],
    ) -> Result<Finder, ReadError>;
}

/// What finds the secrets of one session.
#[derive(Clone, Debug)]
pub enum Finder {
    /// In this process, which has them then.
    Here(Scrubber),
    /// In another, which is shown what is to be looked through and shows no secret.
    Apart(Arc<dyn Apart>),
}

/// Looks through what it is shown, in another process.
#[async_trait]
pub trait Apart: Debug + Send + Sync {
    /// Returns a result without secrets.
    ///
    /// # Errors
    ///
    /// If nobody can look through it now; it is asked again.
    async fn result(&self, result: CallResult) -> Result<CallResult, ReadError>;

    /// Returns texts without secrets, one for each.
    ///
    /// # Errors
    ///
    /// As [`result`](Self::result).
    async fn texts(&self, texts: Vec<String>) -> Result<Vec<String>, ReadError>;

    /// Reads bytes without secrets; they cannot be read where nobody can look through them.
    fn reader(&self, content: Reader) -> Reader;
}

impl Inner {
    /// Returns what finds the secrets of a session, by its id.
    pub(crate) async fn finder_of(&self, session: SessionId) -> Result<Finder, ReadError> {
        if self.sweep.is_none() {
            return Ok(Finder::Here(Scrubber::new([])));
        }
        self.finder(&*self.store.head(session).await?).await
    }

    /// Puts marks in the place of a session's secrets in a result, and waits while nobody can.
    pub(crate) async fn swept(
        &self,
        state: &State,
        result: CallResult,
    ) -> Result<CallResult, ReadError> {
        match self.finder(state).await? {
            Finder::Here(scrubber) => Ok(self::result(&scrubber, result)),
            Finder::Apart(apart) => self.patiently(|| apart.result(result.clone())).await,
        }
    }

    /// Returns what finds the secrets of a session, and waits while the store is away.
    async fn finder(&self, state: &State) -> Result<Finder, ReadError> {
        let none = || Finder::Here(Scrubber::new([]));
        let (Some(sweep), Some(config)) = (&self.sweep, state.config.as_deref()) else {
            return Ok(none());
        };
        let repositories = config.repositories.iter().map(|known| known.id);
        let repositories: Vec<_> = repositories.collect();
        if config.vault_ids.is_empty() && repositories.is_empty() {
            return Ok(none());
        }
        self.patiently(|| sweep.of(state.id, &config.vault_ids, &repositories))
            .await
    }
}

/// Puts marks in the place of secrets in all that a model reads of a result.
pub fn result(scrubber: &Scrubber, mut result: CallResult) -> CallResult {
    if !scrubber.is_idle() {
        result
            .content
            .iter_mut()
            .for_each(|one| block(scrubber, one));
    }
    result
}

/// Puts marks in the place of secrets in each of some texts.
pub fn texts(scrubber: &Scrubber, mut texts: Vec<String>) -> Vec<String> {
    texts.iter_mut().for_each(|words| text(scrubber, words));
    texts
}

/// Reads bytes without secrets, wherever the pieces are cut.
pub fn reader(scrubber: &Scrubber, content: Reader) -> Reader {
    if scrubber.is_idle() {
        return content;
    }
    Box::pin(reader::Swept::new(scrubber.stream(), content))
}

impl Finder {
    /// Returns texts without secrets, wherever they are looked for.
    pub(crate) async fn texts(&self, texts: Vec<String>) -> Result<Vec<String>, ReadError> {
        match self {
            Self::Here(scrubber) => Ok(self::texts(scrubber, texts)),
            Self::Apart(apart) => apart.texts(texts).await,
        }
    }

    /// Reads bytes without secrets, wherever they are looked for.
    pub(crate) fn reader(&self, content: Reader) -> Reader {
        match self {
            Self::Here(scrubber) => reader(scrubber, content),
            Self::Apart(apart) => apart.reader(content),
        }
    }
}

fn block(scrubber: &Scrubber, block: &mut Block) {
    match block {
        Block::Text { text: words } => text(scrubber, words),
        Block::Image { source } => {
            if shows(scrubber, source) {
                *block = left_out();
            }
        }
        Block::Document {
            source,
            title,
            context,
        } => {
            if shows(scrubber, source) {
                *block = left_out();
                return;
            }
            if let Source::Text { data, .. } = source {
                text(scrubber, data);
            }
            title.iter_mut().for_each(|words| text(scrubber, words));
            context.iter_mut().for_each(|words| text(scrubber, words));
        }
        Block::SearchResult {
            source,
            title,
            content,
            ..
        } => {
            text(scrubber, source);
            text(scrubber, title);
            content
                .iter_mut()
                .for_each(|one| text(scrubber, &mut one.text));
        }
    }
}

fn text(scrubber: &Scrubber, words: &mut String) {
    if let std::borrow::Cow::Owned(clean) = scrubber.text(words) {
        *words = clean;
    }
}

/// Tells whether bytes that are encoded have a secret in them.
fn shows(scrubber: &Scrubber, source: &Source) -> bool {
    let Source::Base64 { data, .. } = source else {
        return false;
    };
    let bytes = STANDARD.decode(data).unwrap_or_default();
    matches!(scrubber.bytes(&bytes), std::borrow::Cow::Owned(_))
}

/// Bytes of a picture or a document cannot be changed and stay one.
fn left_out() -> Block {
    Block::text("[a file was left out here: it has a secret of this session in it]")
}

#[cfg(test)]
mod tests {
    use outlast_protocol::Secret;

    use super::*;

    const SECRET: &str = "a-secret-of-the-session";

    fn scrubber() -> Scrubber {
        Scrubber::named([("secret A", &Secret::from(SECRET))])
    }

    #[test]
    fn no_part_of_a_result_keeps_a_secret() {
        let image = |bytes: &[u8]| Block::Image {
            source: Source::Base64 {
                media_type: "image/gif".to_owned(),
                data: STANDARD.encode(bytes),
            },
        };
        let innocent = image(b"GIF89a");
        let document = Block::Document {
            source: Source::Text {
                media_type: "text/plain".to_owned(),
                data: format!("<{SECRET}>"),
            },
            title: Some(SECRET.to_owned()),
            context: Some(STANDARD.encode(SECRET)),
        };
        let mixed = CallResult {
            content: vec![
                Block::text(format!("echo {SECRET}")),
                innocent.clone(),
                image(SECRET.as_bytes()),
                document,
            ],
            ..CallResult::text("")
        };
        let swept = result(&scrubber(), mixed);
        let told = serde_json::to_string(&swept).unwrap();
        assert!(!told.contains(SECRET), "{told}");
        assert!(!told.contains(&STANDARD.encode(SECRET)[..20]), "{told}");
        assert_eq!(swept.content[0], Block::text("echo [secret A removed]"));
        assert_eq!(swept.content[1], innocent);
        assert_eq!(swept.content[2], left_out());
    }
}
