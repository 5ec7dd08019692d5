//! `/api/keys`: API keys with their use, and changes of those in Redis.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use http::StatusCode;
use jiff::Timestamp;
use serde_json::Value;
use thiserror::Error;
use tollgate_config::ApiKeyStore;
use tollgate_filters::api_key::{ApiKey, KeyHash, KeyTable, hex};
use tollgate_limiter::store::redis::{RedisHash, StoreError};

use crate::admin::admin_state::AdminState;
use crate::admin::reply::{Reply, audited, json, problem};
use crate::admin::request::parameter;

/// Keys of a file in one reply.
const PAGE: usize = 1_000;
/// Attempts to change an entry that others change, too.
const MAX_ATTEMPTS: usize = 100;

/// API keys, without their hashes.
#[reply]
pub(super) struct KeysReply {
    keys: Vec<KeyReply>,
    /// Value of `after` for the next keys; absent behind the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// API key.
#[reply]
struct KeyReply {
    id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<String>,
    /// Time at which the key expires; absent if it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<String>,
    /// Routes that the key may use; absent for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    routes: Option<Vec<String>>,
    #[schemars(extend("enum" = ["valid", "expired", "disabled"]))]
    state: &'static str,
    /// Minute of the last request since the start of this gateway; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_used: Option<String>,
    /// Requests with the key since the start of this gateway.
    requests: u64,
    /// Requests with the key that limiters denied.
    denials: u64,
}

/// Result of a change.
#[reply]
pub(super) struct ChangedKeys {
    id: String,
    disabled: bool,
    /// Number of keys with this id.
    keys: usize,
}

/// Error of a call.
#[derive(Debug, Error)]
enum KeysError {
    #[error("`after` must be the `next` of a reply, got `{0}`")]
    Cursor(String),
    #[error("no API key has the id `{0}`")]
    Unknown(String),
    #[error("the keys are in a file: set `disabled` of the entry, and reload")]
    File,
    #[error("an entry of `{0}` in Redis is no JSON: correct it there")]
    NotJson(String),
    #[error("another program changes the API keys of `{0}` all the time: end it, and try again")]
    Contended(String),
    #[error("Redis runs no scripts, so a change could undo another one: set `disabled` of the entry there")]
    NoScripts,
    #[error("Redis is unreachable: {0}")]
    Unreachable(StoreError),
    #[error("Redis is unreachable")]
    NoClient,
}

/// Part of the keys.
#[derive(Default)]
struct Selection {
    id: Option<String>,
    after: Option<String>,
}

/// Lists the keys.
pub(super) async fn list(query: &str, state: &AdminState) -> Reply {
    match read(query, state).await {
        Ok(keys) => json(StatusCode::OK, &keys),
        Err(error) => error.response(),
    }
}

async fn read(query: &str, state: &AdminState) -> Result<KeysReply, KeysError> {
    let selection = Selection { id: parameter(query, "id"), after: parameter(query, "after") };
    let Some(store) = store(state) else { return Ok(KeysReply { keys: Vec::new(), next: None }) };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let describe = |(hash, key): (KeyHash, ApiKey)| describe(&hash, &key, now, state);
    let (keys, next) = match &store {
        ApiKeyStore::File(table) => of_table(table, &selection)?,
        ApiKeyStore::Redis { hash, .. } => of_redis(&redis_hash(hash, state)?, &selection).await?,
    };
    Ok(KeysReply { keys: keys.into_iter().map(describe).collect(), next })
}

/// Keys with their hashes, and the cursor behind them.
type Page = (Vec<(KeyHash, ApiKey)>, Option<String>);

fn of_table(table: &KeyTable, selection: &Selection) -> Result<Page, KeysError> {
    let start = selection.after.as_deref().unwrap_or("0");
    let start: usize = start.parse().map_err(|_| KeysError::Cursor(start.to_owned()))?;
    let owned = |(hash, key): (&KeyHash, ApiKey)| (*hash, key);
    if let Some(id) = &selection.id {
        return Ok((table.with_id(id).map(owned).collect(), None));
    }
    let next = start.saturating_add(PAGE);
    let keys = table.iter().skip(start).take(PAGE).map(owned).collect();
    Ok((keys, (next < table.len()).then(|| next.to_string())))
}

async fn of_redis(hash: &RedisHash, selection: &Selection) -> Result<Page, KeysError> {
    let mut cursor = selection.after.clone().unwrap_or_else(|| RedisHash::START.to_owned());
    if !cursor.bytes().all(|byte| byte.is_ascii_digit()) || cursor.is_empty() {
        return Err(KeysError::Cursor(cursor));
    }
    let mut keys: Vec<(KeyHash, ApiKey)> = Vec::new();
    loop {
        let page = hash.scan(&cursor).await?;
        let read = page.fields.iter().filter_map(|(field, text)| ApiKey::of_field(field, text));
        let is_selected = |key: &ApiKey| selection.id.as_ref().is_none_or(|id| *key.id == **id);
        keys.extend(read.filter(|(_, key)| is_selected(key)));
        cursor = page.next;
        if cursor == RedisHash::START {
            break;
        }
        if selection.id.is_none() {
            return Ok((keys, Some(cursor)));
        }
    }
    // A scan may return a field twice.
    keys.sort_by_key(|(hash, _)| *hash);
    keys.dedup_by_key(|(hash, _)| *hash);
    Ok((keys, None))
}

fn describe(hash: &KeyHash, key: &ApiKey, now: u64, state: &AdminState) -> KeyReply {
    let time = |seconds: u64| i64::try_from(seconds).ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
    let usage = state.stores.api_keys.usage.get(hash);
    KeyReply {
        id: key.id.to_string(),
        plan: key.plan.as_deref().map(str::to_owned),
        expires: key.expires.and_then(time).map(|time| time.to_string()),
        routes: key.routes.as_ref().map(|routes| routes.iter().map(|route| route.to_string()).collect()),
        state: match key {
            key if key.disabled => "disabled",
            key if key.is_expired(now) => "expired",
            _ => "valid",
        },
        last_used: (usage.requests > 0).then(|| time(usage.minute * 60)).flatten().map(|time| time.to_string()),
        requests: usage.requests,
        denials: usage.denials,
    }
}

/// Disables or enables all keys with `id` in Redis.
pub(super) async fn disable(id: &str, disabled: bool, state: &AdminState) -> Reply {
    match change(id, disabled, state).await {
        Ok(changed) => {
            let word = if disabled { "disabled" } else { "enabled" };
            let keys = changed.keys;
            audited(json(StatusCode::OK, &changed), format!("{keys} API keys of {id} {word}"))
        }
        Err(error) => error.response(),
    }
}

async fn change(id: &str, disabled: bool, state: &AdminState) -> Result<ChangedKeys, KeysError> {
    let name = match store(state) {
        Some(ApiKeyStore::Redis { hash, .. }) => hash,
        Some(ApiKeyStore::File(_)) => return Err(KeysError::File),
        None => return Err(KeysError::Unknown(id.to_owned())),
    };
    let hash = redis_hash(&name, state)?;
    let selection = Selection { id: Some(id.to_owned()), after: None };
    let (keys, _) = of_redis(&hash, &selection).await?;
    let cache = state.stores.api_keys.cache(&name);
    let mut changed = 0;
    for (key_hash, _) in &keys {
        if change_entry(&hash, &hex(key_hash), id, disabled).await? {
            cache.refresh(key_hash);
            changed += 1;
        }
    }
    match changed {
        0 => Err(KeysError::Unknown(id.to_owned())),
        keys => Ok(ChangedKeys { id: id.to_owned(), disabled, keys }),
    }
}

/// Changes one entry, and nothing that another program writes to it meanwhile. Returns false if `id` has lost the entry.
async fn change_entry(hash: &RedisHash, field: &str, id: &str, disabled: bool) -> Result<bool, KeysError> {
    for _ in 0..MAX_ATTEMPTS {
        let Some(text) = hash.get(field).await? else { return Ok(false) };
        if !ApiKey::parse(&text).is_ok_and(|(key, _)| *key.id == *id) {
            return Ok(false);
        }
        let Ok(Value::Object(mut entry)) = serde_json::from_str(&text) else {
            return Err(KeysError::NotJson(id.to_owned()));
        };
        entry.insert("disabled".to_owned(), disabled.into());
        if hash.replace(field, &text, &Value::Object(entry).to_string()).await? {
            return Ok(true);
        }
    }
    Err(KeysError::Contended(id.to_owned()))
}

fn store(state: &AdminState) -> Option<ApiKeyStore> {
    Some(state.config.load().api_keys.as_ref()?.store.clone())
}

fn redis_hash(name: &Arc<str>, state: &AdminState) -> Result<RedisHash, KeysError> {
    let client = state.stores.redis_client().ok_or(KeysError::NoClient)?;
    Ok(RedisHash::new(client, Arc::clone(name)))
}

impl From<StoreError> for KeysError {
    fn from(error: StoreError) -> Self {
        if error == StoreError::NoScripts { Self::NoScripts } else { Self::Unreachable(error) }
    }
}

impl KeysError {
    fn response(&self) -> Reply {
        let status = match self {
            Self::Cursor(_) => StatusCode::BAD_REQUEST,
            Self::Unknown(_) => StatusCode::NOT_FOUND,
            Self::File | Self::NotJson(_) | Self::Contended(_) | Self::NoScripts => StatusCode::CONFLICT,
            Self::Unreachable(_) | Self::NoClient => StatusCode::SERVICE_UNAVAILABLE,
        };
        problem(status, &self.to_string())
    }
}
