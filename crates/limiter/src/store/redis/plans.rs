//! Plans by key id, in a hash in Redis.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use redis::Value;
use tokio::time::Instant;

use super::client::RedisClient;
use super::hash_slot::HashSlot;
use super::stats::Operation;
use crate::key::redis_text;
use crate::plan::{PlanLookup, PlanSource};

/// Plans remembered at most; past that all are forgotten, which costs a question each.
const MOST_REMEMBERED: usize = 10_000;

/// Reads plans from a hash: field key id (written as in the names of buckets), value the plan's name. Within the client's deadline and breaker, as decisions
/// are; what cannot be read has no plan, and is asked for again by the next request.
pub struct RedisPlans {
    client: Arc<RedisClient>,
    hash: String,
    cache: Duration,
    hash_ids: bool,
    known: Arc<Mutex<Known>>,
}

type Known = HashMap<Box<[u8]>, (Instant, Option<Arc<str>>)>;

impl RedisPlans {
    /// The plans in the hash of that name, each remembered for `cache`.
    #[must_use]
    pub fn new(client: Arc<RedisClient>, hash: String, cache: Duration) -> Self {
        Self { client, hash, cache, hash_ids: false, known: Arc::default() }
    }

    /// Whether key ids are secrets: then the hash has hashes of them for fields.
    #[must_use]
    pub fn hash_keys(mut self, hash_keys: bool) -> Self {
        self.hash_ids = hash_keys;
        self
    }
}

impl PlanSource for RedisPlans {
    fn plan(&self, id: &[u8]) -> PlanLookup {
        let now = Instant::now();
        // As key ids stand in the names of buckets: plain ones as they are, unsafe bytes encoded, long ones hashed.
        let mut field = Vec::with_capacity(id.len().min(redis_text::MAX_READABLE));
        redis_text::write_id(id, self.hash_ids, &mut field);
        let id = field.as_slice();
        if let Some((until, plan)) = self.known.lock().get(id)
            && now < *until
        {
            return PlanLookup::Ready(plan.clone());
        }
        let Ok(ticket) = self.client.ticket_for(Operation::Plan, || HashSlot::of(self.hash.as_bytes())) else {
            return PlanLookup::Ready(None);
        };
        let mut cmd = redis::cmd("HGET");
        cmd.arg(&self.hash).arg(id);
        let (known, id, until) = (Arc::clone(&self.known), Box::from(id), now + self.cache);
        PlanLookup::Pending(Box::pin(async move {
            let read = |reply: &Value| match reply {
                Value::Nil => Some(None),
                Value::BulkString(name) => Some(std::str::from_utf8(name).ok().map(Arc::from)),
                Value::SimpleString(name) => Some(Some(Arc::from(name.as_str()))),
                _ => None,
            };
            let plan: Option<Arc<str>> = ticket.run_plain(&cmd, read).await.ok()?;
            let mut known = known.lock();
            if known.len() >= MOST_REMEMBERED {
                known.retain(|_, (until, _)| now < *until);
                if known.len() >= MOST_REMEMBERED {
                    known.clear();
                }
            }
            known.insert(id, (until, plan.clone()));
            plan
        }))
    }
}
