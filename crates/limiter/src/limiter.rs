//! Rate limiter: rules and a store behind one call.

use std::sync::Arc;

use thiserror::Error;

use super::key::BucketKey;
use super::rule::Rule;
use super::store::{Check, Decision, MAX_CHECKS, Store};
use super::verdict::Verdict;

/// Scope of a limiter without a name.
const DEFAULT_NAME: &str = "limiter";

/// Rate limiter of requests by key.
///
/// Clones share the store and therefore all limits.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tollgate_limiter::RuleError> {
/// use tollgate_limiter::{MemoryStore, RateLimiter, TokenBucket};
///
/// // 10 requests per second and client, with bursts of 2.
/// let limiter = RateLimiter::new(TokenBucket::per_second(10, 2)?, MemoryStore::default());
///
/// assert!(limiter.check("192.0.2.1", 1).await.is_allowed());
/// assert_eq!(limiter.check("192.0.2.1", 1).await.remaining, Some(0));
/// assert!(!limiter.check("192.0.2.1", 1).await.is_allowed());
/// assert!(limiter.check("192.0.2.2", 1).await.is_allowed());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct RateLimiter<S> {
    rules: Arc<[ScopedRule]>,
    store: Arc<S>,
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

impl<S> Clone for RateLimiter<S> {
    fn clone(&self) -> Self {
        Self { rules: Arc::clone(&self.rules), store: Arc::clone(&self.store) }
    }
}

impl<S: Store> RateLimiter<S> {
    /// Creates a limiter with one rule.
    ///
    /// The store may be shared: pass an `Arc` of it. Limiters that share a store need different
    /// [names](Self::named), or they share their keys.
    #[must_use]
    pub fn new(rule: impl Into<Rule>, store: S) -> Self {
        Self::scoped(DEFAULT_NAME, vec![rule.into()], Arc::new(store))
    }

    /// Creates a limiter with several rules. A request consumes its cost under every rule, or nothing under any.
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
    /// let limiter = RateLimiter::with_rules(rules, MemoryStore::default())?;
    ///
    /// let verdict = limiter.check("alice", 2).await;
    /// assert_eq!((verdict.rule, verdict.remaining), (1, Some(1)));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Fails without rules or with more than [`MAX_CHECKS`].
    pub fn with_rules(rules: impl IntoIterator<Item = Rule>, store: S) -> Result<Self, RuleCountError> {
        let rules: Vec<Rule> = rules.into_iter().collect();
        match rules.len() {
            1..=MAX_CHECKS => Ok(Self::scoped(DEFAULT_NAME, rules, Arc::new(store))),
            count => Err(RuleCountError(count)),
        }
    }

    /// Sets the name, which separates the keys of this limiter from those of others in the same store. In Redis it is
    /// part of the key.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        let rules = self.rules.iter().map(|scoped| scoped.rule.clone()).collect();
        Self::scoped(name, rules, self.store)
    }

    /// Decides a request of `cost` tokens under `key`, such as a client address or a user name.
    ///
    /// A cost of 0 reads the state without consuming tokens. The call never fails: the store handles its own failures
    /// (see [`Verdict::source`]). With a [`MemoryStore`](super::store::memory::MemoryStore) it does not wait.
    pub async fn check(&self, key: impl AsRef<[u8]>, cost: u64) -> Verdict {
        self.decide(key.as_ref(), cost).verdict().await
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
        Self { rules: rules.collect(), store }
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

    use super::*;
    use crate::rule::TokenBucket;
    use crate::store::memory::MemoryStore;

    fn bucket(burst: u64) -> TokenBucket {
        TokenBucket::per_second(1, burst).unwrap()
    }

    #[tokio::test]
    async fn clones_share_one_budget() {
        let limiter = RateLimiter::new(bucket(1), MemoryStore::default());
        assert!(limiter.clone().check("a", 1).await.is_allowed());
        assert!(!limiter.check("a", 1).await.is_allowed());
    }

    #[tokio::test]
    async fn limiters_of_one_store_are_separated_by_name() {
        let store = Arc::new(MemoryStore::default());
        let login = RateLimiter::new(bucket(1), Arc::clone(&store)).named("login");
        let search = RateLimiter::new(bucket(1), Arc::clone(&store)).named("search");
        assert!(login.check("a", 1).await.is_allowed());
        assert!(search.check("a", 1).await.is_allowed());
        assert!(!login.check("a", 1).await.is_allowed());
        assert_eq!(store.len(), 2);
    }

    #[tokio::test]
    async fn a_request_consumes_under_all_rules_or_none() {
        let rules = [bucket(5).into(), bucket(2).into()];
        let limiter = RateLimiter::with_rules(rules, MemoryStore::default()).unwrap();
        assert!(!limiter.check("a", 3).await.is_allowed());
        assert_eq!(limiter.check("a", 2).await.per_rule[0].remaining, 3);
    }

    #[test]
    fn the_number_of_rules_is_bounded() {
        let limiter = |count| RateLimiter::with_rules(vec![Rule::from(bucket(1)); count], MemoryStore::default());
        assert_eq!(limiter(0).err(), Some(RuleCountError(0)));
        assert!(limiter(1).is_ok() && limiter(MAX_CHECKS).is_ok());
        assert_eq!(limiter(MAX_CHECKS + 1).err(), Some(RuleCountError(MAX_CHECKS + 1)));
    }
}
