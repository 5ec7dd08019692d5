//! Builder of a concurrency limiter.

use std::sync::Arc;

use super::ConcurrencyLimiterLayer;
use super::limiter::{HeaderNames, Limiter, Settings, VerdictEvent};
use crate::key_resolver::KeyResolver;
use crate::limiter_builder::{BuildError, LimiterBuilder};
use tollgate_limiter::concurrency::{Concurrency, ConcurrencyError, MemorySlots, SlotStats, SlotStore, SlotTable};

/// Builder of a [`ConcurrencyLimiterLayer`]. `build` is available once there are a [limit](Builder::limit) and a
/// [key](Builder::key).
///
/// Requests without a key share the slots of one ([`MissingKey::Share`](super::MissingKey::Share)). Slots are in memory. Status,
/// headers and body are those of [`Settings::default`].
pub type Builder<L = (), K = ()> = LimiterBuilder<Settings, L, K>;

impl ConcurrencyLimiterLayer {
    /// Starts a limiter of concurrent requests per key. See [`Builder`].
    #[must_use]
    pub fn builder() -> Builder {
        Builder::default()
    }
}

impl<K> Builder<(), K> {
    /// Sets the concurrent requests per key.
    #[must_use]
    pub fn limit(self, limit: u64) -> Builder<Result<Concurrency, ConcurrencyError>, K> {
        let rule = Concurrency::new(limit);
        self.with(|(), key| (rule, key))
    }

    /// Sets the concurrent requests per key, and the life of slots in a store that several processes share.
    #[must_use]
    pub fn rule(self, rule: Concurrency) -> Builder<Result<Concurrency, ConcurrencyError>, K> {
        self.with(|(), key| (Ok(rule), key))
    }
}

impl<L, K> Builder<L, K> {
    /// Sets the store of slots, which grants as many as its own rule says. `name` separates the slots of this limiter from those of
    /// others in the store, and names the limiter in problem bodies.
    #[must_use]
    pub fn store(self, name: impl Into<Arc<str>>, store: impl SlotStore + 'static) -> Self {
        self.shared_store(name, Arc::new(store))
    }

    /// Sets the header fields.
    #[must_use]
    pub fn headers(mut self, headers: HeaderNames) -> Self {
        self.settings.headers = headers;
        self
    }

    /// Calls `hook` with each verdict, for metrics.
    #[must_use]
    pub fn on_verdict(mut self, hook: impl Fn(&VerdictEvent<'_>) + Send + Sync + 'static) -> Self {
        self.on_verdict = Some(Arc::new(hook));
        self
    }
}

impl Builder<Result<Concurrency, ConcurrencyError>, KeyResolver> {
    /// Builds the layer.
    ///
    /// # Errors
    /// The limit is 0 or too large, or the key resolver lacks a verifier of tokens.
    pub fn build(self) -> Result<ConcurrencyLimiterLayer, BuildError> {
        let builder = self.share_missing_keys().complete(|_| Vec::new())?;
        let LimiterBuilder { rules: rule, name, store, settings, on_verdict, refusals, .. } = builder;
        let rule = rule?;
        let in_memory = || Arc::new(MemorySlots::new(Arc::<SlotTable>::default(), rule, Arc::<SlotStats>::default()));
        let store = store.unwrap_or_else(|| in_memory());
        let mut limiter = Limiter::new(name, rule, settings, store);
        limiter.on_verdict = on_verdict;
        Ok(ConcurrencyLimiterLayer { limiter: Arc::new(limiter), refusals })
    }
}
