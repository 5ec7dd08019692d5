//! The filters of a route, and what the gateway must know of each.

use std::sync::Arc;

use tollgate_filters::edit::Edit;
use tollgate_filters::key_resolver::KeyResolver;
use tollgate_filters::{
    circuit_breaker, fallback_headers, local_response_cache, redirect_to, remove_json_attributes, request_header_size,
    retry, secure_headers, set_status,
};

use crate::concurrency_limiter::ConcurrencyLimiter;
use crate::rate_limiter::model::RateLimiter;
use crate::request_counter::RequestCounter;

/// One filter of a route.
#[derive(Clone, Debug)]
pub enum Filter {
    /// A change of path or headers.
    Edit(Edit),
    /// Answers with a redirect.
    RedirectTo(redirect_to::Settings),
    /// Replaces the response's status.
    SetStatus(set_status::Settings),
    /// Refuses bodies of more bytes.
    RequestSize(u64),
    /// Refuses headers that are too large.
    RequestHeaderSize(request_header_size::Settings),
    /// Adds headers to answers.
    SecureHeaders(secure_headers::Settings),
    /// Takes attributes out of JSON answers.
    RemoveJsonAttributes(remove_json_attributes::Settings),
    /// Keeps answers.
    LocalResponseCache(ResponseCache),
    /// Limits the rate of requests.
    RequestRateLimiter(Box<RateLimiter>),
    /// Counts use.
    RequestCounter(Box<RequestCounter>),
    /// Limits how many requests are under way at once.
    ConcurrencyLimiter(Box<ConcurrencyLimiter>),
    /// Runs requests that failed again.
    Retry(Box<retry::Settings>),
    /// Asks an upstream that fails no more, for a while.
    CircuitBreaker(Box<CircuitBreaker>),
    /// Tells a fallback what went wrong.
    FallbackHeaders(fallback_headers::HeaderNames),
}

/// Where a filter stands among its route's, whatever its position in the file (Spring's `Ordered`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// Before all others: what answers without them.
    First,
    /// Where it is listed.
    Listed,
    /// Behind all others: what replaces the whole target of the request.
    Last,
}

/// Where a route's answers are kept, and for how long.
#[derive(Clone, Debug)]
pub struct ResponseCache {
    /// For how long, and what clients may ask of it.
    pub settings: local_response_cache::Settings,
    /// Bytes that are kept.
    pub max_bytes: u64,
    /// Whether routes share it that have none of their own.
    pub is_shared: bool,
    /// Tells the route from what it was under another configuration, whose answers are not its own.
    pub identity: u64,
}

/// One circuit breaker of a route.
#[derive(Clone, Debug)]
pub struct CircuitBreaker {
    /// The name under which routes share it; `None`: the route's id.
    pub name: Option<Arc<str>>,
    /// When it opens and closes; the same wherever the name is.
    pub rules: circuit_breaker::Rules,
    /// What counts as a failure, and what is answered then.
    pub settings: circuit_breaker::Settings,
    /// Where requests go that it does not answer.
    pub fallback: Option<Forward>,
}

/// Another place within the gateway.
#[derive(Clone, Debug)]
pub struct Forward {
    /// Puts its path into a request.
    pub path: Edit,
    /// Its query; `None`: the request's own.
    pub query: Option<Box<str>>,
    /// Its path, where that is the same for all requests.
    pub known: Option<Box<str>>,
}

impl Filter {
    /// Where it stands among its route's filters.
    #[must_use]
    pub fn place(&self) -> Place {
        match self {
            Self::Edit(edit) if edit.runs_last() => Place::Last,
            Self::LocalResponseCache(_) => Place::First,
            _ => Place::Listed,
        }
    }

    /// Whether it reads [`RequestContext`](tollgate_filters::context::RequestContext).
    #[must_use]
    pub fn needs_context(&self) -> bool {
        match self {
            Self::RequestRateLimiter(limiter) => limiter.needs_context(),
            Self::RequestCounter(counter) => counter.key_resolver.needs_context(),
            Self::ConcurrencyLimiter(limiter) => limiter.settings.key_resolver.needs_context(),
            other => other.needs_variables(),
        }
    }

    /// Whether it reads URI template variables.
    #[must_use]
    pub fn needs_variables(&self) -> bool {
        match self {
            Self::Edit(edit) => edit.needs_variables(),
            Self::RequestRateLimiter(limiter) => limiter.key_resolvers().any(KeyResolver::needs_variables),
            Self::RequestCounter(counter) => counter.key_resolver.needs_variables(),
            Self::ConcurrencyLimiter(limiter) => limiter.settings.key_resolver.needs_variables(),
            Self::CircuitBreaker(breaker) => breaker.fallback.as_ref().is_some_and(|to| to.path.needs_variables()),
            _ => false,
        }
    }

    /// The URI template variables that it reads by name.
    #[must_use]
    pub fn variables(&self) -> Vec<&str> {
        match self {
            Self::Edit(edit) => edit.variables(),
            Self::RequestRateLimiter(limiter) => {
                let of_rules = limiter.limits().filter_map(|limit| limit.key_resolver.as_ref());
                let resolvers = std::iter::once(&limiter.settings.key_resolver).chain(of_rules);
                resolvers.flat_map(KeyResolver::variables).collect()
            }
            Self::RequestCounter(counter) => counter.key_resolver.variables(),
            Self::ConcurrencyLimiter(limiter) => limiter.settings.key_resolver.variables(),
            Self::CircuitBreaker(breaker) => breaker.fallback.as_ref().map_or(Vec::new(), |to| to.path.variables()),
            _ => Vec::new(),
        }
    }

    /// Whether it may send a request to another route.
    #[must_use]
    pub fn reroutes(&self) -> bool {
        match self {
            Self::RequestRateLimiter(limiter) => limiter.forwards(),
            Self::CircuitBreaker(breaker) => breaker.fallback.is_some(),
            _ => false,
        }
    }

    /// Whether it may drop an answer and run its request again, or elsewhere.
    #[must_use]
    pub fn drops_answers(&self) -> bool {
        matches!(self, Self::Retry(_)) || matches!(self, Self::CircuitBreaker(breaker) if breaker.fallback.is_some())
    }

    /// Whether it changes upstreams' answers, or judges by them, and must tell them from the gateway's own.
    #[must_use]
    pub fn acts_on_answers(&self) -> bool {
        match self {
            Self::SetStatus(_)
            | Self::SecureHeaders(_)
            | Self::RemoveJsonAttributes(_)
            | Self::Retry(_)
            | Self::CircuitBreaker(_) => true,
            Self::Edit(edit) => !edit.is_request_side(),
            _ => false,
        }
    }
}
