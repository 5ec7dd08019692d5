//! Builder of a concurrency limiter.

use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body::Body;
use thiserror::Error;
use tower::BoxError;

use super::ConcurrencyLimiterLayer;
use super::limiter::{HeaderNames, Limiter, OnVerdict, Settings, VerdictEvent};
use crate::key_resolver::{KeyResolver, MissingKey};
use crate::refusal::{ErrorFormat, Refusal, RefusalResponses};
use crate::reply::ErrorBody;
use tollgate_limiter::concurrency::{Concurrency, ConcurrencyError, MemorySlots, SlotStats, SlotStore, SlotTable};

/// Builder of a [`ConcurrencyLimiterLayer`]. [`build`](Builder::build) is available once there are a [limit](Builder::limit)
/// and a [key](Builder::key).
///
/// Requests without a key share the slots of one ([`MissingKey::Share`]). Slots are in memory. Status, headers and body are those
/// of [`Settings::default`].
#[derive(Clone)]
pub struct Builder<L = (), K = ()> {
    rule: L,
    key: K,
    name: Arc<str>,
    missing_key: MissingKey,
    store: Option<Arc<dyn SlotStore>>,
    settings: Settings,
    on_verdict: Option<OnVerdict>,
    refusals: RefusalResponses,
}

/// Reason why a limiter cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The limit is 0, or too large.
    #[error(transparent)]
    Limit(#[from] ConcurrencyError),
    /// The key resolver reads claims of tokens that nothing verifies, so that no request has a key.
    #[error("the key resolver `{0}` has no verifier of tokens: set one with `KeyResolver::with_jwt`")]
    NeedsVerifier(String),
}

impl ConcurrencyLimiterLayer {
    /// Starts a limiter of concurrent requests per key. See [`Builder`].
    #[must_use]
    pub fn builder() -> Builder {
        Builder {
            rule: (),
            key: (),
            name: "default".into(),
            missing_key: MissingKey::default(),
            store: None,
            settings: Settings::default(),
            on_verdict: None,
            refusals: RefusalResponses::default(),
        }
    }
}

impl<K> Builder<(), K> {
    /// Sets the concurrent requests per key.
    #[must_use]
    pub fn limit(self, limit: u64) -> Builder<Result<Concurrency, ConcurrencyError>, K> {
        let rule = Concurrency::new(limit, Concurrency::TTL, None);
        self.with(|(), key| (rule, key))
    }

    /// Sets the concurrent requests per key, and the life of slots in a store that several processes share.
    #[must_use]
    pub fn rule(self, rule: Concurrency) -> Builder<Result<Concurrency, ConcurrencyError>, K> {
        self.with(|(), key| (Ok(rule), key))
    }
}

impl<L> Builder<L, ()> {
    /// Sets the key resolver.
    #[must_use]
    pub fn key(self, key: KeyResolver) -> Builder<L, KeyResolver> {
        self.with(|rule, ()| (rule, key))
    }

    /// Sets every setting, the key resolver included.
    #[must_use]
    pub fn settings(mut self, settings: Settings) -> Builder<L, KeyResolver> {
        let key = settings.key_resolver.clone();
        self.missing_key = if settings.deny_empty_key { MissingKey::Deny } else { MissingKey::Allow };
        self.settings = settings;
        self.key(key)
    }
}

impl<L, K> Builder<L, K> {
    /// Replaces the rule and the key.
    fn with<M, J>(self, replace: impl FnOnce(L, K) -> (M, J)) -> Builder<M, J> {
        let Self { rule, key, name, missing_key, store, settings, on_verdict, refusals } = self;
        let (rule, key) = replace(rule, key);
        Builder { rule, key, name, missing_key, store, settings, on_verdict, refusals }
    }

    /// Sets the handling of requests without a key id.
    #[must_use]
    pub fn missing_key(mut self, missing_key: MissingKey) -> Self {
        self.missing_key = missing_key;
        self
    }

    /// Sets the store of slots, which grants as many as its own rule says. `name` separates the slots of this limiter from those of
    /// others in the store, and names the limiter in problem bodies.
    #[must_use]
    pub fn store(self, name: impl Into<Arc<str>>, store: impl SlotStore + 'static) -> Self {
        self.shared_store(name, Arc::new(store))
    }

    /// Sets a store that is shared, as [`store`](Self::store).
    #[must_use]
    pub fn shared_store(mut self, name: impl Into<Arc<str>>, store: Arc<dyn SlotStore>) -> Self {
        self.name = name.into();
        self.store = Some(store);
        self
    }

    /// Sets the status of denials.
    #[must_use]
    pub fn status(mut self, status: StatusCode) -> Self {
        self.settings.status = status;
        self
    }

    /// Sets the header fields.
    #[must_use]
    pub fn headers(mut self, headers: HeaderNames) -> Self {
        self.settings.headers = headers;
        self
    }

    /// Sets the body of refusals.
    #[must_use]
    pub fn error_body(mut self, error_body: ErrorBody) -> Self {
        self.settings.error_body = error_body;
        self
    }

    /// Sets the format of refusals for clients of gRPC.
    #[must_use]
    pub fn error_format(mut self, format: ErrorFormat) -> Self {
        self.settings.error_format = format;
        self
    }

    /// Calls `hook` with each verdict, for metrics.
    #[must_use]
    pub fn on_verdict(mut self, hook: impl Fn(&VerdictEvent<'_>) + Send + Sync + 'static) -> Self {
        self.on_verdict = Some(Arc::new(hook));
        self
    }

    /// Makes the response to every refused request by `respond`: 429, 403 and 503. The limiter adds its header fields unless the
    /// response has them. Clients of gRPC get an error of gRPC instead, unless [`error_format`](Self::error_format) is
    /// [`ErrorFormat::Http`].
    #[must_use]
    pub fn on_refusal<F, B>(mut self, respond: F) -> Self
    where
        F: Fn(&Refusal) -> Response<B> + Send + Sync + 'static,
        B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        self.refusals.respond_with(respond);
        self
    }
}

impl Builder<Result<Concurrency, ConcurrencyError>, KeyResolver> {
    /// Builds the layer.
    ///
    /// # Errors
    /// The limit is 0 or too large, or the key resolver lacks a verifier of tokens.
    pub fn build(self) -> Result<ConcurrencyLimiterLayer, BuildError> {
        let Self { rule, key, name, missing_key, store, mut settings, on_verdict, mut refusals } = self;
        let rule = rule?;
        #[cfg(feature = "jwt")]
        if key.needs_verifier() {
            return Err(BuildError::NeedsVerifier(key.to_string()));
        }
        settings.key_resolver = match missing_key {
            MissingKey::Share => key.or_shared(),
            MissingKey::Allow | MissingKey::Deny => key,
        };
        settings.deny_empty_key = missing_key != MissingKey::Allow;
        refusals.set_format(settings.error_format);
        let in_memory = || Arc::new(MemorySlots::new(Arc::<SlotTable>::default(), rule, Arc::<SlotStats>::default()));
        let store = store.unwrap_or_else(|| in_memory());
        let mut limiter = Limiter::new(name, rule, settings, store);
        limiter.on_verdict = on_verdict;
        Ok(ConcurrencyLimiterLayer { limiter: Arc::new(limiter), refusals })
    }
}

crate::opaque_debug!(Builder<L, K>);
