//! Builder of a concurrency limiter.

use std::sync::Arc;

use super::ConcurrencyLimiterLayer;
use super::limiter::{HeaderNames, Limiter, Settings, VerdictEvent};
use crate::key_resolver::KeyResolver;
use crate::limiter_builder::{BuildError, LimiterBuilder};
use tollgate_limiter::concurrency::{Concurrency, ConcurrencyError, MemorySlots, SlotStats, SlotStore, SlotTable};

/// Builder of a [`ConcurrencyLimiterLayer`]. `build` is available once there are a [limit](Builder::limit), or a
/// [store](Builder::store) with a limit of its own, and a [key](Builder::key).
///
/// Requests without a key share the slots of one ([`MissingKey::Share`](super::MissingKey::Share)). Status, headers and body
/// are those of [`Settings::default`].
pub type Builder<L = (), K = ()> = LimiterBuilder<Settings, L, K>;

impl ConcurrencyLimiterLayer {
    /// Starts a limiter of concurrent requests per key. See [`Builder`].
    #[must_use]
    pub fn builder() -> Builder {
        Builder::default()
    }
}

impl<K> Builder<(), K> {
    /// Sets the concurrent requests per key, whose slots are in memory.
    #[must_use]
    pub fn limit(self, limit: u64) -> Builder<Result<Concurrency, ConcurrencyError>, K> {
        let rule = Concurrency::new(limit);
        self.with(|(), key| (rule, key))
    }

    /// Sets the store of slots. Its rule has the concurrent requests per key, so it is in place of [`limit`](Self::limit). `name`
    /// separates the slots of this limiter from those of others in the store, and names the limiter in problem bodies.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate_filters::concurrency_limiter::ConcurrencyLimiterLayer;
    /// use tollgate_filters::key_resolver::KeyResolver;
    /// use tollgate_filters::limiter::concurrency::{Concurrency, MemorySlots};
    ///
    /// let slots = MemorySlots::new(Arc::default(), Concurrency::new(5)?, Arc::default());
    /// let key = KeyResolver::client_ip();
    /// let uploads = ConcurrencyLimiterLayer::builder().store("uploads", slots.clone()).key(key.clone()).build()?;
    /// let reports = ConcurrencyLimiterLayer::builder().store("reports", slots).key(key).build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// A second limit does not compile:
    ///
    /// ```compile_fail,E0599
    /// # use std::sync::Arc;
    /// # use tollgate_filters::concurrency_limiter::ConcurrencyLimiterLayer;
    /// # use tollgate_filters::limiter::concurrency::{Concurrency, MemorySlots};
    /// # let slots = MemorySlots::new(Arc::default(), Concurrency::new(1).unwrap(), Arc::default());
    /// ConcurrencyLimiterLayer::builder().limit(5).store("uploads", slots);
    /// ```
    #[must_use]
    pub fn store(
        self,
        name: impl Into<Arc<str>>,
        store: impl SlotStore + 'static,
    ) -> Builder<Result<Concurrency, ConcurrencyError>, K> {
        self.shared_store(name, Arc::new(store))
    }

    /// Sets a store of any type, as [`store`](Self::store).
    #[must_use]
    pub fn shared_store(
        self,
        name: impl Into<Arc<str>>,
        store: Arc<dyn SlotStore>,
    ) -> Builder<Result<Concurrency, ConcurrencyError>, K> {
        let rule = store.rule();
        Builder { name: name.into(), store: Some(store), ..self.with(|(), key| (Ok(rule), key)) }
    }
}

impl<L, K> Builder<L, K> {
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
