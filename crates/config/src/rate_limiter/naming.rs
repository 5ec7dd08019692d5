//! Scopes: the names under which a limiter counts.

use std::borrow::Cow;
use std::sync::Arc;

use tollgate_filters::key_resolver::KeyResolver;
use tollgate_filters::request_rate_limiter::Enforcement;

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
    pub name: Option<Cow<'n, str>>,
    /// True if the file gives the name: a rule without one is named by its position.
    pub is_named: bool,
    /// Name in metrics and logs: its own in a list, behind the limiter's number from the second limiter on, otherwise its
    /// scope.
    pub label: Arc<str>,
    /// Scope of its buckets.
    pub scope: Arc<str>,
    /// The rule.
    pub limit: &'n Limit,
    /// Its limiter.
    pub limiter: &'n RateLimiter,
}

impl NamedLimit<'_> {
    /// Returns the resolver of the keys that the rule counts.
    pub fn key_resolver(&self) -> &KeyResolver {
        self.limit.key_resolver.as_ref().unwrap_or(&self.limiter.settings.key_resolver)
    }

    /// Returns the enforcement of the rule, with that of its limiter.
    pub fn enforcement(&self) -> Enforcement {
        self.limit.enforcement.and(self.limiter.settings.enforcement)
    }
}

impl<'n> Naming<'n> {
    /// Returns the scope of the limiter as a whole.
    ///
    /// A route's first limiter counts under the route's id, as Spring's does, so that both share buckets in Redis. A
    /// second limiter has a bucket of its own; Spring's would use the first one's. Route ids contain no `#`.
    pub fn scope(&self) -> Arc<str> {
        match &self.limiter.bucket {
            Some(bucket) => format!("#{bucket}").into(),
            None if self.number <= 1 => Arc::clone(self.route),
            None => format!("{}#{}", self.route, self.number).into(),
        }
    }

    /// Returns each rule of `rules`, the rules of `plan`.
    ///
    /// A rule of a list counts under its name: `orders#daily`, in a second limiter `orders#2#daily`. One that could stand
    /// without a list counts under the scope of the limiter, as it does there: so it keeps its buckets when other rules
    /// come and go. It has no name, no key resolver and no bucket of its own; of several such rules, it is the first.
    pub fn named(&self, plan: Option<&'n str>, rules: &'n Rules) -> Vec<NamedLimit<'n>> {
        let limiter = self.limiter;
        match rules {
            Rules::One(limit) => {
                let scope = self.scope_of(limit, None);
                vec![NamedLimit { plan, name: None, is_named: false, label: Arc::clone(&scope), scope, limit, limiter }]
            }
            Rules::Several(limits) => {
                let is_plain = |(name, limit): &(Option<String>, Limit)| {
                    name.is_none() && limit.key_resolver.is_none() && limit.bucket.is_none()
                };
                let plain = limits.iter().position(is_plain);
                let listed = |(at, (name, limit)): (usize, &'n (Option<String>, Limit))| {
                    let (is_named, name) = (name.is_some(), shown_name(name.as_deref(), at));
                    let scope = self.scope_of(limit, (plain != Some(at)).then_some(&*name));
                    let label = self.label_of(limit, &name);
                    NamedLimit { plan, name: Some(name), is_named, label, scope, limit, limiter }
                };
                limits.iter().enumerate().map(listed).collect()
            }
        }
    }

    /// Returns the scope of a rule, of which `name` is a part.
    fn scope_of(&self, limit: &Limit, name: Option<&str>) -> Arc<str> {
        match (&limit.bucket, name) {
            (Some(bucket), _) => format!("#{bucket}").into(),
            (None, Some(name)) => format!("{}#{name}", self.scope()).into(),
            (None, None) => self.scope(),
        }
    }

    fn label_of(&self, limit: &Limit, name: &str) -> Arc<str> {
        let full = self.scope_of(limit, Some(name));
        match full.strip_prefix(&**self.route).and_then(|rest| rest.strip_prefix('#')) {
            Some(within_route) => within_route.into(),
            None => full,
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

/// Returns the name of the rule at `position` of a list.
pub(super) fn shown_name(written: Option<&str>, position: usize) -> Cow<'_, str> {
    written.map_or_else(|| format!("rule{}", position + 1).into(), Cow::Borrowed)
}
