//! Rate limiter: rules and a store behind one call.

mod queues;
mod waiting;

use std::fmt;
use std::sync::Arc;

use thiserror::Error;

use self::queues::Queues;
pub use self::waiting::WaitError;
use super::key::BucketKey;
use super::rule::Rule;
use super::store::{Check, Decision, Forget, MAX_CHECKS, Store};
use super::verdict::{Source, Verdict};

/// Rate limiter of requests by key.
///
/// Clones share the store and therefore all limits, and the queues of [`until_allowed`](Self::until_allowed).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tollgate_limiter::RuleError> {
/// use tollgate_limiter::{MemoryStore, RateLimiter, TokenBucket};
///
/// // 10 requests per second and client, with bursts of 2.
/// let limiter = RateLimiter::new("search", TokenBucket::per_second(10, 2)?, MemoryStore::default());
///
/// assert!(limiter.check("192.0.2.1", 1).await.is_allowed());
/// assert_eq!(limiter.check("192.0.2.1", 1).await.remaining, Some(0));
/// assert!(!limiter.check("192.0.2.1", 1).await.is_allowed());
/// assert!(limiter.check("192.0.2.2", 1).await.is_allowed());
/// # Ok(())
/// # }
/// ```
pub struct RateLimiter<S> {
    rules: Arc<[ScopedRule]>,
    store: Arc<S>,
    queues: Arc<Queues>,
}

/// Rule with the scope of its keys.
#[derive(Debug)]
struct ScopedRule {
    scope: Box<str>,
    rule: Rule,
}

/// Reason why a list of rules is invalid: it is empty or longer than [`MAX_CHECKS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a rate limiter needs 1 to {MAX_CHECKS} rules, got {0}")]
pub struct RuleCountError(usize);

impl<S> fmt::Debug for RateLimiter<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimiter").field("rules", &self.rules).finish_non_exhaustive()
    }
}

impl<S> Clone for RateLimiter<S> {
    fn clone(&self) -> Self {
        Self { rules: Arc::clone(&self.rules), store: Arc::clone(&self.store), queues: Arc::clone(&self.queues) }
    }
}

impl<S: Store> RateLimiter<S> {
    /// Creates a limiter with one rule.
    ///
    /// `name` separates the keys of this limiter from those of others in the store; in Redis it is part of the key. Limiters
    /// with one name, one store and one algorithm share their buckets, as those of several processes do. To share a store in
    /// one process, pass an `Arc` of it.
    #[must_use]
    pub fn new(name: &str, rule: impl Into<Rule>, store: S) -> Self {
        Self::scoped(name, vec![rule.into()], Arc::new(store))
    }

    /// Creates a limiter with several rules. A request consumes its cost under every rule, or nothing under any. `name` is
    /// that of [`new`](Self::new).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use tollgate_limiter::{Align, FixedWindow, MemoryStore, RateLimiter, TokenBucket};
    ///
    /// // 10 requests per second with bursts of 20, and at most 3 per day.
    /// let rules = [
    ///     TokenBucket::per_second(10, 20)?.into(),
    ///     FixedWindow::new(3, Duration::from_secs(86_400), Align::Clock)?.into(),
    /// ];
    /// let limiter = RateLimiter::with_rules("search", rules, MemoryStore::default())?;
    ///
    /// let verdict = limiter.check("alice", 2).await;
    /// assert_eq!((verdict.rule, verdict.remaining), (1, Some(1)));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Fails without rules or with more than [`MAX_CHECKS`].
    pub fn with_rules(name: &str, rules: impl IntoIterator<Item = Rule>, store: S) -> Result<Self, RuleCountError> {
        let rules: Vec<Rule> = rules.into_iter().collect();
        match rules.len() {
            1..=MAX_CHECKS => Ok(Self::scoped(name, rules, Arc::new(store))),
            count => Err(RuleCountError(count)),
        }
    }

    /// Decides a request of `cost` tokens under `key`, such as a client address or a user name.
    ///
    /// The call never fails: the store handles its own failures
    /// (see [`Verdict::source`]). With a [`MemoryStore`](super::store::memory::MemoryStore) it does not wait. A call that is dropped while
    /// Redis decides may have taken its tokens.
    ///
    /// Under a leaky bucket, an allowed request has to wait for [`Verdict::delay`]; [`until_allowed`](Self::until_allowed) does so itself.
    /// A cost of 0 is always allowed.
    #[must_use = "a request that is denied must not proceed"]
    pub async fn check(&self, key: impl AsRef<[u8]>, cost: u64) -> Verdict {
        // Not by `Decision::get`: the future of a call that is decided at once stays small.
        match self.decide(key.as_ref(), cost) {
            Decision::Ready(verdict) => verdict,
            Decision::Pending(verdict) => verdict.await,
        }
    }

    /// Reads the state of `key` without consuming tokens. The verdict allows the request, and states the remaining tokens.
    #[must_use]
    pub async fn peek(&self, key: impl AsRef<[u8]>) -> Verdict {
        self.check(key, 0).await
    }

    /// Returns `tokens` of a request that `verdict` allowed, which must not exceed its cost. Requests that wait for the key are checked
    /// again.
    ///
    /// Buckets keep what they refilled since the verdict, and windows what they counted before the present one. A leaky bucket
    /// takes back a turn that has not begun. Nothing is returned if the verdict denies the request, or is a fallback's.
    /// In Redis, tokens are returned in the background, and a waiting request that is checked before keeps its wait.
    pub fn refund(&self, key: impl AsRef<[u8]>, tokens: u64, verdict: &Verdict) {
        if !verdict.is_allowed() || verdict.source == Source::Fallback {
            return;
        }
        let more = i64::try_from(tokens).map_or(i64::MIN, |tokens| -tokens);
        for (position, scoped) in self.rules.iter().enumerate() {
            let rule = verdict.replaced_rule(position).map_or(&scoped.rule, |rule| rule);
            let counted_at_us = verdict.per_rule.get(position).map_or(verdict.counted_at_us, |one| one.counted_at_us);
            self.store.settle(Check { rule, ..scoped.check(key.as_ref(), tokens) }, more, counted_at_us);
        }
        self.queues.wake_first(key.as_ref());
    }

    /// Forgets the consumed tokens of `key`. Requests that wait for the key are checked again.
    ///
    /// # Errors
    /// The store did not confirm it. The memory store always does.
    pub async fn forget(&self, key: impl AsRef<[u8]>) -> Result<(), S::Error>
    where
        S: Forget,
    {
        for scoped in &*self.rules {
            self.store.forget_key(scoped.check(key.as_ref(), 0)).await?;
        }
        self.queues.wake_first(key.as_ref());
        Ok(())
    }

    fn decide(&self, id: &[u8], cost: u64) -> Decision {
        match &*self.rules {
            [scoped] => self.store.decide(&[scoped.check(id, cost)], &[]),
            rules => self.store.decide(&rules.iter().map(|scoped| scoped.check(id, cost)).collect::<Vec<_>>(), &[]),
        }
    }

    fn scoped(name: &str, rules: Vec<Rule>, store: Arc<S>) -> Self {
        let is_single = rules.len() == 1;
        let scope = |index: usize| if is_single { name.into() } else { format!("{name}#{index}").into() };
        let rules = rules.into_iter().enumerate().map(|(index, rule)| ScopedRule { scope: scope(index), rule });
        Self { rules: rules.collect(), store, queues: Arc::default() }
    }
}

impl ScopedRule {
    fn check<'a>(&'a self, id: &'a [u8], cost: u64) -> Check<'a> {
        Check { key: BucketKey { scope: &self.scope, id }, rule: &self.rule, cost }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::time::Duration;

    use super::*;
    use crate::rule::{Align, FixedWindow, TokenBucket};
    use crate::store::memory::{ManualClock, MemoryStore};

    fn bucket(burst: u64) -> TokenBucket {
        TokenBucket::per_second(1, burst).unwrap()
    }

    #[tokio::test]
    async fn clones_share_one_budget() {
        let limiter = RateLimiter::new("a", bucket(1), MemoryStore::default());
        assert!(limiter.clone().check("a", 1).await.is_allowed());
        assert!(!limiter.check("a", 1).await.is_allowed());
    }

    #[tokio::test]
    async fn a_limiter_takes_a_store_of_any_type_and_shows_its_rules() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let limiter = RateLimiter::new("login", bucket(1), store);
        assert!(limiter.check("a", 1).await.is_allowed());
        let text = format!("{limiter:?}");
        assert!(text.contains("login") && text.contains("TokenBucket"), "{text}");
    }

    #[tokio::test]
    async fn limiters_of_one_store_are_separated_by_name() {
        let store = Arc::new(MemoryStore::default());
        let login = RateLimiter::new("login", bucket(1), Arc::clone(&store));
        let search = RateLimiter::new("search", bucket(1), Arc::clone(&store));
        assert!(login.check("a", 1).await.is_allowed());
        assert!(search.check("a", 1).await.is_allowed());
        assert!(!login.check("a", 1).await.is_allowed());
        assert_eq!(store.len(), 2);
    }

    #[tokio::test]
    async fn a_request_consumes_under_all_rules_or_none() {
        let rules = [bucket(5).into(), bucket(2).into()];
        let limiter = RateLimiter::with_rules("a", rules, MemoryStore::default()).unwrap();
        assert!(!limiter.check("a", 3).await.is_allowed());
        assert_eq!(limiter.check("a", 2).await.per_rule[0].remaining, 3);
    }

    #[tokio::test]
    async fn a_key_is_read_refunded_and_forgotten_under_all_rules() {
        let rules = [bucket(5).into(), FixedWindow::new(9, Duration::from_secs(3_600), Align::First).unwrap().into()];
        let clock = Arc::new(ManualClock::default());
        let limiter = RateLimiter::with_rules("a", rules, MemoryStore::with_clock(clock.clone())).unwrap();
        let remaining = async || limiter.peek("a").await.per_rule.iter().map(|one| one.remaining).collect::<Vec<_>>();
        let verdict = limiter.check("a", 4).await;
        assert_eq!(remaining().await, [1, 5]);
        limiter.refund("a", 3, &verdict);
        assert_eq!(remaining().await, [4, 8]);
        limiter.refund("a", 3, &limiter.check("a", 5).await);
        assert_eq!(remaining().await, [4, 8], "a denied request took nothing");
        limiter.forget("a").await.unwrap();
        assert_eq!(remaining().await, [5, 9]);
    }

    #[test]
    fn the_number_of_rules_is_bounded() {
        let limiter = |count| RateLimiter::with_rules("a", vec![Rule::from(bucket(1)); count], MemoryStore::default());
        assert_eq!(limiter(0).err(), Some(RuleCountError(0)));
        assert!(limiter(1).is_ok() && limiter(MAX_CHECKS).is_ok());
        assert_eq!(limiter(MAX_CHECKS + 1).err(), Some(RuleCountError(MAX_CHECKS + 1)));
    }
}
