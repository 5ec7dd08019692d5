//! Slots in Redis, shared by all gateways.
//!
//! A request costs two calls: one acquires the slot, within [`RedisSettings::timeout`]; the other releases it, and no
//! request waits for that one. If Redis is unreachable, the store's [`OnStoreFailure`] decides. One task renews the
//! slots of all requests: every [`Concurrency::renew_every`] it writes them as one pipeline to each server. A pipeline
//! has at most 512 renewals, so that the reply arrives within the deadline of a call. The task ends with the last slot.
//!
//! A release that Redis does not receive is not repeated; the slot expires.
//!
//! [`RedisSettings::timeout`]: crate::store::redis::RedisSettings::timeout

mod call;
mod renewal;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use self::call::SlotOperation;
use self::renewal::Registry;
use super::memory::{self, MemorySlots, Name};
use super::rule::Concurrency;
use super::slots::{Owner, Step};
use super::stats::SlotStats;
use super::{Acquired, Acquisition, HeldSlot, SlotStore};
use crate::key::BucketKey;
use crate::store::OnStoreFailure;
use crate::store::fallback::RETRY_AFTER;
use crate::store::redis::{HashSlot, Operation, RedisClient};
use crate::verdict::{Outcome, Source, Verdict};

/// Returns the Redis key of the slots of `key`, for operators, without
/// [`RedisSettings::key_prefix`](crate::store::redis::RedisSettings::key_prefix). `hash_id`: the key id is written as a hash.
#[must_use]
pub fn key_name(key: BucketKey<'_>, hash_id: bool) -> String {
    String::from_utf8_lossy(&call::name("", key, hash_id)).into_owned()
}

/// Store of slots in Redis; clones share everything.
#[derive(Clone)]
pub struct RedisSlots {
    shared: Arc<SlotClient>,
}

impl std::fmt::Debug for RedisSlots {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisSlots").finish_non_exhaustive()
    }
}

/// Number of releases that Redis has not confirmed yet. A process that shuts down can wait for them: a slot that is not
/// released is missing until its slot expires.
#[derive(Debug)]
pub struct Releases(watch::Sender<usize>);

/// A release in flight; it ends on drop.
struct InFlight(Arc<Releases>);

/// State that requests and the renewal task share.
struct SlotClient {
    client: Arc<RedisClient>,
    rule: Concurrency,
    local: MemorySlots,
    on_store_failure: OnStoreFailure,
    hash_keys: bool,
    stats: Arc<SlotStats>,
    registry: Registry,
    releases: Arc<Releases>,
}

/// A requested slot, released on drop unless Redis refused it. The future may be dropped before the reply arrives.
struct Slot {
    shared: Arc<SlotClient>,
    name: Arc<[u8]>,
    owner: Owner,
    state: SlotState,
}

#[derive(PartialEq, Eq)]
enum SlotState {
    /// Requested; the reply is unknown.
    Requested,
    /// Granted, and renewed.
    Granted,
    /// Refused; there is nothing to release.
    Refused,
}

// === impl RedisSlots ===

impl RedisSlots {
    /// Creates a store of slots in the Redis of `client`, under the rule of `local`, which decides where `on_store_failure` says so.
    /// Slots are recorded in the statistics of `local`. `releases` counts the releases in flight.
    #[must_use]
    pub fn new(
        client: Arc<RedisClient>,
        local: MemorySlots,
        on_store_failure: OnStoreFailure,
        releases: Arc<Releases>,
    ) -> Self {
        let (hash_keys, registry) = (false, Registry::default());
        let (rule, stats) = (local.rule, Arc::clone(&local.stats));
        let shared = SlotClient { client, rule, local, on_store_failure, hash_keys, stats, registry, releases };
        Self { shared: Arc::new(shared) }
    }

    /// Sends hashes of key ids, for ids that are secrets (default: false). Must be called before the first request.
    #[must_use]
    pub fn hash_keys(mut self, hash_keys: bool) -> Self {
        if let Some(shared) = Arc::get_mut(&mut self.shared) {
            shared.hash_keys = hash_keys;
        }
        self
    }
}

impl SlotStore for RedisSlots {
    fn rule(&self) -> Concurrency {
        self.shared.rule
    }

    fn acquire(&self, key: BucketKey<'_>) -> Acquisition {
        let shared = &self.shared;
        let local = (shared.on_store_failure == OnStoreFailure::Local).then(|| memory::name(key));
        let name = call::name(shared.client.key_prefix(), key, shared.hash_keys);
        let Ok(request) = shared.client.request(Operation::Slot, || HashSlot::of(&name)) else {
            return Acquisition::Ready(shared.without_redis(local));
        };
        let owner = Owner::fresh();
        let cmd = call::command(SlotOperation::Acquire, &name, owner, &shared.rule);
        let mut slot = Slot { shared: Arc::clone(shared), name: name.into(), owner, state: SlotState::Requested };
        Acquisition::Pending(Box::pin(async move {
            match request.run(Some(&*call::SCRIPT), &cmd, call::reply).await {
                Ok(reply) if reply.step == Step::Refused => {
                    slot.refuse();
                    Acquired::denied(Source::Redis)
                }
                Ok(reply) => {
                    slot.grant();
                    let remaining = slot.shared.rule.limit().saturating_sub(reply.held);
                    Acquired::granted(remaining, Source::Redis, HeldSlot::new(slot))
                }
                // The slot may have been granted: dropping it sends a release.
                Err(_) => slot.shared.without_redis(local),
            }
        }))
    }
}

// === impl SlotClient ===

impl SlotClient {
    /// Decides without Redis: in memory, if the key has a name there.
    fn without_redis(&self, local: Option<Name>) -> Acquired {
        let outcome = match local {
            Some(name) => return self.local.acquire_named(name, Source::Fallback),
            None if self.on_store_failure == OnStoreFailure::Deny => {
                Outcome::StoreUnavailable { retry_after: RETRY_AFTER }
            }
            None => Outcome::Allowed,
        };
        Acquired { verdict: Verdict::uncounted(outcome), slot: None }
    }

    /// Releases a slot in the background, once.
    fn release(&self, name: &[u8], owner: Owner) {
        let request = self.client.request(Operation::Slot, || HashSlot::of(name));
        let (Ok(request), Ok(runtime)) = (request, tokio::runtime::Handle::try_current()) else { return };
        let cmd = call::command(SlotOperation::Release, name, owner, &self.rule);
        let in_flight = self.releases.start();
        runtime.spawn(async move {
            // Failures are counted with the failed calls.
            let _ = request.run(Some(&*call::SCRIPT), &cmd, call::reply).await;
            drop(in_flight);
        });
    }
}

// === impl Slot ===

impl Slot {
    fn refuse(&mut self) {
        self.state = SlotState::Refused;
    }

    fn grant(&mut self) {
        self.state = SlotState::Granted;
        self.shared.stats.began();
        renewal::start(&self.shared, self.owner, &self.name);
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        match self.state {
            SlotState::Refused => return,
            SlotState::Requested => {}
            SlotState::Granted => {
                self.shared.stats.ended();
                self.shared.registry.end(self.owner);
            }
        }
        self.shared.release(&self.name, self.owner);
    }
}

// === impl Releases ===

impl Default for Releases {
    fn default() -> Self {
        Self(watch::Sender::new(0))
    }
}

impl Releases {
    /// Waits up to `at_most` until no release is in flight.
    pub async fn settled(&self, at_most: Duration) {
        let mut count = self.0.subscribe();
        let _ = tokio::time::timeout(at_most, count.wait_for(|count| *count == 0)).await;
    }

    fn start(self: &Arc<Self>) -> InFlight {
        self.0.send_modify(|count| *count += 1);
        InFlight(Arc::clone(self))
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.0.send_modify(|count| *count -= 1);
    }
}
