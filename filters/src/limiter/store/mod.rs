//! Where buckets are kept: in this process ([`memory`]) or in Redis.

pub mod memory;

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
