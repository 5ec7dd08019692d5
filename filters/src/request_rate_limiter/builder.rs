//! Builder of a limiter with safe defaults.

use std::num::NonZeroUsize;
use std::sync::Arc;

use http::StatusCode;

use super::cost::Cost;
use super::layer::RequestRateLimiterLayer;
use super::limits::Settings;
use crate::headers::HeaderNames;
use crate::key_resolver::KeyResolver;
use crate::reply::ErrorBody;
use tollgate_limiter::rule::Rule;
use tollgate_limiter::store::Store;
use tollgate_limiter::store::memory::MemoryStore;

/// Builder of a [`RequestRateLimiterLayer`]. [`build`](Builder::build) is available once there is a [rule](Builder::rule).
///
/// | Setting | Default | Reason |
/// |---|---|---|
/// | [`key`](Self::key) | [`KeyResolver::ip`] | the client's address needs no cooperation of the client |
/// | [`missing_key`](Self::missing_key) | [`MissingKey::Share`] | a missing key neither refuses every request nor disables the limit |
/// | [`store`](Self::store) | a memory store of 1,000,000 keys | needs no other process |
/// | [`name`](Self::name) | `default` | one limiter needs no name |
/// | [`cost`](Self::cost) | 1 | each request counts once |
///
/// Status, headers and body are those of [`Settings::default`]: 429 with Spring's headers and a problem.
#[derive(Clone)]
pub struct Builder<R = ()> {
    rule: R,
    name: Arc<str>,
    missing_key: MissingKey,
    store: Option<Arc<dyn Store>>,
    settings: Settings,
}

/// Handling of requests without a key id, such as a request without an API key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissingKey {
    /// They share one bucket.
    #[default]
    Share,
    /// They pass without a limit.
    Allow,
    /// They are refused: 403.
    Deny,
}

/// Capacity in keys of the default store.
const DEFAULT_KEYS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(999_999);

impl RequestRateLimiterLayer {
    /// Starts a limiter of one rule with safe defaults. See [`Builder`].
    #[must_use]
    pub fn builder() -> Builder {
        Builder::default()
    }
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            rule: (),
            name: "default".into(),
            missing_key: MissingKey::default(),
            store: None,
            settings: Settings { key_resolver: KeyResolver::ip(), ..Settings::default() },
        }
    }
}

impl Builder {
    /// Sets the rule of every key.
    #[must_use]
    pub fn rule(self, rule: Rule) -> Builder<Rule> {
        let Self { rule: (), name, missing_key, store, settings } = self;
        Builder { rule, name, missing_key, store, settings }
    }
}

impl<R> Builder<R> {
    /// Sets the key resolver.
    #[must_use]
    pub fn key(mut self, key: KeyResolver) -> Self {
        self.settings.key_resolver = key;
        self
    }

    /// Sets the handling of requests without a key id.
    #[must_use]
    pub fn missing_key(mut self, missing_key: MissingKey) -> Self {
        self.missing_key = missing_key;
        self
    }

    /// Sets the store, such as one that several limiters share.
    #[must_use]
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.store = Some(store);
        self
    }

    /// Sets the name: it separates the buckets from those of other limiters in the store, and names the policy.
    #[must_use]
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the cost of a request.
    #[must_use]
    pub fn cost(mut self, cost: impl Into<Cost>) -> Self {
        self.settings.cost = cost.into();
        self
    }

    /// Sets the status of denials.
    #[must_use]
    pub fn status(mut self, status: StatusCode) -> Self {
        self.settings.status = status;
        self
    }

    /// Sets the rate limit headers.
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
}

impl Builder<Rule> {
    /// Builds the layer.
    #[must_use]
    pub fn build(self) -> RequestRateLimiterLayer {
        let Self { rule, name, missing_key, store, mut settings } = self;
        match missing_key {
            MissingKey::Share => settings.key_resolver = settings.key_resolver.or_shared(),
            MissingKey::Allow => settings.deny_empty_key = false,
            MissingKey::Deny => settings.deny_empty_key = true,
        }
        let store = store.unwrap_or_else(|| Arc::new(MemoryStore::new(DEFAULT_KEYS)));
        RequestRateLimiterLayer::new(name, rule, settings, store)
    }
}
