//! Store that decides in Redis, and by `on-store-failure` when it cannot.

mod corrections;
mod cross_slot;
mod decide;
mod hash;
mod in_turn;
mod plans;
mod quota;

use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

pub use self::hash::{HashPage, RedisHash};
pub use self::plans::RedisPlans;
use super::client::{RedisClient, Unanswered};
use super::command::{CallOptions, slot_of};
use super::gateways::Gateways;
use super::hash_slot::HashSlot;
use super::hot_keys::{DenialCache, HotKeys};
use super::{RedisSettings, RedisSettingsError};
use crate::rule::Rule;
use crate::store::memory::{Clock, MemoryStore};
use crate::store::{Check, Decision, Forget, OnStoreFailure, Store};

/// Store that decides in Redis, for limits that several processes share. [`connect`](Self::connect) has an example.
///
/// A decision costs one round trip, and waits at most for [`RedisSettings::timeout`](super::RedisSettings::timeout) (100 ms). Past it,
/// or while Redis is unreachable, [`on_store_failure`](Self::on_store_failure) decides: by default in this process's memory. The
/// [`source`](crate::Verdict::source) of such a verdict is [`Fallback`](crate::verdict::Source::Fallback). A lost connection is
/// replaced in the background.
///
/// Clones share the connections, cached denials and leases. The store works as long as the tokio runtime that connected it.
#[derive(Clone)]
pub struct RedisStore {
    client: Arc<RedisClient>,
    hot_keys: Arc<HotKeys>,
    local: Arc<MemoryStore>,
    on_store_failure: OnStoreFailure,
    options: CallOptions,
    gateways: Gateways,
    /// Denials that the stores of the client share, or a cache of none.
    denials: Arc<DenialCache>,
    coalesce: bool,
    lease: Option<Duration>,
}

/// Longest time for the first connection: that of a slow name server, and of several attempts.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// Reason why a store could not be connected.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RedisConnectError {
    /// The settings are invalid.
    #[error(transparent)]
    Settings(#[from] RedisSettingsError),
    /// No server replied within ten seconds, or one refused the login or the TLS handshake.
    #[error("cannot connect to redis: {reason}")]
    Unreachable {
        /// Last error of a connection.
        reason: String,
    },
}

impl std::fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisStore")
            .field("client", &self.client)
            .field("on_store_failure", &self.on_store_failure)
            .finish_non_exhaustive()
    }
}

impl RedisStore {
    /// Connects to Redis, by URL or by [`RedisSettings`], and waits for the first connection to each server: at most for ten
    /// seconds. Decisions after that call Redis.
    ///
    /// While Redis is unreachable later, the store decides in memory, or as set by
    /// [`on_store_failure`](Self::on_store_failure). Lost connections are replaced in the background.
    ///
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use tollgate_limiter::{RateLimiter, RedisSettings, RedisStore, TokenBucket};
    ///
    /// let url = "redis://127.0.0.1:6379";
    /// let limiter = RateLimiter::new("api", TokenBucket::per_second(10, 20)?, RedisStore::connect(url).await?);
    /// assert!(limiter.check("alice", 1).await.is_allowed());
    ///
    /// // Applications that share a server do not share keys.
    /// let settings = RedisSettings { key_prefix: "shop:".into(), ..RedisSettings::new(url) };
    /// let store = RedisStore::connect(settings).await?;
    /// # let _ = store;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The settings are invalid, Redis is not connected in time, or it refuses the login. [`RedisClient::start`] with [`new`](Self::new) does not
    /// wait.
    pub async fn connect(settings: impl Into<RedisSettings>) -> Result<Self, RedisConnectError> {
        let client = RedisClient::start(&settings.into())?;
        let mut changes = client.context().changes();
        let ended = changes.wait_for(|()| client.status().connected() || client.topology().refusal().is_some());
        let _ = tokio::time::timeout(CONNECT_WITHIN, ended).await;
        if !client.status().connected() {
            let status = client.status();
            let detail = status.last_error().unwrap_or("no connection was attempted");
            let refusal = client.topology().refusal();
            let reason = refusal.map_or_else(|| detail.to_owned(), |refusal| format!("{refusal} ({detail})"));
            return Err(RedisConnectError::Unreachable { reason });
        }
        Ok(Self::new(client, Arc::new(MemoryStore::default()), OnStoreFailure::default()))
    }

    /// Sets the policy for decisions while Redis is unreachable.
    #[must_use]
    pub fn on_store_failure(self, on_store_failure: OnStoreFailure) -> Self {
        Self { on_store_failure, ..self }
    }

    /// Creates a store that calls `client`, and `local` where `on_store_failure` says so. The stores of one client share
    /// cached denials, coalesced calls and leases.
    #[must_use]
    pub fn new(client: Arc<RedisClient>, local: Arc<MemoryStore>, on_store_failure: OnStoreFailure) -> Self {
        let prefix = Arc::clone(client.key_prefix());
        let reply_delay = Arc::clone(&client.context().reply_delay);
        let hot_keys = HotKeys::of(&client);
        Self {
            denials: Arc::clone(&hot_keys.denials),
            hot_keys,
            client,
            local,
            on_store_failure,
            options: CallOptions { prefix, reply_delay, ..CallOptions::default() },
            gateways: Gateways::default(),
            coalesce: true,
            lease: None,
        }
    }

    /// Sends hashes of key ids, for ids that are secrets (default: false).
    #[must_use]
    pub fn hash_keys(mut self, hash_keys: bool) -> Self {
        self.options.hash_ids = hash_keys;
        self
    }

    /// Decides by `clock` instead of Redis' own time, for traces of another time. All gateways that share keys need equal
    /// clocks then.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.options.clock = Some(clock);
        self
    }

    /// Sets the number of gateways that share a limit. While Redis is unreachable, each admits its share in memory.
    #[must_use]
    pub fn gateways(mut self, gateways: impl Into<Gateways>) -> Self {
        self.gateways = gateways.into();
        self
    }

    /// Enables the denial cache (the default). A denial is cached for as long as it certainly holds, at most a second.
    /// Until then equal requests are denied without a call, unless tokens are returned to one of their keys: by this
    /// client, or by others that publish it on the channel `tollgate.returned`. `remaining` is that of the denial.
    #[must_use]
    pub fn denial_cache(mut self, denial_cache: bool) -> Self {
        self.denials = if denial_cache { Arc::clone(&self.hot_keys.denials) } else { Arc::default() };
        self
    }

    /// Enables coalescing (the default): equal requests that arrive while one of them is being decided share one call.
    /// Each gets the verdict that it would have got alone, except for the reset time, which is that of all. Requests
    /// under a leaky bucket are not coalesced.
    #[must_use]
    pub fn coalesce(mut self, coalesce: bool) -> Self {
        self.coalesce = coalesce;
        self
    }

    /// Enables leases of at most `lease` and of at most [`MAX_LEASE`](Self::MAX_LEASE) (default: none): a call for a hot key
    /// takes further requests in advance. It takes as many as recently came in that time, at most 1,000 and at most a quarter
    /// of what remains divided by [`gateways`](Self::gateways).
    ///
    /// Leased requests count as taken, so no more are admitted than without leases. Unused ones are returned. Until then
    /// other gateways may deny that many requests too early. `remaining` is the number left in the lease, which is the
    /// least that is left. Leases apply to token buckets, GCRA and fixed windows, if all rules of a limiter are among
    /// them. They do not apply to costs that are settled later.
    #[must_use]
    pub fn lease(mut self, lease: Option<Duration>) -> Self {
        self.lease = lease.map(|lease| lease.min(Self::MAX_LEASE));
        self
    }

    /// Returns true if requests under `rule` can be leased.
    #[must_use]
    pub fn supports_lease(rule: &Rule) -> bool {
        rule.algorithm().spec().leasable && !rule.refills_in_steps()
    }

    fn slot(&self, check: &Check<'_>) -> HashSlot {
        slot_of(check.key, check.rule.algorithm(), &self.options)
    }
}

impl Store for RedisStore {
    fn decide(&self, enforced: &[Check<'_>], observed: &[Check<'_>]) -> Decision {
        let (together, later) = match self.decides_together(enforced, observed) {
            true => (observed, &[][..]),
            false => (&[][..], observed),
        };
        self.in_turn(enforced, together, self.decide_once(enforced, together)).then_observed(self, later)
    }

    /// A correction that Redis does not receive in time is lost.
    fn settle(&self, check: Check<'_>, more: i64, counted_at_us: u64) {
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(self.settle_confirmed(check, more, counted_at_us));
        }
    }
}

impl Forget for RedisStore {
    type Error = Unanswered;

    async fn forget_key(&self, check: Check<'_>) -> Result<(), Unanswered> {
        self.forget(check).await
    }
}
