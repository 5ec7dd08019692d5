//! Scopes: the names under which a limiter counts.

use std::sync::Arc;

use crate::rate_limiter::model::{Limit, RateLimiter, Rules};

/// Names the rules of one limiter of a route.
#[derive(Clone, Copy, Debug)]
pub struct Naming<'n> {
    /// The route's id.
    pub route: &'n Arc<str>,
    /// 1-based position of the limiter among those of its route.
    pub number: usize,
    /// The limiter.
    pub limiter: &'n RateLimiter,
}

/// A rule and its names.
#[derive(Clone, Debug)]
pub struct NamedLimit<'n> {
    /// Its plan; `None`: requests without one.
    pub plan: Option<&'n str>,
    /// Its own name within a list.
    pub name: Option<&'n str>,
    /// Scope of its buckets.
    pub scope: Arc<str>,
    /// The rule.
    pub limit: &'n Limit,
}

impl<'n> Naming<'n> {
    /// Returns the scope of the limiter as a whole.
    ///
    /// A route's first limiter counts under the route's id, as Spring's does, so that both share buckets in Redis. A
    /// second limiter has a bucket of its own; Spring's would use the first one's. Each rule of a list has its own:
    /// `orders`, `orders#2`, `orders#daily`, `orders#2#daily`. Route ids contain no `#`.
    #[must_use]
    pub fn scope(&self) -> Arc<str> {
        match &self.limiter.bucket {
            Some(bucket) => format!("#{bucket}").into(),
            None if self.number <= 1 => Arc::clone(self.route),
            None => format!("{}#{}", self.route, self.number).into(),
        }
    }

    /// Returns each rule of `rules`, the rules of `plan`.
    pub fn named(&self, plan: Option<&'n str>, rules: &'n Rules) -> Vec<NamedLimit<'n>> {
        let named = |name: Option<&'n str>, limit: &'n Limit| {
            let scope = match (&limit.bucket, name) {
                (Some(bucket), _) => format!("#{bucket}").into(),
                (None, Some(name)) => format!("{}#{name}", self.scope()).into(),
                (None, None) => self.scope(),
            };
            NamedLimit { plan, name, scope, limit }
        };
        match rules {
            Rules::One(limit) => vec![named(None, limit)],
            Rules::Several(limits) => limits.iter().map(|(name, limit)| named(Some(name), limit)).collect(),
        }
    }

    /// Returns all rules, including those of plans.
    pub fn all(&self) -> Vec<NamedLimit<'n>> {
        let mut all = self.named(None, &self.limiter.rules);
        for (plan, rules) in self.limiter.plans.iter().flat_map(|plans| &plans.sets) {
            all.extend(self.named(Some(plan), rules));
        }
        all
    }
}
