//! Master keys, for operators: their names, and a turn to another one.

use axum::extract::State;
use outlast_protocol::{
    ErrorCode, Problem,
    master_keys::{MasterKey, MasterKeyRotation, MasterKeys},
};
use outlast_vault::{Declined, Holding};

use crate::{
    answer::{self, Answer},
    app::Shared,
    credentials::failed,
    extract::{Params, Submission},
};

/// `GET /outlast/v1/vault`: which master keys there are, and how many secrets are under each.
pub(crate) async fn list(State(app): State<Shared>, Params(query): Params) -> Answer {
    query.finish()?;
    let held = app.vault.holding().await;
    let held = held.map_err(|fault| refused(&fault))?;
    answer::view(&MasterKeys {
        trouble: app.vault.trouble(),
        keys: keys(held),
    })
}

/// `POST /outlast/v1/vault/rotate-master-key`: brings all secrets under another master key.
pub(crate) async fn rotate(State(app): State<Shared>, request: Submission) -> Answer {
    request.empty()?;
    let turned = app.vault.turn().await.map_err(|fault| refused(&fault))?;
    answer::view(&MasterKeyRotation {
        current: turned.current.to_string(),
        others: turned.others.iter().map(ToString::to_string).collect(),
        brought: turned.brought,
        left: turned.left,
    })
}

fn refused(fault: &Declined) -> Problem {
    match fault {
        Declined::Invalid(words) => Problem::invalid(words.clone()),
        Declined::Locked(words) => Problem::new(ErrorCode::VaultLocked, words.clone()),
        Declined::Away(words) => Problem::new(ErrorCode::Overloaded, words.clone()),
        Declined::Gone(_) | Declined::Broken(_) => failed(fault),
    }
}

/// Puts what is known first, then what is missing.
fn keys(held: Holding) -> Vec<MasterKey> {
    let Holding { known, mut records } = held;
    let mut keys: Vec<MasterKey> = known
        .iter()
        .enumerate()
        .map(|(at, name)| MasterKey {
            name: name.to_string(),
            current: at == 0,
            known: true,
            records: records.remove(name).unwrap_or_default(),
        })
        .collect();
    keys.extend(records.into_iter().map(|(name, records)| MasterKey {
        name: name.to_string(),
        current: false,
        known: false,
        records,
    }));
    keys
}
