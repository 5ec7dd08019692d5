//! Plans of keys, from a Redis hash.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use redis::Value;
use tokio::time::Instant;

use crate::key::redis_text;
use crate::plan::{PlanLookup, PlanSource};
use crate::store::redis::client::RedisClient;
use crate::store::redis::hash_slot::HashSlot;
use crate::store::redis::stats::Operation;

/// Most cached plans. When the cache is full of unexpired plans, it is cleared, which costs a lookup each.
const MAX_CACHED: usize = 10_000;

/// Source that reads plans from a Redis hash. A field is a key id, written as in the names of buckets; its value is the
/// plan's name.
///
/// Lookups have the deadline and the breaker of decisions. If one fails, the request has no plan and the next request
/// looks it up again.
pub struct RedisPlans {
    client: Arc<RedisClient>,
    hash: String,
    cache_for: Duration,
    hash_ids: bool,
    cache: Arc<Mutex<Cache>>,
}

impl std::fmt::Debug for RedisPlans {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisPlans")
            .field("hash", &self.hash)
            .field("cache_for", &self.cache_for)
            .finish_non_exhaustive()
    }
}

type Cache = HashMap<Box<[u8]>, (Instant, Option<Arc<str>>)>;

impl RedisPlans {
    /// Creates a source that reads the hash named `hash` and caches each plan for `cache_for`.
    #[must_use]
    pub fn new(client: Arc<RedisClient>, hash: String, cache_for: Duration) -> Self {
        Self { client, hash, cache_for, hash_ids: false, cache: Arc::default() }
    }

    /// Looks up hashes of key ids, for ids that are secrets (default: false).
    #[must_use]
    pub fn hash_keys(mut self, hash_keys: bool) -> Self {
        self.hash_ids = hash_keys;
        self
    }
}

impl PlanSource for RedisPlans {
    fn plan(&self, id: &[u8]) -> PlanLookup {
        let now = Instant::now();
        // As in the names of buckets: unsafe bytes are encoded, long ids are hashed.
        let mut field = Vec::with_capacity(id.len().min(redis_text::MAX_READABLE));
        redis_text::write_id(id, self.hash_ids, &mut field);
        let id = field.as_slice();
        if let Some((until, plan)) = self.cache.lock().get(id)
            && now < *until
        {
            return PlanLookup::Ready(plan.clone());
        }
        let Ok(request) = self.client.request(Operation::Plan, || HashSlot::of(self.hash.as_bytes())) else {
            return PlanLookup::Ready(None);
        };
        let mut cmd = redis::cmd("HGET");
        cmd.arg(&self.hash).arg(id);
        let (cache, id, until) = (Arc::clone(&self.cache), Box::from(id), now + self.cache_for);
        PlanLookup::Pending(Box::pin(async move {
            let PlanName(plan) = request.run(None, &cmd, plan_name).await.ok()?;
            insert(&mut cache.lock(), id, (until, plan.clone()), now);
            plan
        }))
    }
}

/// Name of a key's plan, if it has one.
struct PlanName(Option<Arc<str>>);

/// Decodes a reply; `None`: it is invalid.
fn plan_name(reply: &Value) -> Option<PlanName> {
    let name = match reply {
        Value::Nil => None,
        Value::BulkString(name) => std::str::from_utf8(name).ok(),
        Value::SimpleString(name) => Some(name.as_str()),
        _ => return None,
    };
    Some(PlanName(name.map(Arc::from)))
}

fn insert(cache: &mut Cache, id: Box<[u8]>, entry: (Instant, Option<Arc<str>>), now: Instant) {
    if cache.len() >= MAX_CACHED {
        cache.retain(|_, (until, _)| now < *until);
        if cache.len() >= MAX_CACHED {
            cache.clear();
        }
    }
    cache.insert(id, entry);
}
