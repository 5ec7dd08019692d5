//! Temporary overrides of limits, which all gateways read from one hash.
//!
//! The texts are the caller's. Times count on the clock of Redis, so the clocks of gateways do not matter.

use std::sync::LazyLock;
use std::time::Duration;

use redis::{Cmd, Value};

use crate::store::redis::client::RedisClient;
use crate::store::redis::error::StoreError;
use crate::store::redis::hash_slot::HashSlot;
use crate::store::redis::script::Script;
use crate::store::redis::stats::Operation;

/// Hash of overrides, behind the prefix of keys: one key, so one slot of a cluster.
const KEY: &str = "tollgate.overrides";

/// Field of the version.
const VERSION: &str = "v";

static SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("../../../../lua/overrides.lua")));

/// Override that gateways share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedOverride {
    /// Limit that is overridden.
    pub target: String,
    /// Override.
    pub text: String,
    /// Time until it ends.
    pub expires_in: Duration,
}

/// Reader and writer of the overrides in Redis. Each call is one script within the client's timeout.
#[derive(Debug, Default)]
pub struct OverrideTable {
    /// Version that was read last.
    version: String,
}

impl OverrideTable {
    /// Largest number of overrides at a time.
    pub const CAPACITY: u32 = 256;

    /// Returns the overrides if they have changed since the last call; the first time if there are any. Without a change
    /// this is one `HMGET`, which needs no script.
    ///
    /// # Errors
    /// Redis did not reply.
    pub async fn read(&mut self, client: &RedisClient) -> Result<Option<Vec<SharedOverride>>, StoreError> {
        if stored_version(client).await? == self.version {
            return Ok(None);
        }
        let (version, overrides) = call(client, &["read", ""], overrides).await?;
        self.version = version;
        Ok(Some(overrides))
    }

    /// Sets the override of `target` for `time`. Returns false if there are too many.
    ///
    /// # Errors
    /// Redis did not reply. After a timeout, the override may be set.
    pub async fn set(client: &RedisClient, target: &str, text: &str, time: Duration) -> Result<bool, StoreError> {
        let (millis, capacity) = (time.as_millis().max(1).to_string(), Self::CAPACITY.to_string());
        call(client, &["set", target, text, &millis, &capacity], is_done).await
    }

    /// Removes the override of `target`. Returns false if there is none.
    ///
    /// # Errors
    /// Redis did not reply. After a timeout, the override may be removed.
    pub async fn remove(client: &RedisClient, target: &str) -> Result<bool, StoreError> {
        call(client, &["remove", target], is_done).await
    }
}

/// Returns the version of the overrides; empty without any.
async fn stored_version(client: &RedisClient) -> Result<String, StoreError> {
    let key = key(client);
    let request = client.request(Operation::Overrides, || HashSlot::of(key.as_bytes()))?;
    let mut cmd = redis::cmd("HMGET");
    cmd.arg(&key).arg(VERSION);
    Ok(request.run(None, &cmd, version).await?)
}

async fn call<T>(
    client: &RedisClient,
    arguments: &[&str],
    read: impl FnOnce(&Value) -> Option<T>,
) -> Result<T, StoreError> {
    let key = key(client);
    let request = client.request(Operation::Overrides, || HashSlot::of(key.as_bytes()))?;
    Ok(request.run(Some(&*SCRIPT), &command(&key, arguments), read).await?)
}

fn key(client: &RedisClient) -> String {
    format!("{}{KEY}", client.key_prefix())
}

fn command(key: &str, arguments: &[&str]) -> Cmd {
    let mut cmd = redis::cmd("EVALSHA");
    cmd.arg(SCRIPT.sha1()).arg(1).arg(key).arg(arguments);
    cmd
}

fn is_done(reply: &Value) -> Option<bool> {
    let Some([Value::Int(done), ..]) = reply.as_sequence() else { return None };
    Some(*done == 1)
}

/// Decodes the version.
fn version(reply: &Value) -> Option<String> {
    match reply.as_sequence()? {
        [Value::Nil] => Some(String::new()),
        [version] => text(version),
        _ => None,
    }
}

/// Decodes the version and the overrides. A value of another form is skipped.
fn overrides(reply: &Value) -> Option<(String, Vec<SharedOverride>)> {
    let Value::Array(items) = reply else { return None };
    let texts: Vec<String> = items.iter().map(text).collect::<Option<_>>()?;
    let [version, now, rest @ ..] = texts.as_slice() else { return None };
    let now: u64 = now.parse().ok()?;
    let decode = |pair: &[String]| {
        let [target, value] = pair else { return None };
        let (until, text) = value.split_once(':')?;
        let millis = until.parse::<u64>().ok()?.checked_sub(now).filter(|millis| *millis > 0)?;
        Some(SharedOverride {
            target: target.clone(),
            text: text.to_owned(),
            expires_in: Duration::from_millis(millis),
        })
    };
    Some((version.clone(), rest.chunks(2).filter_map(decode).collect()))
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::BulkString(text) => Some(String::from_utf8_lossy(text).into_owned()),
        Value::SimpleString(text) => Some(text.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    #[test]
    fn replies_become_overrides() {
        let reply = |items: &[&str]| {
            overrides(&Value::Array(items.iter().map(|item| Value::BulkString(item.as_bytes().to_vec())).collect()))
        };
        let one = SharedOverride { target: "a".into(), text: "x:y".into(), expires_in: Duration::from_millis(500) };
        assert_eq!(reply(&["7", "1000", "a", "1500:x:y", "b", "1000:over", "c", "?"]), Some(("7".into(), vec![one])));
        assert_eq!(reply(&["", "1000"]), Some((String::new(), Vec::new())));
        let version = |items: &[Value]| super::version(&Value::Array(items.into()));
        assert_eq!(version(&[Value::Nil]), Some(String::new()));
        assert_eq!(version(&[Value::BulkString(b"7".into())]), Some("7".into()));
        assert_eq!([version(&[]), version(&[Value::Int(7)]), super::version(&Value::Nil)], [None, None, None]);
        assert_eq!([reply(&["7"]), reply(&["7", "x"]), overrides(&Value::Nil)], [None, None, None]);
        assert_eq!([is_done(&Value::Array(vec![Value::Int(1)])), is_done(&Value::Nil)], [Some(true), None]);
    }
}
