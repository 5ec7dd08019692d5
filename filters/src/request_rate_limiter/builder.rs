//! Builder of a limiter with safe defaults.

use std::num::NonZeroUsize;
use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body::Body;
use tower::BoxError;

use super::build_error::BuildError;
use super::cost::Cost;
use super::enforcement::Enforcement;
use super::event::{OnVerdict, VerdictEvent};
use super::layer::RequestRateLimiterLayer;
use super::limiter::Limiter;
use super::limits::{Limit, RuleSets, Settings};
use crate::headers::HeaderNames;
use crate::key_resolver::{KeyResolver, MissingKey};
use crate::refusal::{ErrorFormat, Refusal, RefusalResponses};
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
///
/// ```
/// use std::time::Duration;
///
/// use bytes::Bytes;
/// use http::Response;
/// use http_body_util::Full;
/// use tollgate_filters::key_resolver::KeyResolver;
/// use tollgate_filters::request_rate_limiter::{Enforcement, RequestRateLimiterLayer};
/// use tollgate_limiter::rule::{Align, FixedWindow, TokenBucket};
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
#[derive(Clone)]
pub struct Builder<R = (), K = ()> {
    rules: R,
    key: K,
    name: Arc<str>,
    missing_key: MissingKey,
    store: Option<Arc<dyn Store>>,
    settings: Settings,
    on_verdict: Option<OnVerdict>,
    refusals: RefusalResponses,
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
            on_verdict: None,
            refusals: RefusalResponses::default(),
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
        let rules = rules.into_iter().collect();
        self.with(|(), key| (rules, key))
    }

    /// Sets rules with names, keys, costs and conditions of their own, and sets of rules by plan.
    #[must_use]
    pub fn rule_sets(self, sets: RuleSets) -> Builder<RuleSets, K> {
        self.with(|(), key| (sets, key))
    }
}

impl<R> Builder<R, ()> {
    /// Sets the key resolver.
    #[must_use]
    pub fn key(self, key: KeyResolver) -> Builder<R, KeyResolver> {
        self.with(|rules, ()| (rules, key))
    }

    /// Sets every setting, the key resolver included.
    #[must_use]
    pub fn settings(mut self, settings: Settings) -> Builder<R, KeyResolver> {
        let key = settings.key_resolver.clone();
        self.missing_key = if settings.deny_empty_key { MissingKey::Deny } else { MissingKey::Allow };
        self.settings = settings;
        self.key(key)
    }
}

impl<R, K> Builder<R, K> {
    /// Replaces the rules and the key.
    fn with<Q, L>(self, replace: impl FnOnce(R, K) -> (Q, L)) -> Builder<Q, L> {
        let Self { rules, key, name, missing_key, store, settings, on_verdict, refusals } = self;
        let (rules, key) = replace(rules, key);
        Builder { rules, key, name, missing_key, store, settings, on_verdict, refusals }
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

    /// Calls `hook` with each verdict, for metrics: the name of the rule, the key and the outcome.
    #[must_use]
    pub fn on_verdict(mut self, hook: impl Fn(&VerdictEvent<'_>) + Send + Sync + 'static) -> Self {
        self.on_verdict = Some(Arc::new(hook));
        self
    }

    /// Makes the response to every refused request by `respond`: 429, 403 and 503. The limiter adds its header fields, such as
    /// `Retry-After`, unless the response has them. Clients of gRPC get an error of gRPC instead, unless
    /// [`error_format`](Self::error_format) is [`ErrorFormat::Http`].
    #[must_use]
    pub fn on_refusal<F, B>(mut self, respond: F) -> Self
    where
        F: Fn(&Refusal) -> Response<B> + Send + Sync + 'static,
        B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        self.refusals.respond_with(respond);
        self
    }

    /// Sets the format of refusals for clients of gRPC.
    #[must_use]
    pub fn error_format(mut self, format: ErrorFormat) -> Self {
        self.settings.error_format = format;
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
        if self.rules.is_empty() {
            return Err(BuildError::NoRules);
        }
        let key_resolver = match self.missing_key {
            MissingKey::Share => self.key.clone().or_shared(),
            MissingKey::Allow | MissingKey::Deny => self.key.clone(),
        };
        let (base, cost, is_single) = (Arc::clone(&self.name), self.settings.cost.clone(), self.rules.len() == 1);
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
        self.with(|rules, _| {
            let default = rules.into_iter().enumerate().map(limit).collect();
            (RuleSets { default, plans: None }, key_resolver.clone())
        })
        .build()
    }
}

impl Builder<RuleSets, KeyResolver> {
    /// Builds the layer. Rules of a set keep their key resolvers: the one of the builder identifies clients of plans and of
    /// access lists.
    ///
    /// # Errors
    /// A set has more rules than [`MAX_CHECKS`], or a key resolver lacks a verifier of tokens.
    pub fn build(self) -> Result<RequestRateLimiterLayer, BuildError> {
        let Self { rules, key, name, missing_key, store, mut settings, on_verdict, mut refusals } = self;
        if rules.longest() > MAX_CHECKS {
            return Err(BuildError::TooManyRules(rules.longest()));
        }
        #[cfg(feature = "jwt")]
        if let Some(key) = rules.rules().map(|limit| &limit.key_resolver).chain([&key]).find(|key| key.needs_verifier())
        {
            return Err(BuildError::NeedsVerifier(key.to_string()));
        }
        settings.key_resolver = key;
        settings.deny_empty_key = missing_key != MissingKey::Allow;
        refusals.set_format(settings.error_format);
        let store = store.unwrap_or_else(|| Arc::new(MemoryStore::new(DEFAULT_KEYS)));
        let mut limiter = Limiter::new(&name, rules, settings, store);
        limiter.on_verdict = on_verdict;
        Ok(RequestRateLimiterLayer::new(limiter, refusals))
    }
}

crate::opaque_debug!(Builder<R, K>);
