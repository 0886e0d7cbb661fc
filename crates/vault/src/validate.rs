//! Tries a credential against its MCP server, by plain HTTP.

use outlast_protocol::{
    credential::{McpProbe, RefreshStatus, Refreshed, Validation, Verdict},
    id::{CredentialId, VaultId},
};
use reqwest::header::{ACCEPT, HeaderValue};
use serde_json::{Value, json};
use zeroize::Zeroizing;

use crate::{
    Content, Failure, Opening, Secret, Vault,
    outside::{Reply, Unanswered, Wanted},
};

/// The version of the Model Context Protocol that is asked for.
const VERSION: &str = "2025-06-18";

/// What a try came to.
enum Tried {
    /// The server took the token for all of it.
    Taken,
    /// It did not, at that step.
    Stopped(&'static str, Result<Reply, Unanswered>),
}

/// What is tried: the server, and the token.
struct Probe<'a> {
    vault: &'a Vault,
    url: String,
    token: Secret,
    session: Option<String>,
}

impl Vault {
    /// Tries an OAuth credential: `initialize`, then `tools/list`. On a 401 its token is refreshed, and
    /// it is tried once more.
    ///
    /// # Errors
    ///
    /// If its secret cannot be read, or is not one of OAuth; what the servers say is no error.
    pub async fn validate(
        &self,
        vault: VaultId,
        credential: CredentialId,
    ) -> Result<Validation, Failure> {
        let owner = credential.to_string();
        let sealed = self.0.store.secret(&owner).await?;
        let sealed = sealed.ok_or(Failure::Gone { credential })?;
        let content = self.open(&sealed)?;
        let mut probe = self.probe(&content, owner)?;
        let mut secrets: Vec<Secret> = content.secrets().into_iter().cloned().collect();
        let has_refresh_token = matches!(
            &content,
            Content::McpOauth {
                refresh: Some(_),
                ..
            }
        );
        let mut tried = probe.run().await;
        let (mut refresh, mut unrenewed) = (None, None);
        if tried.is_unauthorized() {
            let renewed = match has_refresh_token {
                true => Some(self.refresh(credential, sealed.revision).await),
                false => None,
            };
            if let Some(Ok((content, _))) = &renewed {
                secrets.extend(content.secrets().into_iter().cloned());
                probe = self.probe(content, sealed.owner)?;
                tried = probe.run().await;
            }
            unrenewed = unreached(renewed.as_ref());
            refresh = Some(refreshed(renewed)?);
        }
        let status = verdict(&tried, refresh.as_ref());
        Ok(Validation {
            credential_id: credential,
            has_refresh_token,
            unreached: tried.unreached().or(unrenewed),
            mcp_probe: tried.shown(&secrets),
            refresh,
            status,
            validated_at: self.0.clock.now(),
            vault_id: vault,
        })
    }

    fn probe(&self, content: &Content, owner: String) -> Result<Probe<'_>, Failure> {
        let Content::McpOauth {
            url, access_token, ..
        } = content
        else {
            return Err(Opening::Tampered { owner }.into());
        };
        Ok(Probe {
            vault: self,
            url: url.clone(),
            token: access_token.clone(),
            session: None,
        })
    }
}

impl Probe<'_> {
    async fn run(&mut self) -> Tried {
        let client = json!({"name": "outlast", "version": env!("CARGO_PKG_VERSION")});
        let hello = json!({
            "protocolVersion": VERSION, "capabilities": {}, "clientInfo": client,
        });
        let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello});
        match self.send(&hello).await {
            Ok(reply) if reply.is_good() => self.session = reply.session,
            stopped => return Tried::Stopped("initialize", stopped),
        }
        // A server may answer nothing before it was told that the client is ready.
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        drop(self.send(&ready).await);
        let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"});
        match self.send(&list).await {
            Ok(reply) if reply.is_good() => Tried::Taken,
            stopped => Tried::Stopped("tools/list", stopped),
        }
    }

    async fn send(&self, message: &Value) -> Result<Reply, Unanswered> {
        let line = Zeroizing::new(format!("Bearer {}", self.token.expose()));
        let token = HeaderValue::from_str(&line).map(|mut value| {
            value.set_sensitive(true);
            value
        });
        let token =
            token.map_err(|_| Unanswered("the token cannot stand in a header".to_owned()))?;
        let make = |request: reqwest::RequestBuilder| {
            let request = request
                .header(ACCEPT, "application/json, text/event-stream")
                .header("mcp-protocol-version", VERSION)
                .header("authorization", token)
                .json(message);
            match &self.session {
                Some(session) => request.header("mcp-session-id", session),
                None => request,
            }
        };
        self.vault
            .0
            .outside
            .post(&self.url, Wanted::Head, make)
            .await
    }
}

impl Tried {
    fn status(&self) -> Option<u16> {
        match self {
            Self::Stopped(_, Ok(reply)) => Some(reply.status),
            Self::Stopped(_, Err(_)) | Self::Taken => None,
        }
    }

    fn unreached(&self) -> Option<String> {
        match self {
            Self::Stopped(_, Err(unanswered)) => Some(unanswered.to_string()),
            Self::Stopped(_, Ok(_)) | Self::Taken => None,
        }
    }

    fn is_unauthorized(&self) -> bool {
        self.status() == Some(401)
    }

    fn shown(&self, secrets: &[Secret]) -> Option<McpProbe> {
        let Self::Stopped(method, answer) = self else {
            return None;
        };
        let secrets: Vec<&Secret> = secrets.iter().collect();
        Some(McpProbe {
            http_response: answer.as_ref().ok().map(|reply| reply.shown(&secrets)),
            method: (*method).to_owned(),
        })
    }
}

/// Returns why nothing was heard of a refresh, if nothing was.
fn unreached(renewed: Option<&Result<crate::refresh::Renewed, Failure>>) -> Option<String> {
    match renewed {
        Some(Err(fault @ (Failure::Unreached { .. } | Failure::Busy { .. }))) => {
            Some(fault.to_string())
        }
        Some(Ok(_) | Err(_)) | None => None,
    }
}

/// Returns what is told of a refresh; `None` is one that there was no token for.
fn refreshed(
    renewed: Option<Result<crate::refresh::Renewed, Failure>>,
) -> Result<Refreshed, Failure> {
    let told = |status, http_response| Refreshed {
        http_response,
        status,
    };
    Ok(match renewed {
        None | Some(Err(Failure::NotRenewable { .. })) => told(RefreshStatus::NoRefreshToken, None),
        Some(Ok(_)) => told(RefreshStatus::Succeeded, None),
        Some(Err(Failure::Refused { response, .. } | Failure::Unsure { response, .. })) => {
            told(RefreshStatus::Failed, Some(*response))
        }
        Some(Err(Failure::Unreached { .. } | Failure::Busy { .. })) => {
            told(RefreshStatus::ConnectError, None)
        }
        Some(Err(other)) => return Err(other),
    })
}

/// Tells what it comes to: only a clear no is one.
fn verdict(tried: &Tried, refresh: Option<&Refreshed>) -> Verdict {
    let endpoint = refresh.and_then(|refresh| refresh.http_response.as_ref());
    let status = endpoint.map(|response| response.status_code);
    match (
        tried.status(),
        refresh.map(|refresh| refresh.status),
        status,
    ) {
        (None, ..) if matches!(tried, Tried::Taken) => Verdict::Valid,
        // The token endpoint could not tell, so nobody can.
        (Some(401), Some(RefreshStatus::ConnectError), _)
        | (Some(401), Some(RefreshStatus::Failed), Some(408 | 425 | 429 | 500..)) => {
            Verdict::Unknown
        }
        (Some(401 | 403), ..) => Verdict::Invalid,
        _ => Verdict::Unknown,
    }
}
