//! Builder of limiters: the parts that all of them have.
//!
//! [`request_rate_limiter`](crate::request_rate_limiter) and [`concurrency_limiter`](crate::concurrency_limiter) add the setters
//! of their own, and have an example each.

use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body::Body;
use thiserror::Error;
use tollgate_limiter::concurrency::ConcurrencyError;
use tollgate_limiter::store::MAX_CHECKS;
use tower::BoxError;

use crate::key_resolver::{KeyResolver, MissingKey};
use crate::refusal::{ErrorFormat, Refusal, RefusalResponses};
use crate::reply::ErrorBody;

/// Builder of the limiter with the settings `S`. `build` is available once there are its rules `R` and its key `K`.
///
/// The modules of the limiters name it `Builder<R, K>`.
#[derive(Clone)]
pub struct LimiterBuilder<S: LimiterSettings, R = (), K = ()> {
    pub(crate) rules: R,
    pub(crate) key: K,
    pub(crate) name: Arc<str>,
    pub(crate) missing_key: MissingKey,
    pub(crate) store: Option<Arc<S::Store>>,
    pub(crate) settings: S,
    pub(crate) on_verdict: Option<Arc<S::OnVerdict>>,
    pub(crate) refusals: RefusalResponses,
}

/// Settings of a limiter of this crate.
pub trait LimiterSettings: Default {
    /// Store of the limiter.
    type Store: ?Sized;
    /// Hook for verdicts.
    type OnVerdict: ?Sized;

    /// Returns the settings that all limiters have.
    fn shared(&mut self) -> SharedSettings<'_>;
}

/// Settings that all limiters have.
#[derive(Debug)]
pub struct SharedSettings<'s> {
    pub(crate) key_resolver: &'s mut KeyResolver,
    pub(crate) deny_empty_key: &'s mut bool,
    pub(crate) status: &'s mut StatusCode,
    pub(crate) error_body: &'s mut ErrorBody,
    pub(crate) error_format: &'s mut ErrorFormat,
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
    /// Two rules of a set have one scope and one algorithm, so that a request would be counted once for both.
    #[error("two rules share the scope `{0}` and its buckets: give each a scope of its own")]
    SharedScope(String),
    /// The cost of a request under a rule is 0, so that the rule limits nothing, or its `max` is below its `tokens`.
    #[error(
        "the cost under rule `{0}` limits nothing: `tokens` and `unit` must be at least 1, and `max` at least `tokens`"
    )]
    InvalidCost(Arc<str>),
    /// The limit of concurrent requests is 0, or too large.
    #[error(transparent)]
    Limit(#[from] ConcurrencyError),
    /// A key resolver reads claims of tokens that nothing verifies, so that no request has a key.
    #[error("the key resolver `{0}` has no verifier of tokens: set one with `KeyResolver::with_jwt`")]
    NeedsVerifier(String),
    /// A key resolver is a list without parts, so that no request has a key.
    #[error("the key resolver is a list without parts, so that no request has a key: add a part")]
    NoKeyParts,
}

impl<S: LimiterSettings> Default for LimiterBuilder<S> {
    fn default() -> Self {
        Self {
            rules: (),
            key: (),
            name: "default".into(),
            missing_key: MissingKey::default(),
            store: None,
            settings: S::default(),
            on_verdict: None,
            refusals: RefusalResponses::default(),
        }
    }
}

impl<S: LimiterSettings, R> LimiterBuilder<S, R> {
    /// Sets the key resolver.
    #[must_use]
    pub fn key(self, key: KeyResolver) -> LimiterBuilder<S, R, KeyResolver> {
        self.with(|rules, ()| (rules, key))
    }

    /// Sets every setting, the key resolver included.
    #[must_use]
    pub fn settings(mut self, mut settings: S) -> LimiterBuilder<S, R, KeyResolver> {
        let SharedSettings { key_resolver, deny_empty_key, .. } = settings.shared();
        let key = key_resolver.clone();
        self.missing_key = if *deny_empty_key { MissingKey::Deny } else { MissingKey::Allow };
        self.settings = settings;
        self.key(key)
    }
}

impl<S: LimiterSettings, R, K> LimiterBuilder<S, R, K> {
    /// Replaces the rules and the key.
    pub(crate) fn with<Q, L>(self, replace: impl FnOnce(R, K) -> (Q, L)) -> LimiterBuilder<S, Q, L> {
        let Self { rules, key, name, missing_key, store, settings, on_verdict, refusals } = self;
        let (rules, key) = replace(rules, key);
        LimiterBuilder { rules, key, name, missing_key, store, settings, on_verdict, refusals }
    }

    /// Sets the handling of requests without a key id.
    #[must_use]
    pub fn missing_key(mut self, missing_key: MissingKey) -> Self {
        self.missing_key = missing_key;
        self
    }

    /// Sets the status of denials.
    #[must_use]
    pub fn status(mut self, status: StatusCode) -> Self {
        *self.settings.shared().status = status;
        self
    }

    /// Sets the body of refusals.
    #[must_use]
    pub fn error_body(mut self, error_body: ErrorBody) -> Self {
        *self.settings.shared().error_body = error_body;
        self
    }

    /// Sets the format of refusals for clients of gRPC.
    #[must_use]
    pub fn error_format(mut self, format: ErrorFormat) -> Self {
        *self.settings.shared().error_format = format;
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
}

impl<S: LimiterSettings, R> LimiterBuilder<S, R, KeyResolver> {
    /// Gives requests without a key id a shared one, if that is their handling.
    pub(crate) fn share_missing_keys(self) -> Self {
        match self.missing_key {
            MissingKey::Share => self.with(|rules, key| (rules, key.or_shared())),
            MissingKey::Allow | MissingKey::Deny => self,
        }
    }

    /// Completes the settings. `keys` returns the key resolvers that the limiter has beside its own.
    ///
    /// # Errors
    /// A key resolver lacks a verifier of tokens, or has no parts.
    pub(crate) fn complete(mut self, keys: impl FnOnce(&R) -> Vec<&KeyResolver>) -> Result<Self, BuildError> {
        for key in keys(&self.rules).into_iter().chain([&self.key]) {
            if key.needs_verifier() {
                return Err(BuildError::NeedsVerifier(key.to_string()));
            }
            if key.has_no_parts() {
                return Err(BuildError::NoKeyParts);
            }
        }
        let SharedSettings { key_resolver, deny_empty_key, error_format, .. } = self.settings.shared();
        key_resolver.clone_from(&self.key);
        *deny_empty_key = self.missing_key != MissingKey::Allow;
        self.refusals.set_format(*error_format);
        Ok(self)
    }
}

impl<S: LimiterSettings, R, K> std::fmt::Debug for LimiterBuilder<S, R, K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LimiterBuilder").field("name", &self.name).finish_non_exhaustive()
    }
}
