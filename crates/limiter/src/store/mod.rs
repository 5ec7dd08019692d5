//! Stores: they decide requests and keep the consumed tokens, in [`memory`] or in Redis.

#[cfg(feature = "redis")]
pub(crate) mod breaker;
#[cfg(feature = "redis")]
pub(crate) mod fallback;
pub mod memory;
#[cfg(feature = "redis")]
pub mod redis;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use super::key::BucketKey;
use super::rule::Rule;
use super::verdict::{StagedVerdict, Verdict};

/// Largest number of rules in one decision.
pub const MAX_CHECKS: usize = 6;

/// Decides requests and keeps the consumed tokens.
pub trait Store: Send + Sync {
    /// Decides one request under all of `checks`: 1 to [`MAX_CHECKS`] rules, each with a key of its own. The request
    /// consumes its cost under every rule, or nothing under any.
    ///
    /// A local store returns the verdict immediately; a remote store returns a future with a deadline. The decision
    /// never fails: the store handles its own failures (see [`Verdict::source`]).
    fn decide(&self, checks: &[Check<'_>]) -> Decision;

    /// Decides `enforced` as [`decide`](Self::decide) does and, if they allow the request, `observed` in the same step.
    /// The observed checks consume their cost under every rule or under none, and never deny the request.
    ///
    /// Returns `None` if the store cannot decide both in one step, which is the default. Two calls of `decide` then give
    /// the same verdicts.
    fn decide_staged(&self, enforced: &[Check<'_>], observed: &[Check<'_>]) -> Option<Decision<StagedVerdict>> {
        let _ = (enforced, observed);
        None
    }

    /// Corrects the tokens consumed by an admitted request once its actual cost is known.
    ///
    /// `check` is that of the decision, with the rule of then: windows and turns are those of that rule.
    ///
    /// A positive `more` consumes up to that many additional tokens; a negative one returns tokens that
    /// still count and, to a bucket, those that were not refilled since. `counted_at_us` is [`Verdict::counted_at_us`]. The
    /// correction is best effort and does not block.
    fn settle(&self, check: Check<'_>, more: i64, counted_at_us: u64);
}

impl<S: Store + ?Sized> Store for Arc<S> {
    fn decide(&self, checks: &[Check<'_>]) -> Decision {
        (**self).decide(checks)
    }

    fn decide_staged(&self, enforced: &[Check<'_>], observed: &[Check<'_>]) -> Option<Decision<StagedVerdict>> {
        (**self).decide_staged(enforced, observed)
    }

    fn settle(&self, check: Check<'_>, more: i64, counted_at_us: u64) {
        (**self).settle(check, more, counted_at_us);
    }
}

/// One rule of a decision, with the key and the cost of the request.
#[derive(Clone, Copy, Debug)]
pub struct Check<'a> {
    /// Key under which the request is counted.
    pub key: BucketKey<'a>,
    /// Rule that limits the key.
    pub rule: &'a Rule,
    /// Tokens that the request consumes.
    pub cost: u64,
}

impl Check<'_> {
    /// Limits the correction `more` to the tokens that may be returned.
    ///
    /// A quota keeps grants and consumed tokens in one number, so it cannot tell them apart. At most the request's cost
    /// is returned to it.
    fn bounded(&self, more: i64) -> i64 {
        match self.rule.algorithm().spec().prepaid {
            true => more.max(i64::try_from(self.cost).map_or(i64::MIN, |cost| -cost)),
            false => more,
        }
    }
}

/// Returns true if one step may decide both lists: none is empty, and no key is in both.
fn can_stage(enforced: &[Check<'_>], observed: &[Check<'_>]) -> bool {
    let is_enforced = |check: &Check<'_>| enforced.iter().any(|other| other.key == check.key);
    !enforced.is_empty()
        && !observed.is_empty()
        && enforced.len() + observed.len() <= MAX_CHECKS
        && !observed.iter().any(is_enforced)
}

/// A verdict, or the future of one.
pub enum Decision<V = Verdict> {
    /// Decided.
    Ready(V),
    /// In progress; resolves within the store's deadline.
    Pending(Pin<Box<dyn Future<Output = V> + Send>>),
}

/// Policy for decisions while the store is unreachable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnStoreFailure {
    /// Decides by the same rule in the memory of this process. Each gateway then admits the full limit, or its share if
    /// the number of gateways is known.
    #[default]
    Local,
    /// Allows requests uncounted, as Spring Cloud Gateway does.
    Allow,
    /// Denies requests with status 503.
    Deny,
}
