//! Rules of each limiter by name: states of present rules are told from those of former ones.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::rule::Algorithm;

/// Rules of all limiters by name, for [`RedisStore::limiters`](super::RedisStore::limiters).
///
/// A rule whose state is missing in Redis takes over that of a rule of the same limiter that is gone. The configuration
/// tells which rules there are.
#[derive(Debug, Default)]
pub struct Limiters(HashMap<Box<str>, Arc<LimiterRules>>);

/// Rules of one limiter, those of its plans included.
#[derive(Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct LimiterRules(BTreeSet<(Option<Box<str>>, Algorithm)>);

impl Limiters {
    /// Creates the table from the scope and algorithm of each rule (`orders`, `orders#daily`). Scopes that begin with `#`
    /// are shared by limiters and have no former rules.
    pub fn new(rules: impl IntoIterator<Item = (Arc<str>, Algorithm)>) -> Self {
        let mut limiters = HashMap::<Box<str>, LimiterRules>::new();
        for (scope, algorithm) in rules.into_iter().filter(|(scope, _)| !scope.starts_with('#')) {
            let (limiter, name) = split(&scope);
            limiters.entry(limiter.into()).or_default().0.insert((name.map(Into::into), algorithm));
        }
        Self(limiters.into_iter().map(|(limiter, rules)| (limiter, Arc::new(rules))).collect())
    }

    /// Returns the rules of the limiter with the scope `limiter`.
    pub(crate) fn get(&self, limiter: &str) -> Option<&Arc<LimiterRules>> {
        self.0.get(limiter)
    }
}

impl LimiterRules {
    /// Returns true if the limiter has no other rule with `algorithm` than that of one name.
    pub(crate) fn has_one(&self, algorithm: Algorithm) -> bool {
        self.0.iter().filter(|(_, other)| *other == algorithm).count() == 1
    }

    /// Returns true if a rule of the limiter with `algorithm` stands in no list.
    pub(crate) fn has_single(&self, algorithm: Algorithm) -> bool {
        self.0.contains(&(None, algorithm))
    }

    /// Returns the name and algorithm of each rule in a list.
    pub(crate) fn named(&self) -> impl Iterator<Item = (&str, Algorithm)> {
        self.0.iter().filter_map(|(name, algorithm)| Some((name.as_deref()?, *algorithm)))
    }
}

/// Splits the scope of a rule into that of its limiter and its name in a list: `orders#daily`.
pub(crate) fn split(scope: &str) -> (&str, Option<&str>) {
    let parts = scope.rsplit_once('#').filter(|(limiter, name)| {
        !limiter.is_empty()
            && name.starts_with(|c: char| c.is_ascii_alphabetic())
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
    });
    parts.map_or((scope, None), |(limiter, name)| (limiter, Some(name)))
}
