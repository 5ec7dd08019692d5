//! Slots in Redis, shared by all gateways.
//!
//! A request costs two calls: one that takes the slot, within [`RedisSettings::timeout`], and one that gives it back,
//! which nobody waits for. What happens when Redis cannot be asked is the store's [`OnStoreFailure`]. Leases are renewed
//! by one task, not one for each request: every [`Concurrency::renew_every`] it writes all of them as one
//! pipeline to each server (of 512 at most, so that each is answered within the deadline of a call); it ends when no
//! lease is left.
//!
//! A release that Redis does not get is not repeated, and the lease ends by itself.
//!
//! [`RedisSettings::timeout`]: crate::store::redis::RedisSettings::timeout

mod call;
mod releases;
mod renewal;

use std::sync::Arc;
use std::time::Duration;

use self::call::Operation;
pub use self::releases::Releases;
use self::renewal::Registry;
use super::leases::Step;
use super::memory::{MemoryLeases, Named};
use super::owner::Owner;
use super::rule::Concurrency;
use super::stats::LeaseStats;
use super::{Acquired, Acquisition, Lease, LeaseStore};
use crate::key::BucketKey;
use crate::store::OnStoreFailure;
use crate::store::redis::{HashSlot, Operation as Purpose, RedisClient};
use crate::verdict::{Outcome, Source, Verdict};

/// What the slots of `key` are called in Redis, for people who look for them there. `hash_id`: the key id is written as
/// a hash.
#[must_use]
pub fn key_name(key: BucketKey<'_>, hash_id: bool) -> String {
    String::from_utf8_lossy(&call::name(key, hash_id)).into_owned()
}

/// When a client that was refused because of Redis should ask again: recovery takes no longer.
const ASK_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Grants slots that are kept in Redis; clones share everything.
#[derive(Clone)]
pub struct RedisLeases {
    shared: Arc<Shared>,
}

/// What requests and the task that renews share.
struct Shared {
    client: Arc<RedisClient>,
    rule: Concurrency,
    local: MemoryLeases,
    on_store_failure: OnStoreFailure,
    hash_keys: bool,
    stats: Arc<LeaseStats>,
    registry: Registry,
    releases: Arc<Releases>,
}

/// A slot that was asked for, and given back when this is dropped, granted or not: nobody may be there any more to hear
/// the answer, or it may come too late.
struct Held {
    shared: Arc<Shared>,
    name: Arc<[u8]>,
    owner: Owner,
    state: State,
}

#[derive(PartialEq, Eq)]
enum State {
    /// Nobody knows yet.
    Asked,
    /// Granted, and renewed.
    Granted,
    /// Refused: there is nothing to give back.
    Refused,
}

/// What to do without Redis.
enum Fallback {
    Local(Named),
    Allow,
    Deny,
}

// === impl RedisLeases ===

impl RedisLeases {
    /// Grants slots in the Redis of `client` under `rule`, and those of `local` where `on_store_failure` says so.
    /// Releases that are on their way are known to `releases`.
    #[must_use]
    pub fn new(
        client: Arc<RedisClient>,
        rule: Concurrency,
        local: MemoryLeases,
        on_store_failure: OnStoreFailure,
        stats: Arc<LeaseStats>,
        releases: Arc<Releases>,
    ) -> Self {
        let (hash_keys, registry) = (false, Registry::default());
        let shared = Shared { client, rule, local, on_store_failure, hash_keys, stats, registry, releases };
        Self { shared: Arc::new(shared) }
    }

    /// Whether key ids are secrets: then Redis gets a hash of them. To be said before the first request.
    #[must_use]
    pub fn hash_keys(mut self, hash_keys: bool) -> Self {
        if let Some(shared) = Arc::get_mut(&mut self.shared) {
            shared.hash_keys = hash_keys;
        }
        self
    }
}

impl LeaseStore for RedisLeases {
    fn acquire(&self, key: BucketKey<'_>) -> Acquisition {
        let shared = &self.shared;
        let fallback = match shared.on_store_failure {
            OnStoreFailure::Local => Fallback::Local(MemoryLeases::named(key)),
            OnStoreFailure::Allow => Fallback::Allow,
            OnStoreFailure::Deny => Fallback::Deny,
        };
        let name = call::name(key, shared.hash_keys);
        let Ok(ticket) = shared.client.ticket_for(Purpose::Lease, || HashSlot::of(&name)) else {
            return Acquisition::Ready(shared.without_redis(fallback));
        };
        let owner = Owner::fresh();
        let cmd = call::command(Operation::Acquire, &name, owner, &shared.rule);
        let mut held = Held { shared: Arc::clone(shared), name: name.into(), owner, state: State::Asked };
        Acquisition::Pending(Box::pin(async move {
            match ticket.run(&call::SCRIPT, &cmd, call::reply).await {
                Ok(reply) if reply.step == Step::Refused => {
                    held.refuse();
                    Acquired::denied(Source::Redis)
                }
                Ok(reply) => {
                    held.begin();
                    let remaining = held.shared.rule.limit().saturating_sub(reply.held);
                    Acquired::granted(remaining, Source::Redis, Lease::new(held))
                }
                // It may have been granted: dropped with a release.
                Err(_) => held.shared.without_redis(fallback),
            }
        }))
    }
}

// === impl Shared ===

impl Shared {
    fn without_redis(&self, fallback: Fallback) -> Acquired {
        let unseen = |outcome| Acquired { verdict: Verdict::uncounted(outcome), lease: None };
        match fallback {
            Fallback::Local(key) => self.local.acquire_named(key, Source::Fallback),
            Fallback::Allow => unseen(Outcome::Allowed),
            Fallback::Deny => unseen(Outcome::StoreUnavailable { retry_after: ASK_AGAIN_AFTER }),
        }
    }

    /// Gives a slot back without waiting for it, once.
    fn release(&self, name: &[u8], owner: Owner) {
        let ticket = self.client.ticket_for(Purpose::Lease, || HashSlot::of(name));
        let (Ok(ticket), Ok(runtime)) = (ticket, tokio::runtime::Handle::try_current()) else { return };
        let cmd = call::command(Operation::Release, name, owner, &self.rule);
        let under_way = self.releases.begin();
        runtime.spawn(async move {
            // What fails is counted with the calls that failed.
            let _ = ticket.run(&call::SCRIPT, &cmd, call::reply).await;
            drop(under_way);
        });
    }
}

// === impl Held ===

impl Held {
    fn refuse(&mut self) {
        self.state = State::Refused;
    }

    fn begin(&mut self) {
        self.state = State::Granted;
        self.shared.stats.began();
        renewal::begin(&self.shared, self.owner, &self.name);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        match self.state {
            State::Refused => return,
            State::Asked => {}
            State::Granted => {
                self.shared.stats.ended();
                self.shared.registry.end(self.owner);
            }
        }
        self.shared.release(&self.name, self.owner);
    }
}
