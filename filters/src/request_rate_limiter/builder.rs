//! Builder of a limiter with safe defaults.

use std::num::NonZeroUsize;
use std::sync::Arc;

use super::cost::Cost;
use super::enforcement::Enforcement;
use super::event::{OnVerdict, VerdictEvent};
use super::layer::RequestRateLimiterLayer;
use super::limiter::Limiter;
use super::limits::{Limit, RuleSets, Settings};
use crate::headers::HeaderNames;
use crate::key_resolver::KeyResolver;
use crate::limiter_builder::{BuildError, LimiterBuilder, LimiterSettings, SharedSettings};
use tollgate_limiter::rule::Rule;
use tollgate_limiter::store::memory::MemoryStore;
use tollgate_limiter::store::{MAX_CHECKS, Store};

/// Builder of a [`RequestRateLimiterLayer`]. `build` is available once there are [rules](Builder::rules) and a
/// [key](Builder::key).
///
/// | Setting | Default | Reason |
/// |---|---|---|
/// | [`missing_key`](Builder::missing_key) | [`MissingKey::Share`](super::MissingKey::Share) | a missing key neither refuses every request nor disables the limit |
/// | [`store`](Builder::store) | a memory store of 1,000,000 keys | needs no other process |
/// | [`cost`](Builder::cost) | 1 | each request counts once |
/// | [`enforcement`](Builder::enforcement) | [`Enforcement::FULL`] | a limit limits |
///
/// A key has no default: a service behind tower has no client address unless its server adds one, and then all clients
/// would share one bucket. Status, headers and body are those of [`Settings::default`]: 429 with Spring's headers and a problem.
///
/// ```
/// use std::time::Duration;
///
/// use bytes::Bytes;
/// use http::Response;
/// use http_body_util::Full;
/// use tollgate_filters::key_resolver::KeyResolver;
/// use tollgate_filters::request_rate_limiter::{Enforcement, RequestRateLimiterLayer};
/// use tollgate_filters::limiter::rule::{Align, FixedWindow, TokenBucket};
///
/// const DAY: Duration = Duration::from_secs(86_400);
///
/// let limiter = RequestRateLimiterLayer::builder()
///     .rules([TokenBucket::per_second(10, 20)?.into(), FixedWindow::new(1_000, DAY, Align::Clock)?.into()])
///     .key(KeyResolver::from_fn(|head| head.headers.get("x-api-key")))
///     .enforcement(Enforcement::OBSERVE)
///     .on_verdict(|event| println!("{:?} {:?} {}", event.rule, event.key, event.kind.as_str()))
///     .on_refusal(|refusal| Response::new(Full::<Bytes>::from(refusal.reason)))
///     .build()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type Builder<R = (), K = ()> = LimiterBuilder<Settings, R, K>;

impl LimiterSettings for Settings {
    type Store = dyn Store;
    type OnVerdict = OnVerdict;

    fn shared(&mut self) -> SharedSettings<'_> {
        let Self { key_resolver, deny_empty_key, status, error_body, error_format, .. } = self;
        SharedSettings { key_resolver, deny_empty_key, status, error_body, error_format }
    }
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
        let rules = rules.into_iter().collect();
        self.with(|(), key| (rules, key))
    }

    /// Sets rules with names, keys, costs and conditions of their own, and sets of rules by plan.
    #[must_use]
    pub fn rule_sets(self, sets: RuleSets) -> Builder<RuleSets, K> {
        self.with(|(), key| (sets, key))
    }
}

impl<R, K> Builder<R, K> {
    /// Sets the store, which may be shared: pass an `Arc` of it. `name` separates the buckets of this limiter from those of
    /// others in the store. Limiters with one name and one store share their buckets.
    #[must_use]
    pub fn store(self, name: impl Into<Arc<str>>, store: impl Store + 'static) -> Self {
        self.shared_store(name, Arc::new(store))
    }

    /// Sets a store of any type, as [`store`](Self::store).
    #[must_use]
    pub fn shared_store(mut self, name: impl Into<Arc<str>>, store: Arc<dyn Store>) -> Self {
        self.name = name.into();
        self.store = Some(store);
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

    /// Sets the rate limit headers.
    #[must_use]
    pub fn headers(mut self, headers: HeaderNames) -> Self {
        self.settings.headers = headers;
        self
    }

    /// Calls `hook` with each verdict, for metrics: the name of the rule, the key and the outcome.
    #[must_use]
    pub fn on_verdict(mut self, hook: impl Fn(&VerdictEvent<'_>) + Send + Sync + 'static) -> Self {
        self.on_verdict = Some(Arc::new(hook));
        self
    }
}

impl Builder<Vec<Rule>, KeyResolver> {
    /// Builds the layer.
    ///
    /// # Errors
    /// The number of rules is 0 or above [`MAX_CHECKS`], the cost is 0, or the key resolver lacks a verifier of
    /// tokens.
    pub fn build(self) -> Result<RequestRateLimiterLayer, BuildError> {
        let builder = self.share_missing_keys();
        let (base, cost, is_single) =
            (Arc::clone(&builder.name), builder.settings.cost.clone(), builder.rules.len() == 1);
        let key_resolver = builder.key.clone();
        let limit = |(at, rule)| {
            let name = if is_single { Arc::clone(&base) } else { format!("{base}#{at}").into() };
            Limit {
                name: Arc::clone(&name),
                scope: name,
                rule,
                key_resolver: key_resolver.clone(),
                cost: cost.clone(),
                enforcement: Enforcement::FULL,
                condition: None,
            }
        };
        let sets =
            |rules: Vec<_>| RuleSets { default: rules.into_iter().enumerate().map(limit).collect(), plans: None };
        builder.with(|rules, key| (sets(rules), key)).build()
    }
}

impl Builder<RuleSets, KeyResolver> {
    /// Builds the layer. Rules of a set keep their key resolvers: the one of the builder identifies clients of plans and of
    /// access lists.
    ///
    /// # Errors
    /// There is no rule, a set has more than [`MAX_CHECKS`], two of them share their buckets, a cost is 0, or a key resolver
    /// lacks a verifier of tokens.
    pub fn build(self) -> Result<RequestRateLimiterLayer, BuildError> {
        if self.rules.rules().next().is_none() {
            return Err(BuildError::NoRules);
        }
        if let Some(limit) = self.rules.rules().find(|limit| !limit.cost.is_valid()) {
            return Err(BuildError::InvalidCost(Arc::clone(&limit.name)));
        }
        if self.rules.longest() > MAX_CHECKS {
            return Err(BuildError::TooManyRules(self.rules.longest()));
        }
        if let Some(scope) = self.rules.shared_scope() {
            return Err(BuildError::SharedScope(scope.to_owned()));
        }
        let builder = self.complete(RuleSets::key_resolvers)?;
        let LimiterBuilder { rules, name, store, settings, on_verdict, refusals, .. } = builder;
        let store = store.unwrap_or_else(|| Arc::new(MemoryStore::new(DEFAULT_KEYS)));
        let mut limiter = Limiter::new(&name, rules, settings, store);
        limiter.on_verdict = on_verdict;
        Ok(RequestRateLimiterLayer::new(limiter, refusals))
    }
}
