//! Finds the server that a command is meant for, and the key for it.

use std::{io, path::Path};

use secrecy::SecretString;

use super::{Client, Error};
use crate::{config::Loaded, server};

/// Where to look.
#[derive(Clone, Debug)]
pub enum Where {
    /// At this address and nowhere else.
    At(String),
    /// Where the data directory's server said it is, else at the configured address.
    Local,
}

/// What was found.
#[derive(Clone, Debug)]
pub enum Found {
    /// A server that answers.
    Running(Client),
    /// None; this is why.
    Nobody(Error),
}

/// Finds a server.
///
/// The key is the configured one, else the one that a server left in the data directory. The latter
/// is only ever sent to this machine.
///
/// # Errors
///
/// If the address is none, or the key's file cannot be read.
pub async fn find(place: &Where, loaded: &Loaded) -> Result<Found, Error> {
    let configured = loaded.config.server.api_key.clone();
    match place {
        Where::At(url) => {
            let client = Client::new(url, None)?;
            let local = super::is_loopback(&client.base);
            let key = match configured {
                None if local => kept(&loaded.data_dir)?,
                key => key,
            };
            answers(Client::new(url, key.as_ref())?).await
        }
        Where::Local => {
            let key = match configured {
                Some(key) => Some(key),
                None => kept(&loaded.data_dir)?,
            };
            if let Some(url) = server::told(&loaded.data_dir)
                && let Found::Running(client) = answers(Client::new(&url, key.as_ref())?).await?
            {
                return Ok(Found::Running(client));
            }
            let url = server::url(loaded.config.server.listen);
            takes_us(Client::new(&url, key.as_ref())?, key.is_some()).await
        }
    }
}

/// Asks whether the server at the usual address is one that this user has a key for.
///
/// It may be that of another user or of another data directory; then it is not the one meant.
async fn takes_us(client: Client, has_key: bool) -> Result<Found, Error> {
    let found = answers(client).await?;
    let Found::Running(client) = found else {
        return Ok(found);
    };
    if !has_key {
        let message = format!(
            "a server answers at {}, and there is no key for it",
            client.url()
        );
        return Ok(Found::Nobody(Error::Refused {
            status: 401,
            message,
            request: None,
            after: None,
        }));
    }
    match client.get("/v1/sessions", &[("limit", "1")]).await {
        Err(error @ Error::Refused { status: 401, .. }) => Ok(Found::Nobody(error)),
        // Whatever else is wrong with it, it is the one.
        Ok(_) | Err(_) => Ok(Found::Running(client)),
    }
}

fn kept(dir: &Path) -> Result<Option<SecretString>, Error> {
    match server::read_key(dir) {
        Ok(key) => Ok(key),
        // Of another user: this one has no key, and the server will say so.
        Err(error) if is_foreign(&error) => Ok(None),
        Err(error) => Err(Error::Address {
            url: dir.join("local.key").display().to_string(),
            reason: error.to_string(),
        }),
    }
}

fn is_foreign(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied && error.raw_os_error().is_some()
}

/// Asks for a sign of life.
async fn answers(client: Client) -> Result<Found, Error> {
    match client.get("/healthz", &[]).await {
        Ok(_) => Ok(Found::Running(client)),
        Err(error @ (Error::Unreachable { .. } | Error::Form { .. })) => Ok(Found::Nobody(error)),
        Err(error) => Ok(Found::Nobody(Error::Unreachable {
            url: client.url().to_owned(),
            reason: format!("what answers there is no such server: {error}"),
            begun: false,
        })),
    }
}
