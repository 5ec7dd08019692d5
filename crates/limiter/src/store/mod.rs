//! Where what was spent is kept: in this process ([`memory`]) or in Redis.

#[cfg(feature = "redis")]
pub(crate) mod breaker;
#[cfg(feature = "redis")]
pub(crate) mod fallback;
pub mod memory;
#[cfg(feature = "redis")]
pub mod redis;

use std::future::Future;
use std::pin::Pin;

use super::key::BucketKey;
use super::rule::Rule;
use super::verdict::Verdict;

/// The most rules that one decision may be asked about.
pub const MAX_CHECKS: usize = 6;

/// Decides requests and keeps what they spent.
pub trait Store: Send + Sync {
    /// Decides one request under all of `checks` (one to [`MAX_CHECKS`], each with a key of its own): it takes what it
    /// costs under each rule, or nothing under any. A store that need not wait answers at once; one that must ask over
    /// a network hands back a future, bounded in time. It never fails: what happens when the network does is part of
    /// the store (see [`Verdict::source`]).
    fn decide(&self, checks: &[Check<'_>]) -> Decision;

    /// Corrects what an admitted request took, when its cost is known: more than `check.cost` by a positive `more`, of
    /// which at most what is there is taken; less by a negative one. `counted_at_us` is the verdict's. Best effort, and
    /// waits for nobody.
    fn settle(&self, check: Check<'_>, more: i64, counted_at_us: u64);
}

/// One rule, and what the request is under it.
#[derive(Clone, Copy, Debug)]
pub struct Check<'a> {
    /// What it is counted under.
    pub key: BucketKey<'a>,
    /// How much may pass.
    pub rule: &'a Rule,
    /// How much it takes.
    pub cost: u64,
}

impl Check<'_> {
    /// `more`, a correction of what was taken, or as much of it as may be given back: a stock's grants are in the same
    /// number as what was taken, so that only the cost says how much that was.
    fn bounded(&self, more: i64) -> i64 {
        match self.rule {
            Rule::Quota(_) => more.max(i64::try_from(self.cost).map_or(i64::MIN, |cost| -cost)),
            _ => more,
        }
    }
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
