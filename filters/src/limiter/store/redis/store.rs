//! The store that decides in Redis, and by `on-store-failure` when it cannot.

use std::sync::Arc;
use std::time::Duration;

use super::client::RedisClient;
use super::script;
use crate::limiter::key::BucketKey;
use crate::limiter::rule::TokenBucket;
use crate::limiter::store::memory::{Located, MemoryStore};
use crate::limiter::store::{Decision, OnStoreFailure, Store};
use crate::limiter::verdict::{Outcome, Source, Verdict};

/// When a client that was refused because of Redis should ask again: recovery takes no longer.
const ASK_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Decides in Redis; clones share everything.
#[derive(Clone)]
pub struct RedisStore {
    client: Arc<RedisClient>,
    local: Arc<MemoryStore>,
    on_store_failure: OnStoreFailure,
    hash_keys: bool,
}

/// How to decide without Redis. It remembers where the local bucket is instead of the key.
enum Fallback {
    Local { store: Arc<MemoryStore>, located: Located, rule: TokenBucket },
    Allow,
    Deny,
}

impl RedisStore {
    /// A store that asks `client`, and `local` where `on_store_failure` says so.
    #[must_use]
    pub fn new(client: Arc<RedisClient>, local: Arc<MemoryStore>, on_store_failure: OnStoreFailure) -> Self {
        Self { client, local, on_store_failure, hash_keys: false }
    }

    /// Whether key ids are secrets: then Redis gets a hash of them.
    #[must_use]
    pub fn hash_keys(mut self, hash_keys: bool) -> Self {
        self.hash_keys = hash_keys;
        self
    }

    fn fallback(&self, key: BucketKey<'_>, rule: &TokenBucket) -> Fallback {
        match self.on_store_failure {
            OnStoreFailure::Local => {
                Fallback::Local { store: Arc::clone(&self.local), located: self.local.locate(key), rule: *rule }
            }
            OnStoreFailure::Allow => Fallback::Allow,
            OnStoreFailure::Deny => Fallback::Deny,
        }
    }
}

impl Store for RedisStore {
    fn decide(&self, key: BucketKey<'_>, rule: &TokenBucket) -> Decision {
        let fallback = self.fallback(key, rule);
        let Ok(ticket) = self.client.ticket() else { return Decision::Ready(fallback.decide()) };
        let cmd = script::decide(key, self.hash_keys, rule);
        Decision::Pending(Box::pin(async move {
            match ticket.run(&script::TOKEN_BUCKET, &cmd, script::answer).await {
                Ok(answer) => answer.by(Source::Redis),
                Err(_) => fallback.decide(),
            }
        }))
    }
}

impl Fallback {
    fn decide(self) -> Verdict {
        let outcome = match self {
            Self::Local { store, located, rule } => return store.decide_located(located, &rule).by(Source::Fallback),
            Self::Allow => Outcome::Allowed,
            Self::Deny => Outcome::StoreUnavailable { retry_after: ASK_AGAIN_AFTER },
        };
        Verdict { outcome, remaining: None, reset_after: Duration::ZERO, source: Source::Fallback }
    }
}
