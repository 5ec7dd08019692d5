//! Checked filters, and their properties for the gateway.

#![deny(clippy::wildcard_enum_match_arm)]

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, Method};
use tollgate_filters::edit::Edit;
use tollgate_filters::key_resolver::KeyResolver;
use tollgate_filters::{circuit_breaker, concurrency_limiter, local_response_cache, retry};
use tollgate_limiter::concurrency::Concurrency;
use tollgate_limiter::metering::{Dimensions, Period};
use tollgate_limiter::store::OnStoreFailure;

use crate::filters::plain::{OwnResponses, PlainFilter};
use crate::rate_limiter::model::{RateLimiter, StoreKind};

/// Filter of a route.
#[derive(Clone, Debug)]
pub enum Filter {
    /// Edits path or headers.
    Edit(Edit),
    /// A filter whose layer needs its settings only.
    Plain(PlainFilter),
    /// Refuses request bodies with more bytes.
    RequestSize(u64),
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
}

/// One concurrency limiter of a route.
#[derive(Clone, Debug)]
pub struct ConcurrencyLimiter {
    /// Slots and the time after which they expire.
    pub rule: Concurrency,
    /// Key resolver, and settings of responses.
    pub settings: concurrency_limiter::Settings,
    /// Store of its slots; `None`: Redis if configured.
    pub store: Option<StoreKind>,
    /// Decision while Redis is unreachable.
    pub on_store_failure: OnStoreFailure,
}

/// One counter of a route.
#[derive(Clone, Debug)]
pub struct RequestCounter {
    /// Key that requests are counted by.
    pub key_resolver: KeyResolver,
    /// Properties by which the counts of one key are separated.
    pub dimensions: Dimensions,
    /// Length of one sum.
    pub period: Period,
    /// Time for which counts are kept in Redis.
    pub ttl: Duration,
    /// Name under which several routes count together; `None`: the route's id.
    pub bucket: Option<Arc<str>>,
}

/// Position of a filter among those of its route, regardless of its position in the file (Spring's `Ordered`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum FilterPosition {
    /// Before all others.
    First,
    /// At its position in the list.
    #[default]
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
    /// Position among the filters of its route.
    pub position: FilterPosition,
    /// True for the cache shared by the routes that configure no cache of their own.
    pub is_shared: bool,
    /// Name of the cache in `Cache-Status`; `None` without that field.
    pub status_name: Option<Arc<str>>,
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
    pub fixed_path: Option<Box<str>>,
}

/// Properties of a filter that decide how its route is stacked and served.
#[derive(Clone, Debug, Default)]
pub struct FilterProperties<'f> {
    /// Position among the filters of its route.
    pub position: FilterPosition,
    /// Requests that the filters behind it do not see.
    pub own_responses: OwnResponses,
    /// True if it reads [`RequestContext`](tollgate_filters::context::RequestContext).
    pub needs_context: bool,
    /// True if it reads URI template variables.
    pub needs_variables: bool,
    /// Names of the URI template variables that it reads.
    pub variables: Vec<&'f str>,
    /// True if it can forward a request to another route.
    pub reroutes: bool,
    /// True if it can drop a response and repeat its request, or send it elsewhere.
    pub drops_responses: bool,
    /// True if it depends on upstreams' responses, and must distinguish them from the gateway's own.
    pub acts_on_responses: bool,
}

impl Filter {
    /// Returns true if it limits or counts requests.
    pub fn counts_requests(&self) -> bool {
        match self {
            Self::RequestRateLimiter(_) | Self::ConcurrencyLimiter(_) | Self::RequestCounter(_) => true,
            Self::Edit(_) | Self::RequestSize(_) | Self::LocalResponseCache(_) => false,
            Self::Retry(_) | Self::CircuitBreaker(_) | Self::Plain(_) => false,
        }
    }

    /// Returns the edit, if it is one.
    pub(crate) fn as_edit(&self) -> Option<&Edit> {
        if let Self::Edit(edit) = self { Some(edit) } else { None }
    }

    /// Returns the rate limiter, if it is one.
    pub fn as_rate_limiter(&self) -> Option<&RateLimiter> {
        if let Self::RequestRateLimiter(limiter) = self { Some(limiter) } else { None }
    }

    /// Returns the outcome for requests without a variable that the filter reads.
    pub(crate) fn without_variable(&self) -> &'static str {
        match self {
            Self::Edit(edit) if edit.runs_last() => "requests keep their target",
            Self::Edit(_) => "every request gets 500",
            Self::CircuitBreaker(_) => "the fallback gets 500",
            Self::RequestRateLimiter(_) | Self::RequestCounter(_) | Self::ConcurrencyLimiter(_) | Self::Plain(_) => {
                "no request has a key"
            }
            // They read no variables.
            Self::RequestSize(_) | Self::LocalResponseCache(_) | Self::Retry(_) => "nothing changes",
        }
    }

    /// Returns the key resolvers of the filter.
    pub fn key_resolvers(&self) -> impl Iterator<Item = &KeyResolver> {
        let (one, limiter) = match self {
            Self::RequestCounter(counter) => (Some(&counter.key_resolver), None),
            Self::ConcurrencyLimiter(limiter) => (Some(&limiter.settings.key_resolver), None),
            Self::Plain(filter) => (filter.key_resolver(), None),
            Self::RequestRateLimiter(limiter) => (None, Some(limiter.key_resolvers())),
            Self::Edit(_)
            | Self::RequestSize(_)
            | Self::LocalResponseCache(_)
            | Self::Retry(_)
            | Self::CircuitBreaker(_) => (None, None),
        };
        one.into_iter().chain(limiter.into_iter().flatten())
    }

    /// Returns true if it reads the API key of requests.
    pub fn reads_api_key(&self) -> bool {
        self.key_resolvers().any(KeyResolver::reads_api_key)
    }

    /// Returns true if it refuses requests without a header field of their sender, and so preflights.
    pub(crate) fn refuses_preflights(&self) -> bool {
        let is_sent = |resolver: &KeyResolver| !resolver.headers().is_empty() && !resolver.counts_preflights();
        match self {
            Self::RequestRateLimiter(limiter) => limiter.limits().any(|limit| {
                let resolver = limit.key_resolver.as_ref().unwrap_or(&limiter.settings.key_resolver);
                limiter.needs_key_under(limit, &Method::OPTIONS) && is_sent(resolver)
            }),
            Self::ConcurrencyLimiter(limiter) => {
                limiter.settings.deny_empty_key && is_sent(&limiter.settings.key_resolver)
            }
            Self::Plain(filter) => filter.key_resolver().is_some_and(is_sent),
            // A counter counts requests without a key, too.
            Self::RequestCounter(_) => false,
            Self::Edit(_)
            | Self::RequestSize(_)
            | Self::LocalResponseCache(_)
            | Self::Retry(_)
            | Self::CircuitBreaker(_) => false,
        }
    }

    /// Returns the names of the request's header fields that the filter reads, sets or removes.
    pub fn request_headers(&self) -> Vec<&HeaderName> {
        let mut names: Vec<_> = self.key_resolvers().flat_map(KeyResolver::headers).collect();
        match self {
            Self::Edit(edit) => names.extend(edit.request_headers()),
            Self::RequestRateLimiter(limiter) => names.extend(limiter.further_headers()),
            Self::Plain(filter) => names.extend(filter.set_headers()),
            Self::RequestSize(_) | Self::LocalResponseCache(_) | Self::Retry(_) | Self::CircuitBreaker(_) => {}
            // Their key resolvers read all that they read.
            Self::RequestCounter(_) | Self::ConcurrencyLimiter(_) => {}
        }
        names
    }

    /// Properties of the filter.
    pub fn properties(&self) -> FilterProperties<'_> {
        let plain = FilterProperties::default();
        match self {
            Self::Plain(filter) => FilterProperties {
                own_responses: filter.own_responses(),
                acts_on_responses: filter.acts_on_responses(),
                ..filter.key_resolver().map_or(plain, FilterProperties::of_key)
            },
            Self::RequestSize(_) => plain,
            Self::LocalResponseCache(cache) => {
                FilterProperties { position: cache.position, own_responses: OwnResponses::Cached, ..plain }
            }
            Self::Retry(_) => FilterProperties { drops_responses: true, acts_on_responses: true, ..plain },
            Self::Edit(edit) => FilterProperties {
                position: if edit.runs_last() { FilterPosition::Last } else { FilterPosition::Listed },
                acts_on_responses: !edit.is_request_side(),
                ..FilterProperties::of_edit(edit)
            },
            Self::CircuitBreaker(breaker) => {
                let fallback = breaker.fallback.as_ref();
                FilterProperties {
                    reroutes: fallback.is_some(),
                    drops_responses: fallback.is_some(),
                    acts_on_responses: true,
                    ..fallback.map_or(plain, |fallback| FilterProperties::of_edit(&fallback.path))
                }
            }
            Self::RequestCounter(counter) => FilterProperties::of_key(&counter.key_resolver),
            Self::ConcurrencyLimiter(limiter) => FilterProperties::of_key(&limiter.settings.key_resolver),
            Self::RequestRateLimiter(limiter) => FilterProperties {
                needs_context: limiter.needs_context(),
                needs_variables: limiter.key_resolvers().any(KeyResolver::needs_variables),
                variables: limiter.variables(),
                reroutes: limiter.forwards(),
                ..plain
            },
        }
    }
}

impl<'f> FilterProperties<'f> {
    /// Properties of a filter that reads the variables of `edit`.
    fn of_edit(edit: &'f Edit) -> Self {
        let needs_variables = edit.needs_variables();
        Self { needs_context: needs_variables, needs_variables, variables: edit.variables(), ..Self::default() }
    }

    /// Properties of a filter that reads a key.
    fn of_key(key_resolver: &'f KeyResolver) -> Self {
        Self {
            needs_context: key_resolver.needs_context(),
            needs_variables: key_resolver.needs_variables(),
            variables: key_resolver.variables(),
            ..Self::default()
        }
    }
}
