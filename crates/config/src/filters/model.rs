//! Checked filters, and their properties for the gateway.

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

/// Filter of a route.
#[derive(Clone, Debug)]
pub enum Filter {
    /// Edits path or headers.
    Edit(Edit),
    /// Responds with a redirect.
    RedirectTo(redirect_to::Settings),
    /// Replaces the status of responses.
    SetStatus(set_status::Settings),
    /// Refuses request bodies with more bytes.
    RequestSize(u64),
    /// Refuses headers that are too large.
    RequestHeaderSize(request_header_size::Settings),
    /// Adds security headers to responses.
    SecureHeaders(secure_headers::Settings),
    /// Removes attributes from JSON responses.
    RemoveJsonAttributes(remove_json_attributes::Settings),
    /// Caches responses.
    LocalResponseCache(ResponseCache),
    /// Limits the rate of requests.
    RequestRateLimiter(Box<RateLimiter>),
    /// Counts requests.
    RequestCounter(Box<RequestCounter>),
    /// Limits concurrent requests.
    ConcurrencyLimiter(Box<ConcurrencyLimiter>),
    /// Retries failed requests.
    Retry(Box<retry::Settings>),
    /// Stops calling a failing upstream for a cool-down period.
    CircuitBreaker(Box<CircuitBreaker>),
    /// Adds headers about the failure to requests of a fallback.
    FallbackHeaders(fallback_headers::HeaderNames),
}

/// Position of a filter among those of its route, regardless of its position in the file (Spring's `Ordered`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FilterPosition {
    /// Before all others: filters that can respond without them.
    First,
    /// At its position in the list.
    Listed,
    /// After all others: filters that replace the target of the request.
    Last,
}

/// Response cache of a route.
#[derive(Clone, Debug)]
pub struct ResponseCache {
    /// Freshness lifetime, and directives of requests.
    pub settings: local_response_cache::Settings,
    /// Capacity in bytes.
    pub max_bytes: u64,
    /// True for the cache shared by the routes that configure no cache of their own.
    pub is_shared: bool,
    /// Hash of the route's configuration: a changed route does not use responses cached before the change.
    pub identity: u64,
}

/// One circuit breaker of a route.
#[derive(Clone, Debug)]
pub struct CircuitBreaker {
    /// Name under which routes share it; `None`: the route's id.
    pub name: Option<Arc<str>>,
    /// Thresholds, equal for all breakers of the name.
    pub rules: circuit_breaker::Rules,
    /// Failures, and the response to them.
    pub settings: circuit_breaker::Settings,
    /// Fallback route.
    pub fallback: Option<Forward>,
}

/// Forward to another route of the gateway.
#[derive(Clone, Debug)]
pub struct Forward {
    /// Edit that sets the path.
    pub path: Edit,
    /// Query; `None`: that of the request.
    pub query: Option<Box<str>>,
    /// Path, if it is the same for all requests.
    pub known: Option<Box<str>>,
}

impl Filter {
    /// Position among the filters of its route.
    #[must_use]
    pub fn position(&self) -> FilterPosition {
        match self {
            Self::Edit(edit) if edit.runs_last() => FilterPosition::Last,
            Self::LocalResponseCache(_) => FilterPosition::First,
            Self::Edit(_)
            | Self::RedirectTo(_)
            | Self::SetStatus(_)
            | Self::RequestSize(_)
            | Self::RequestHeaderSize(_)
            | Self::SecureHeaders(_)
            | Self::RemoveJsonAttributes(_)
            | Self::RequestRateLimiter(_)
            | Self::RequestCounter(_)
            | Self::ConcurrencyLimiter(_)
            | Self::Retry(_)
            | Self::CircuitBreaker(_)
            | Self::FallbackHeaders(_) => FilterPosition::Listed,
        }
    }

    /// True if it reads [`RequestContext`](tollgate_filters::context::RequestContext).
    #[must_use]
    pub fn needs_context(&self) -> bool {
        match self {
            Self::RequestRateLimiter(limiter) => limiter.needs_context(),
            Self::RequestCounter(counter) => counter.key_resolver.needs_context(),
            Self::ConcurrencyLimiter(limiter) => limiter.settings.key_resolver.needs_context(),
            Self::Edit(_) | Self::CircuitBreaker(_) => self.needs_variables(),
            Self::RedirectTo(_)
            | Self::SetStatus(_)
            | Self::RequestSize(_)
            | Self::RequestHeaderSize(_)
            | Self::SecureHeaders(_)
            | Self::RemoveJsonAttributes(_)
            | Self::LocalResponseCache(_)
            | Self::Retry(_)
            | Self::FallbackHeaders(_) => false,
        }
    }

    /// True if it reads URI template variables.
    #[must_use]
    pub fn needs_variables(&self) -> bool {
        match self {
            Self::Edit(edit) => edit.needs_variables(),
            Self::RequestRateLimiter(limiter) => limiter.key_resolvers().any(KeyResolver::needs_variables),
            Self::RequestCounter(counter) => counter.key_resolver.needs_variables(),
            Self::ConcurrencyLimiter(limiter) => limiter.settings.key_resolver.needs_variables(),
            Self::CircuitBreaker(breaker) => breaker.fallback.as_ref().is_some_and(|to| to.path.needs_variables()),
            Self::RedirectTo(_)
            | Self::SetStatus(_)
            | Self::RequestSize(_)
            | Self::RequestHeaderSize(_)
            | Self::SecureHeaders(_)
            | Self::RemoveJsonAttributes(_)
            | Self::LocalResponseCache(_)
            | Self::Retry(_)
            | Self::FallbackHeaders(_) => false,
        }
    }

    /// Names of the URI template variables that it reads.
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
            Self::RedirectTo(_)
            | Self::SetStatus(_)
            | Self::RequestSize(_)
            | Self::RequestHeaderSize(_)
            | Self::SecureHeaders(_)
            | Self::RemoveJsonAttributes(_)
            | Self::LocalResponseCache(_)
            | Self::Retry(_)
            | Self::FallbackHeaders(_) => Vec::new(),
        }
    }

    /// True if it can forward a request to another route.
    #[must_use]
    pub fn reroutes(&self) -> bool {
        match self {
            Self::RequestRateLimiter(limiter) => limiter.forwards(),
            Self::CircuitBreaker(breaker) => breaker.fallback.is_some(),
            Self::Edit(_)
            | Self::RedirectTo(_)
            | Self::SetStatus(_)
            | Self::RequestSize(_)
            | Self::RequestHeaderSize(_)
            | Self::SecureHeaders(_)
            | Self::RemoveJsonAttributes(_)
            | Self::LocalResponseCache(_)
            | Self::RequestCounter(_)
            | Self::ConcurrencyLimiter(_)
            | Self::Retry(_)
            | Self::FallbackHeaders(_) => false,
        }
    }

    /// True if it can drop a response and repeat its request, or send it elsewhere.
    #[must_use]
    pub fn drops_responses(&self) -> bool {
        match self {
            Self::Retry(_) => true,
            Self::CircuitBreaker(breaker) => breaker.fallback.is_some(),
            Self::Edit(_)
            | Self::RedirectTo(_)
            | Self::SetStatus(_)
            | Self::RequestSize(_)
            | Self::RequestHeaderSize(_)
            | Self::SecureHeaders(_)
            | Self::RemoveJsonAttributes(_)
            | Self::LocalResponseCache(_)
            | Self::RequestRateLimiter(_)
            | Self::RequestCounter(_)
            | Self::ConcurrencyLimiter(_)
            | Self::FallbackHeaders(_) => false,
        }
    }

    /// True if it depends on upstreams' responses, and must distinguish them from the gateway's own.
    #[must_use]
    pub fn acts_on_responses(&self) -> bool {
        match self {
            Self::Edit(edit) => !edit.is_request_side(),
            Self::SetStatus(_)
            | Self::SecureHeaders(_)
            | Self::RemoveJsonAttributes(_)
            | Self::Retry(_)
            | Self::CircuitBreaker(_) => true,
            Self::RedirectTo(_)
            | Self::RequestSize(_)
            | Self::RequestHeaderSize(_)
            | Self::LocalResponseCache(_)
            | Self::RequestRateLimiter(_)
            | Self::RequestCounter(_)
            | Self::ConcurrencyLimiter(_)
            | Self::FallbackHeaders(_) => false,
        }
    }
}
