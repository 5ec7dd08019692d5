//! Builder of a limiter with safe defaults.

use std::num::NonZeroUsize;
use std::sync::Arc;

use http::StatusCode;
use thiserror::Error;

use super::cost::Cost;
use super::enforcement::Enforcement;
use super::layer::RequestRateLimiterLayer;
use super::limits::{Limit, RuleSets, Settings};
use crate::headers::HeaderNames;
use crate::key_resolver::KeyResolver;
use crate::reply::ErrorBody;
use tollgate_limiter::rule::Rule;
use tollgate_limiter::store::memory::MemoryStore;
use tollgate_limiter::store::{MAX_CHECKS, Store};

/// Builder of a [`RequestRateLimiterLayer`]. [`build`](Builder::build) is available once there are [rules](Builder::rules)
/// and a [key](Builder::key).
///
/// | Setting | Default | Reason |
/// |---|---|---|
/// | [`missing_key`](Self::missing_key) | [`MissingKey::Share`] | a missing key neither refuses every request nor disables the limit |
/// | [`store`](Self::store) | a memory store of 1,000,000 keys | needs no other process |
/// | [`cost`](Self::cost) | 1 | each request counts once |
/// | [`enforcement`](Self::enforcement) | [`Enforcement::FULL`] | a limit limits |
///
/// A key has no default: a service behind tower has no client address unless its server adds one, and then all clients
/// would share one bucket. Status, headers and body are those of [`Settings::default`]: 429 with Spring's headers and a problem.
#[derive(Clone)]
pub struct Builder<R = (), K = ()> {
    rules: R,
    key: K,
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

/// Reason why a limiter cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The list of rules is empty.
    #[error("a limiter without rules limits nothing: add a rule")]
    NoRules,
    /// A list has more rules than a store decides in one call.
    #[error("a limiter has at most {MAX_CHECKS} rules, got {0}: add a second limiter, which is decided after this one")]
    TooManyRules(usize),
    /// The key resolver reads claims of tokens that nothing verifies, so that no request has a key.
    #[error("the key resolver `{0}` has no verifier of tokens: set one with `KeyResolver::with_jwt`")]
    NeedsVerifier(String),
}

/// Capacity in keys of the default store.
const DEFAULT_KEYS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(999_999);

impl RequestRateLimiterLayer {
    /// Starts a limiter with safe defaults. See [`Builder`].
    #[must_use]
    pub fn builder() -> Builder {
        Builder::default()
    }
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            rules: (),
            key: (),
            name: "default".into(),
            missing_key: MissingKey::default(),
            store: None,
            settings: Settings::default(),
        }
    }
}

impl<K> Builder<(), K> {
    /// Sets the only rule of every key.
    #[must_use]
    pub fn rule(self, rule: impl Into<Rule>) -> Builder<Vec<Rule>, K> {
        self.rules([rule.into()])
    }

    /// Sets the rules of every key. A request takes its cost under all of them, or under none. Problem bodies call them
    /// `NAME#0`, `NAME#1` …
    #[must_use]
    pub fn rules(self, rules: impl IntoIterator<Item = Rule>) -> Builder<Vec<Rule>, K> {
        let Self { rules: (), key, name, missing_key, store, settings } = self;
        Builder { rules: rules.into_iter().collect(), key, name, missing_key, store, settings }
    }
}

impl<R> Builder<R, ()> {
    /// Sets the key resolver.
    #[must_use]
    pub fn key(self, key: KeyResolver) -> Builder<R, KeyResolver> {
        let Self { rules, key: (), name, missing_key, store, settings } = self;
        Builder { rules, key, name, missing_key, store, settings }
    }
}

impl<R, K> Builder<R, K> {
    /// Sets the handling of requests without a key id.
    #[must_use]
    pub fn missing_key(mut self, missing_key: MissingKey) -> Self {
        self.missing_key = missing_key;
        self
    }

    /// Sets the store, which may be shared: pass an `Arc` of it. `name` separates the buckets of this limiter from those of
    /// others in the store. Limiters with one name and one store share their buckets.
    #[must_use]
    pub fn store(mut self, name: impl Into<Arc<str>>, store: impl Store + 'static) -> Self {
        self.name = name.into();
        self.store = Some(Arc::new(store));
        self
    }

    /// Sets the cost of a request.
    #[must_use]
    pub fn cost(mut self, cost: impl Into<Cost>) -> Self {
        self.settings.cost = cost.into();
        self
    }

    /// Sets the keys that are limited; others are observed.
    #[must_use]
    pub fn enforcement(mut self, enforcement: Enforcement) -> Self {
        self.settings.enforcement = enforcement;
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

impl Builder<Vec<Rule>, KeyResolver> {
    /// Builds the layer.
    ///
    /// # Errors
    /// The number of rules is 0 or above [`MAX_CHECKS`], or the key resolver lacks a verifier of tokens.
    pub fn build(self) -> Result<RequestRateLimiterLayer, BuildError> {
        let Self { rules, key, name, missing_key, store, mut settings } = self;
        #[cfg(feature = "jwt")]
        if key.needs_verifier() {
            return Err(BuildError::NeedsVerifier(key.to_string()));
        }
        settings.key_resolver = match missing_key {
            MissingKey::Share => key.or_shared(),
            MissingKey::Allow | MissingKey::Deny => key,
        };
        settings.deny_empty_key = missing_key != MissingKey::Allow;
        let is_single = rules.len() == 1;
        let limit = |(at, rule)| {
            let name = if is_single { Arc::clone(&name) } else { format!("{name}#{at}").into() };
            Limit {
                name: Arc::clone(&name),
                scope: name,
                rule,
                key_resolver: settings.key_resolver.clone(),
                cost: settings.cost.clone(),
                enforcement: Enforcement::FULL,
                condition: None,
            }
        };
        let default: Vec<Limit> = rules.into_iter().enumerate().map(limit).collect();
        if default.is_empty() {
            return Err(BuildError::NoRules);
        }
        let store = store.unwrap_or_else(|| Arc::new(MemoryStore::new(DEFAULT_KEYS)));
        RequestRateLimiterLayer::with_rules(&name, RuleSets { default, plans: None }, settings, store)
    }
}
