//! The filters of a route, and what the gateway must know of each.

use std::sync::Arc;
use std::time::Duration;

use tollgate_filters::edit::Edit;
use tollgate_filters::key_resolver::KeyResolver;
use tollgate_filters::limiter::concurrency::Concurrency;
use tollgate_filters::limiter::store::OnStoreFailure;
use tollgate_filters::metering::{Dimensions, Period};
use tollgate_filters::{concurrency_limiter, redirect_to, set_status};

use super::{RateLimiter, StoreKind};

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
    /// Limits the rate of requests.
    RequestRateLimiter(Box<RateLimiter>),
    /// Counts use.
    RequestCounter(Box<RequestCounter>),
    /// Limits how many requests are under way at once.
    ConcurrencyLimiter(Box<ConcurrencyLimiter>),
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

/// One counter of a route.
#[derive(Clone, Debug)]
pub struct RequestCounter {
    /// Of whom.
    pub key_resolver: KeyResolver,
    /// By what the counts of one key are told apart.
    pub dimensions: Dimensions,
    /// Over what is summed.
    pub period: Period,
    /// How long counts are kept in Redis.
    pub ttl: Duration,
    /// The name under which several routes count together; `None`: the route's own.
    pub bucket: Option<Arc<str>>,
}

/// One concurrency limiter of a route.
#[derive(Clone, Debug)]
pub struct ConcurrencyLimiter {
    /// How many.
    pub rule: Concurrency,
    /// Of whom, and what the client is told.
    pub settings: concurrency_limiter::Settings,
    /// Where its slots are kept; `None`: in Redis when there is one.
    pub store: Option<StoreKind>,
    /// What happens when Redis cannot be asked.
    pub on_store_failure: OnStoreFailure,
}

impl Filter {
    /// Where it stands among its route's filters.
    #[must_use]
    pub fn place(&self) -> Place {
        match self {
            Self::Edit(edit) if edit.runs_last() => Place::Last,
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
            _ => Vec::new(),
        }
    }

    /// Whether it may send a request to another route.
    #[must_use]
    pub fn reroutes(&self) -> bool {
        matches!(self, Self::RequestRateLimiter(limiter) if limiter.forwards())
    }

    /// Whether it changes upstreams' answers, and must tell them from the gateway's own.
    #[must_use]
    pub fn acts_on_answers(&self) -> bool {
        match self {
            Self::SetStatus(_) => true,
            Self::Edit(edit) => !edit.is_request_side(),
            _ => false,
        }
    }
}
