//! Where buckets are kept: in this process ([`memory`]) or in Redis.

pub mod memory;
#[cfg(feature = "redis")]
pub mod redis;

use std::future::Future;
use std::pin::Pin;

use super::key::BucketKey;
use super::rule::TokenBucket;
use super::verdict::Verdict;

/// Decides requests and keeps what they spent.
pub trait Store: Send + Sync {
    /// Decides one request of `key` under `rule`. A store that need not wait answers at once; one that must ask over
    /// a network hands back a future, bounded in time. It never fails: what happens when the network does is part of
    /// the store (see [`Verdict::source`]).
    fn decide(&self, key: BucketKey<'_>, rule: &TokenBucket) -> Decision;
}

/// A verdict, or one that is on its way.
pub enum Decision {
    /// Decided already.
    Ready(Verdict),
    /// Being decided elsewhere; resolves within the store's own deadline.
    Pending(Pin<Box<dyn Future<Output = Verdict> + Send>>),
}

/// What to do with a request when the store cannot be asked in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnStoreFailure {
    /// Decide by the same rule in the memory of this process: each gateway then admits the whole rule.
    #[default]
    Local,
    /// Let it pass unseen, as Spring Cloud Gateway does.
    Allow,
    /// Refuse it unseen: 503, since the client did nothing wrong.
    Deny,
}
