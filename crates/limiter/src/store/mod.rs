//! Stores: they decide requests and keep the consumed tokens, in [`memory`] or in Redis.

#[cfg(feature = "redis")]
pub(crate) mod fallback;
pub mod memory;
#[cfg(feature = "redis")]
pub mod redis;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use super::key::BucketKey;
use super::rule::Rule;
use super::verdict::Verdict;

/// Largest number of rules in one decision.
pub const MAX_CHECKS: usize = 6;

/// Decides requests and keeps the consumed tokens.
pub trait Store: Send + Sync {
    /// Decides one request under all of `enforced` and, if they allow it, under all of `observed`. The request consumes
    /// its cost under every rule of a list, or nothing under any of them. Observed rules never deny the request.
    ///
    /// Both lists have at most [`MAX_CHECKS`] rules together, and a key at most once each. `enforced` is not empty: a
    /// caller that observes only passes that list as `enforced`, and ignores a denial.
    ///
    /// A local store returns the verdict immediately; a remote store returns a future with a deadline. The decision
    /// never fails: the store handles its own failures (see [`Verdict::source`]).
    fn decide(&self, enforced: &[Check<'_>], observed: &[Check<'_>]) -> Decision;

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
    fn decide(&self, enforced: &[Check<'_>], observed: &[Check<'_>]) -> Decision {
        (**self).decide(enforced, observed)
    }

    fn settle(&self, check: Check<'_>, more: i64, counted_at_us: u64) {
        (**self).settle(check, more, counted_at_us);
    }
}

/// Store that can delete the state of a key.
pub trait Forget: Store {
    /// Reason why the store did not confirm it.
    type Error;

    /// Deletes the state of the key of `check` under its rule.
    fn forget_key(&self, check: Check<'_>) -> impl Future<Output = Result<(), Self::Error>> + Send;
}

impl<S: Forget + ?Sized> Forget for Arc<S> {
    type Error = S::Error;

    fn forget_key(&self, check: Check<'_>) -> impl Future<Output = Result<(), S::Error>> + Send {
        (**self).forget_key(check)
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

/// A [`Check`] that owns its key and rule, for decisions that outlive the request.
#[derive(Clone, Debug)]
pub struct OwnedCheck {
    scope: Box<str>,
    id: Box<[u8]>,
    pub(crate) rule: Rule,
    pub(crate) cost: u64,
}

impl OwnedCheck {
    /// Copies `check`.
    #[must_use]
    pub fn of(check: &Check<'_>) -> Self {
        let Check { key, rule, cost } = *check;
        Self { scope: key.scope.into(), id: key.id.into(), rule: rule.clone(), cost }
    }

    /// Returns the check.
    #[must_use]
    pub fn check(&self) -> Check<'_> {
        Check { key: BucketKey { scope: &self.scope, id: &self.id }, rule: &self.rule, cost: self.cost }
    }
}

/// Reply of a store: at once, or the future of one.
#[must_use = "a reply of a store must be waited for"]
pub enum StoreReply<T> {
    /// The reply.
    Ready(T),
    /// In progress; resolves within the store's deadline.
    Pending(Pin<Box<dyn Future<Output = T> + Send>>),
}

/// Verdict on a request.
pub type Decision = StoreReply<Verdict>;

impl<T: fmt::Debug> fmt::Debug for StoreReply<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready(reply) => f.debug_tuple("Ready").field(reply).finish(),
            Self::Pending(_) => f.write_str("Pending"),
        }
    }
}

impl<T: 'static> StoreReply<T> {
    /// Returns the reply with `change` applied to it.
    pub fn map(self, change: impl FnOnce(T) -> T + Send + 'static) -> Self {
        match self {
            Self::Ready(reply) => Self::Ready(change(reply)),
            Self::Pending(reply) => Self::Pending(Box::pin(async move { change(reply.await) })),
        }
    }

    /// Waits for the reply.
    #[must_use = "a request that is denied must not proceed"]
    pub async fn get(self) -> T {
        match self {
            Self::Ready(reply) => reply,
            Self::Pending(reply) => reply.await,
        }
    }
}

#[cfg(feature = "redis")]
impl Decision {
    /// Decides the observed rules in a second step, if this decision of the enforced ones allows the request.
    pub(crate) fn then_observed<S: Store + Clone + 'static>(self, store: &S, observed: &[Check<'_>]) -> Self {
        match self {
            _ if observed.is_empty() => self,
            Self::Ready(verdict) if !verdict.is_allowed() => Self::Ready(verdict),
            Self::Ready(verdict) => store.decide(observed, &[]).map(|observed| verdict.with_observed(observed)),
            Self::Pending(verdict) => {
                let store = store.clone();
                let observed: Vec<OwnedCheck> = observed.iter().map(OwnedCheck::of).collect();
                Self::Pending(Box::pin(async move {
                    let verdict = verdict.await;
                    if !verdict.is_allowed() {
                        return verdict;
                    }
                    let decision = store.decide(&observed.iter().map(OwnedCheck::check).collect::<Vec<_>>(), &[]);
                    verdict.with_observed(decision.get().await)
                }))
            }
        }
    }
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
