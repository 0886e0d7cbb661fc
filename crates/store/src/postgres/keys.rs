//! API keys, on Postgres.

use async_trait::async_trait;
use outlast_protocol::{Micros, id::ApiKeyId};
use tokio_postgres::Row;

use super::{
    Postgres,
    conditions::Conditions,
    connect::{Connection, Value},
    fault::Fault,
    pool, receipts,
    resources::Written,
};
use crate::{
    ApiKey, KeyPage, KeyQuery, Keys, Order, ReadError, Receipt, WriteError,
    stored::{key_id, scope},
};

const COLUMNS: &str = "hash, id, name, scope, created, expires, revoked";

#[async_trait]
impl Keys for Postgres {
    async fn insert_key(&self, new: ApiKey, receipt: Option<Receipt>) -> Result<(), WriteError> {
        pool::write!(self.pool, |tx| insert(tx, &new, receipt.as_ref()))
    }

    async fn put_key(&self, slot: &str, key: ApiKey) -> Result<(), WriteError> {
        let slots = self.slots(slot);
        pool::write!(self.pool, |tx| put(tx, &slots, &key))
    }

    async fn drop_key(&self, slot: &str) -> Result<(), WriteError> {
        let slots = self.slots(slot);
        pool::write!(self.pool, |tx| async {
            Ok(Ok(empty(tx, &slots, None).await?))
        })
    }

    async fn revoke_key(&self, id: ApiKeyId, at: Micros) -> Result<ApiKey, WriteError> {
        pool::write!(self.pool, |tx| revoke(tx, id, at))
    }

    async fn find_key(&self, hash: [u8; 32]) -> Result<Option<ApiKey>, ReadError> {
        let connection = self.pool.get().await?;
        Ok(one(&connection, "hash", &hash.as_slice()).await?)
    }

    async fn keys(&self, query: &KeyQuery) -> Result<KeyPage, ReadError> {
        list(&*self.pool.get().await?, *query).await
    }
}

impl Postgres {
    /// Returns a slot of this node as rows have it, and as rows had it before nodes had slots of
    /// their own.
    fn slots(&self, slot: &str) -> [String; 2] {
        [format!("{slot}/{}", self.room.node), slot.to_owned()]
    }
}

async fn insert(tx: &Connection, new: &ApiKey, receipt: Option<&Receipt>) -> Written<()> {
    if receipts::answered(tx, receipt).await? {
        return Ok(Err(WriteError::Answered));
    }
    let text = "INSERT INTO api_keys (hash, id, name, scope, created, expires) \
                VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING";
    let values: [Value<'_>; 6] = [
        &new.hash.as_slice(),
        &new.id.to_string(),
        &new.name,
        &new.scope.word(),
        &new.created_at.0,
        &new.expires_at.map(|at| at.0),
    ];
    if tx.run(text, &values).await? == 0 {
        let (id, revision) = (new.id.to_string(), 1);
        return Ok(Err(WriteError::Moved { id, revision }));
    }
    receipts::put(tx, receipt).await?;
    Ok(Ok(()))
}

async fn put(tx: &Connection, slots: &[String; 2], key: &ApiKey) -> Written<()> {
    empty(tx, slots, Some(key.hash)).await?;
    let text = "INSERT INTO api_keys (hash, id, name, scope, created, expires, slot) \
                VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (hash) DO UPDATE SET \
                scope = excluded.scope, expires = excluded.expires, slot = excluded.slot";
    let [slot, _] = slots;
    let values: [Value<'_>; 7] = [
        &key.hash.as_slice(),
        &key.id.to_string(),
        &key.name,
        &key.scope.word(),
        &key.created_at.0,
        &key.expires_at.map(|at| at.0),
        slot,
    ];
    tx.run(text, &values).await?;
    Ok(Ok(()))
}

/// Empties a slot of all but one key. One that was revoked is remembered, so that it stays so.
async fn empty(tx: &Connection, slots: &[String; 2], but: Option<[u8; 32]>) -> Result<(), Fault> {
    let (slots, but) = (slots.to_vec(), but.map(Vec::from));
    let which = "slot = ANY($1) AND ($2::bytea IS NULL OR hash <> $2)";
    let text = format!("DELETE FROM api_keys WHERE {which} AND revoked IS NULL");
    tx.run(&text, &[&slots, &but]).await?;
    let text = format!("UPDATE api_keys SET slot = NULL WHERE {which}");
    tx.run(&text, &[&slots, &but]).await?;
    Ok(())
}

async fn revoke(tx: &Connection, id: ApiKeyId, at: Micros) -> Written<ApiKey> {
    let id = id.to_string();
    let text = "UPDATE api_keys SET revoked = $2 WHERE id = $1 AND revoked IS NULL";
    tx.run(text, &[&id, &at.0]).await?;
    let found = one(tx, "id", &id).await?;
    Ok(found.ok_or(WriteError::NotFound(id)))
}

async fn one(
    connection: &Connection,
    column: &str,
    value: Value<'_>,
) -> Result<Option<ApiKey>, Fault> {
    let text = format!("SELECT {COLUMNS} FROM api_keys WHERE {column} = $1");
    let row = connection.row(&text, &[value]).await?;
    row.map(|row| read(&row)).transpose()
}

fn read(row: &Row) -> Result<ApiKey, Fault> {
    let moment = |column: usize| Ok::<_, Fault>(row.try_get::<_, Option<i64>>(column)?.map(Micros));
    let hash: &[u8] = row.try_get(0)?;
    let unreadable = |_| Fault::Unreadable("the hash of a key is cut off".to_owned());
    Ok(ApiKey {
        hash: hash.try_into().map_err(unreadable)?,
        id: key_id(row.try_get(1)?)?,
        name: row.try_get(2)?,
        scope: scope(row.try_get(3)?)?,
        created_at: Micros(row.try_get(4)?),
        expires_at: moment(5)?,
        revoked_at: moment(6)?,
    })
}

async fn list(connection: &Connection, query: KeyQuery) -> Result<KeyPage, ReadError> {
    let (order, side) = match query.order {
        Order::Forwards => ("ORDER BY created, id", "(created, id) > (?, ?)"),
        Order::Backwards => ("ORDER BY created DESC, id DESC", "(created, id) < (?, ?)"),
    };
    let mut found = Conditions::default();
    found.fixed("true");
    if !query.revoked {
        found.fixed("revoked IS NULL");
    }
    if let Some((created, id)) = query.after {
        found.two(side, created.0, id.to_string());
    }
    let (condition, values) = found.finish(order, query.limit.saturating_add(1));
    let text = format!("SELECT {COLUMNS} FROM api_keys WHERE {condition}");
    let rows = connection.rows(&text, &values.all()).await?;
    let items = rows.iter().take(query.limit).map(read);
    Ok(KeyPage {
        items: items.collect::<Result<_, _>>()?,
        more: rows.len() > query.limit,
    })
}
