//! API keys, on `SQLite`.

use async_trait::async_trait;
use outlast_protocol::{Micros, id::ApiKeyId};
use rusqlite::{Connection, OptionalExtension as _, Row, params, params_from_iter};

use super::{Sqlite, fault::Fault, listing::Conditions, resources::Written, store::with_receipt};
use crate::{
    ApiKey, KeyPage, KeyQuery, Keys, Order, ReadError, Receipt, WriteError,
    stored::{key_id, scope},
};

const COLUMNS: &str = "hash, id, name, scope, created, expires, revoked";

#[async_trait]
impl Keys for Sqlite {
    async fn insert_key(&self, new: ApiKey, receipt: Option<Receipt>) -> Result<(), WriteError> {
        self.write(move |tx| with_receipt(tx, receipt.as_ref(), || insert(tx, &new)))
            .await
    }

    async fn put_key(&self, slot: &str, key: ApiKey) -> Result<(), WriteError> {
        let slot = slot.to_owned();
        self.write(move |tx| put(tx, &slot, &key)).await
    }

    async fn drop_key(&self, slot: &str) -> Result<(), WriteError> {
        let slot = slot.to_owned();
        self.write(move |tx| empty(tx, &slot, None).map(Ok)).await
    }

    async fn revoke_key(&self, id: ApiKeyId, at: Micros) -> Result<ApiKey, WriteError> {
        self.write(move |tx| revoke(tx, id, at)).await
    }

    async fn find_key(&self, hash: [u8; 32]) -> Result<Option<ApiKey>, ReadError> {
        self.readers
            .read(move |tx| Ok(one(tx, "hash", hash)?))
            .await
    }

    async fn keys(&self, query: &KeyQuery) -> Result<KeyPage, ReadError> {
        let query = *query;
        self.readers.read(move |tx| list(tx, query)).await
    }
}

fn insert(tx: &Connection, new: &ApiKey) -> Written<()> {
    let added = tx
        .prepare_cached(
            "INSERT INTO api_keys (hash, id, name, scope, created, expires) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO NOTHING",
        )?
        .execute(params![
            new.hash,
            new.id.to_string(),
            new.name,
            new.scope.word(),
            new.created_at.0,
            new.expires_at.map(|at| at.0),
        ])?;
    Ok(if added == 1 {
        Ok(())
    } else {
        let (id, revision) = (new.id.to_string(), 1);
        Err(WriteError::Moved { id, revision })
    })
}

fn put(tx: &Connection, slot: &str, key: &ApiKey) -> Written<()> {
    empty(tx, slot, Some(key.hash))?;
    tx.prepare_cached(
        "INSERT INTO api_keys (hash, id, name, scope, created, expires, slot) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (hash) DO UPDATE SET \
         scope = excluded.scope, expires = excluded.expires, slot = excluded.slot",
    )?
    .execute(params![
        key.hash,
        key.id.to_string(),
        key.name,
        key.scope.word(),
        key.created_at.0,
        key.expires_at.map(|at| at.0),
        slot,
    ])?;
    Ok(Ok(()))
}

/// Empties a slot of all but one key. One that was revoked is remembered, so that it stays so.
fn empty(tx: &Connection, slot: &str, but: Option<[u8; 32]>) -> Result<(), Fault> {
    let which = "slot = ?1 AND (?2 IS NULL OR hash <> ?2)";
    tx.prepare_cached(&format!(
        "DELETE FROM api_keys WHERE {which} AND revoked IS NULL"
    ))?
    .execute(params![slot, but])?;
    tx.prepare_cached(&format!("UPDATE api_keys SET slot = NULL WHERE {which}"))?
        .execute(params![slot, but])?;
    Ok(())
}

fn revoke(tx: &Connection, id: ApiKeyId, at: Micros) -> Written<ApiKey> {
    tx.prepare_cached("UPDATE api_keys SET revoked = ?2 WHERE id = ?1 AND revoked IS NULL")?
        .execute(params![id.to_string(), at.0])?;
    let found = one(tx, "id", id.to_string())?;
    Ok(found.ok_or_else(|| WriteError::NotFound(id.to_string())))
}

fn one(
    connection: &Connection,
    column: &str,
    value: impl rusqlite::ToSql,
) -> Result<Option<ApiKey>, Fault> {
    let text = format!("SELECT {COLUMNS} FROM api_keys WHERE {column} = ?1");
    let mut statement = connection.prepare_cached(&text)?;
    let found = statement.query_row([value], |row| Ok(read(row))).optional();
    found?.transpose()
}

fn read(row: &Row<'_>) -> Result<ApiKey, Fault> {
    let moment = |column| Ok::<_, Fault>(row.get::<_, Option<i64>>(column)?.map(Micros));
    Ok(ApiKey {
        hash: row.get(0)?,
        id: key_id(&row.get::<_, String>(1)?)?,
        name: row.get(2)?,
        scope: scope(&row.get::<_, String>(3)?)?,
        created_at: Micros(row.get(4)?),
        expires_at: moment(5)?,
        revoked_at: moment(6)?,
    })
}

fn list(connection: &Connection, query: KeyQuery) -> Result<KeyPage, ReadError> {
    let (order, side) = match query.order {
        Order::Forwards => ("ORDER BY created, id", "(created, id) > (?, ?)"),
        Order::Backwards => ("ORDER BY created DESC, id DESC", "(created, id) < (?, ?)"),
    };
    let mut found = Conditions::default();
    found.fixed("1 = 1");
    if !query.revoked {
        found.fixed("revoked IS NULL");
    }
    if let Some((created, id)) = query.after {
        let values: Vec<Box<dyn rusqlite::ToSql>> =
            vec![Box::new(created.0), Box::new(id.to_string())];
        found.many(side.to_owned(), values);
    }
    let (condition, values) = found.finish(order, query.limit.saturating_add(1));
    let text = format!("SELECT {COLUMNS} FROM api_keys WHERE {condition}");
    let mut statement = connection.prepare_cached(&text)?;
    let mut rows = statement.query(params_from_iter(values))?;
    let mut items = Vec::new();
    while let Some(row) = rows.next()? {
        items.push(read(row)?);
    }
    let more = items.len() > query.limit;
    items.truncate(query.limit);
    Ok(KeyPage { items, more })
}
