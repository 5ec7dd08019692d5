//! Fields of one Redis hash.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, LazyLock};

use redis::Value;

use crate::store::redis::client::RedisClient;
use crate::store::redis::error::StoreError;
use crate::store::redis::hash_slot::HashSlot;
use crate::store::redis::script::Script;
use crate::store::redis::stats::Operation;

static REPLACEMENT: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("../../../../lua/replace_field.lua")));

/// Fields returned by one step of a scan, about.
const PAGE: u32 = 1_000;

/// Fields of one step of a scan, with their values.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct HashPage {
    /// Cursor of the next step; [`RedisHash::START`] after the last one.
    pub next: String,
    /// Fields and values.
    pub fields: Vec<(String, String)>,
}

/// Future of the value of a field; `None` without one.
type FieldValue = Pin<Box<dyn Future<Output = Result<Option<String>, StoreError>> + Send>>;

/// Fields of a Redis hash. Calls have the deadline and the breaker of decisions.
#[derive(Debug)]
pub struct RedisHash {
    client: Arc<RedisClient>,
    name: Arc<str>,
}

impl RedisHash {
    /// Cursor before the first field, and behind the last one.
    pub const START: &str = "0";

    /// Selects the hash `name`.
    #[must_use]
    pub fn new(client: Arc<RedisClient>, name: Arc<str>) -> Self {
        Self { client, name }
    }

    /// Returns the value of `field`.
    #[must_use]
    pub fn get(&self, field: &str) -> FieldValue {
        let request = self.client.request(Operation::ApiKey, || HashSlot::of(self.name.as_bytes()));
        let mut cmd = redis::cmd("HGET");
        cmd.arg(&*self.name).arg(field);
        Box::pin(async move { Ok(request?.run(None, &cmd, text).await?.0) })
    }

    /// Returns the fields behind `cursor`, which is [`START`](Self::START) at first. A field may be returned twice.
    ///
    /// # Errors
    /// Redis did not reply.
    pub async fn scan(&self, cursor: &str) -> Result<HashPage, StoreError> {
        let request = self.client.request(Operation::ApiKeys, || HashSlot::of(self.name.as_bytes()))?;
        let mut cmd = redis::cmd("HSCAN");
        cmd.arg(&*self.name).arg(cursor).arg("COUNT").arg(PAGE);
        Ok(request.run(None, &cmd, page).await?)
    }

    /// Replaces the value `read` of `field` by `value`. Returns false, and writes nothing, if the field has another value by
    /// now.
    ///
    /// # Errors
    /// Redis did not reply. After a timeout, the value may be replaced.
    pub async fn replace(&self, field: &str, read: &str, value: &str) -> Result<bool, StoreError> {
        let request = self.client.request(Operation::ApiKeys, || HashSlot::of(self.name.as_bytes()))?;
        let mut cmd = redis::cmd("EVALSHA");
        cmd.arg(REPLACEMENT.sha1()).arg(1).arg(&*self.name).arg(&[field, read, value]);
        Ok(request.run(Some(&*REPLACEMENT), &cmd, is_replaced).await?)
    }
}

/// Value of a field, if there is one.
struct Text(Option<String>);

/// Decodes a reply; `None`: it is invalid.
fn text(reply: &Value) -> Option<Text> {
    Some(Text(match reply {
        Value::Nil => None,
        Value::BulkString(text) => Some(String::from_utf8_lossy(text).into_owned()),
        Value::SimpleString(text) => Some(text.clone()),
        _ => return None,
    }))
}

/// Decodes the reply of the replacement.
fn is_replaced(reply: &Value) -> Option<bool> {
    let Some([Value::Int(replaced)]) = reply.as_sequence() else { return None };
    Some(*replaced == 1)
}

/// Decodes a step of a scan.
fn page(reply: &Value) -> Option<HashPage> {
    let [next, fields] = reply.as_sequence()? else { return None };
    let texts: Vec<String> = fields.as_sequence()?.iter().map(|field| text(field)?.0).collect::<Option<_>>()?;
    let pairs = texts.chunks_exact(2).filter_map(|pair| Some((pair.first()?.clone(), pair.get(1)?.clone())));
    Some(HashPage { next: text(next)?.0?, fields: pairs.collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_become_fields() {
        let texts =
            |texts: &[&str]| Value::Array(texts.iter().map(|t| Value::BulkString(t.as_bytes().into())).collect());
        let reply = |next: &str, fields: &[&str]| Value::Array(vec![Value::BulkString(next.into()), texts(fields)]);
        let read = page(&reply("7", &["a", "1", "b", "2"])).unwrap_or_default();
        assert_eq!((read.next.as_str(), read.fields.len()), ("7", 2));
        assert!(page(&Value::Nil).is_none() && page(&texts(&["0"])).is_none());
        assert_eq!(text(&Value::Nil).map(|text| text.0), Some(None));
        assert!(text(&Value::Int(1)).is_none());
        let replies = [1, 0].map(|replaced| is_replaced(&Value::Array(vec![Value::Int(replaced)])));
        assert_eq!((replies, is_replaced(&Value::Nil)), ([Some(true), Some(false)], None));
    }
}
