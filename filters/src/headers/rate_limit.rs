//! Rate limit headers of a limiter's rules.

use std::borrow::Cow;

use http::header::RETRY_AFTER;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::value::{number_value, prepend, retry_after_secs, whole_secs};
use super::{Families, HeaderNames, draft};
use tollgate_limiter::rule::Rule;
use tollgate_limiter::store::MAX_CHECKS;
use tollgate_limiter::verdict::{Outcome, RuleVerdict, Source, Verdict};

/// Rule with its name and the cost of a request.
#[derive(Clone, Copy, Debug)]
pub struct NamedRule<'a> {
    /// The policy's name in `RateLimit`.
    pub name: &'a str,
    /// The rule.
    pub rule: &'a Rule,
    /// Tokens that a request takes, as far as that is known at load.
    pub cost: u64,
}

/// Headers of a limiter's rules, prepared for responses.
#[derive(Clone, Debug)]
pub struct RateLimitHeaders {
    names: HeaderNames,
    rules: Box<[PreparedRule]>,
}

/// Header values of one rule.
#[derive(Clone, Debug)]
struct PreparedRule {
    replenish_rate: HeaderValue,
    burst_capacity: HeaderValue,
    requested_tokens: HeaderValue,
    policy: draft::Policy,
    is_quota: bool,
}

/// Rules that a verdict is about, by position among all rules, in the order of its checks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CheckedRules<'a> {
    pub(crate) rules: &'a [u8],
    /// Tokens taken under each of them; `None` if the costs are fixed.
    pub(crate) costs: Option<&'a [u64]>,
}

/// Marks verdicts of the fallback.
pub(crate) const DEGRADED: HeaderName = HeaderName::from_static("x-ratelimit-degraded");
const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
const LEGACY_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const LEGACY_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const LEGACY_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// Positions of all rules of a limiter that has the maximum number of rules.
const ALL_RULES: [u8; MAX_CHECKS] = [0, 1, 2, 3, 4, 5];

// === impl PreparedRule ===

impl PreparedRule {
    /// Returns the values of a rule with other numbers.
    #[cold]
    fn replaced_by(&self, rule: &Rule) -> Self {
        Self {
            replenish_rate: number_value(rule.rate()),
            burst_capacity: number_value(rule.capacity()),
            policy: self.policy.of_rule(rule),
            ..self.clone()
        }
    }
}

// === impl RateLimitHeaders ===

impl RateLimitHeaders {
    /// Prepares the headers of `rules` under `names`.
    #[must_use]
    pub fn new(names: HeaderNames, rules: &[NamedRule<'_>]) -> Self {
        let prepare = |NamedRule { name, rule, cost }: &NamedRule<'_>| PreparedRule {
            replenish_rate: number_value(rule.rate()),
            burst_capacity: number_value(rule.capacity()),
            requested_tokens: number_value(*cost),
            policy: draft::Policy::new(name, rule),
            is_quota: rule.is_prepaid(),
        };
        Self { names, rules: rules.iter().map(prepare).collect() }
    }

    /// Returns true if allowed responses get any of these headers.
    #[must_use]
    pub fn included(&self) -> bool {
        self.names.include
    }

    /// Adds the fields for a verdict on all rules in their order, and `X-RateLimit-Degraded: fallback` for a verdict of
    /// the fallback.
    ///
    /// Values of the same name from the upstream or an inner limiter stay and follow ours, in Spring's order.
    pub fn append(&self, verdict: &Verdict, headers: &mut HeaderMap) {
        self.append_checked(verdict, CheckedRules { rules: &ALL_RULES, costs: None }, headers);
    }

    /// Adds the fields, as [`append`](Self::append) does, for a verdict on some of the rules.
    pub(crate) fn append_checked(&self, verdict: &Verdict, checked: CheckedRules<'_>, headers: &mut HeaderMap) {
        if !self.names.include {
            return;
        }
        let Some(rule) = checked.rules.get(verdict.rule).and_then(|at| self.rules.get(usize::from(*at))) else {
            return;
        };
        let replaced = verdict.replaced_rule(verdict.rule).map(|replaced| Box::new(rule.replaced_by(replaced)));
        let rule = replaced.as_deref().unwrap_or(rule);
        let Families { spring, remaining: has_remaining, draft, legacy } = self.names.families;
        if spring || has_remaining {
            prepend(headers, &self.names.remaining, remaining(verdict));
        }
        if spring {
            prepend(headers, &self.names.replenish_rate, rule.replenish_rate.clone());
            prepend(headers, &self.names.burst_capacity, rule.burst_capacity.clone());
            let cost = checked.costs.and_then(|costs| costs.get(verdict.rule));
            let requested = cost.map_or_else(|| rule.requested_tokens.clone(), |cost| number_value(*cost));
            prepend(headers, &self.names.requested_tokens, requested);
        }
        if draft {
            self.append_draft(verdict, checked, headers);
        }
        if legacy {
            self.append_legacy(verdict, rule, headers);
        }
        if verdict.source == Source::Fallback {
            prepend(headers, &DEGRADED, HeaderValue::from_static(Source::Fallback.as_str()));
        }
    }

    fn append_draft(&self, verdict: &Verdict, checked: CheckedRules<'_>, headers: &mut HeaderMap) {
        let policies = checked.rules.iter().enumerate().filter_map(|(position, at)| {
            let policy = &self.rules.get(usize::from(*at))?.policy;
            Some(match verdict.replaced_rule(position) {
                Some(replaced) => Cow::Owned(policy.of_rule(replaced)),
                None => Cow::Borrowed(policy),
            })
        });
        if let Some(value) = draft::policy_field(policies.clone()) {
            prepend(headers, &RATELIMIT_POLICY, value);
        }
        let Some(remaining) = verdict.remaining else { return };
        let only = [RuleVerdict {
            outcome: verdict.outcome,
            remaining,
            reset_after: verdict.reset_after,
            delay: verdict.delay,
            counted_at_us: verdict.counted_at_us,
        }];
        let rule_verdicts = if verdict.per_rule.is_empty() { &only[..] } else { &verdict.per_rule };
        if let Some(value) = draft::limit_field(policies.zip(rule_verdicts.iter().copied())) {
            prepend(headers, &RATELIMIT, value);
        }
    }

    fn append_legacy(&self, verdict: &Verdict, rule: &PreparedRule, headers: &mut HeaderMap) {
        prepend(headers, &LEGACY_LIMIT, rule.burst_capacity.clone());
        let Some(left) = verdict.remaining else { return };
        let Families { spring, remaining, .. } = self.names.families;
        if !(spring || remaining) || self.names.remaining != LEGACY_REMAINING {
            prepend(headers, &LEGACY_REMAINING, number_value(left));
        }
        // A quota without a reset has no such time. Clients would read 0 as "retry immediately".
        if !(rule.is_quota && verdict.reset_after.is_zero()) {
            prepend(headers, &LEGACY_RESET, number_value(whole_secs(verdict.reset_after)));
        }
    }

    /// Sets `Retry-After` if waiting helps: not for [`Outcome::Allowed`] and [`Outcome::NeverAdmitted`].
    pub fn set_retry_after(verdict: &Verdict, headers: &mut HeaderMap) {
        if let Outcome::Denied { retry_after } | Outcome::StoreUnavailable { retry_after } = verdict.outcome {
            headers.insert(RETRY_AFTER, number_value(retry_after_secs(retry_after)));
        }
    }
}

#[cfg(feature = "request-rate-limiter")]
impl RateLimitHeaders {
    /// Returns true if one rule is reported in Spring's family only, which [`complete`](Self::complete) can do.
    fn is_simple(&self) -> bool {
        self.rules.len() == 1 && self.names.families == Families::default()
    }

    /// Writes the headers of the most frequent denial into a map that is copied for each denial.
    pub(crate) fn prepare(&self, headers: &mut HeaderMap) {
        headers.insert(RETRY_AFTER, number_value(1));
        if let ([rule], true) = (&*self.rules, self.names.include && self.is_simple()) {
            headers.insert(&self.names.remaining, number_value(0));
            headers.insert(&self.names.replenish_rate, rule.replenish_rate.clone());
            headers.insert(&self.names.burst_capacity, rule.burst_capacity.clone());
            headers.insert(&self.names.requested_tokens, rule.requested_tokens.clone());
        }
    }

    /// Sets the values of `verdict` in a copy of a [prepared](Self::prepare) map.
    pub(crate) fn complete(&self, verdict: &Verdict, checked: CheckedRules<'_>, headers: &mut HeaderMap) {
        match verdict.outcome {
            Outcome::Denied { retry_after } if retry_after <= std::time::Duration::from_secs(1) => {}
            Outcome::Denied { .. } => Self::set_retry_after(verdict, headers),
            Outcome::Allowed | Outcome::NeverAdmitted | Outcome::StoreUnavailable { .. } => {
                headers.remove(RETRY_AFTER);
            }
        }
        if !self.names.include {
            return;
        }
        if !self.is_simple() {
            return self.append_checked(verdict, checked, headers);
        }
        if verdict.remaining != Some(0) {
            headers.insert(&self.names.remaining, remaining(verdict));
        }
        if let Some(replaced) = verdict.replaced_rule(verdict.rule) {
            headers.insert(&self.names.replenish_rate, number_value(replaced.rate()));
            headers.insert(&self.names.burst_capacity, number_value(replaced.capacity()));
        }
        if let Some([cost]) = checked.costs {
            headers.insert(&self.names.requested_tokens, number_value(*cost));
        }
        if verdict.source == Source::Fallback {
            headers.insert(DEGRADED, HeaderValue::from_static(Source::Fallback.as_str()));
        }
    }
}

fn remaining(verdict: &Verdict) -> HeaderValue {
    verdict.remaining.map_or(HeaderValue::from_static("-1"), number_value)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;
    use tollgate_limiter::rule::TokenBucket;

    #[test]
    fn values_of_the_upstream_follow_ours() {
        let rule = Rule::TokenBucket(TokenBucket::per_second(10, 20).unwrap());
        let verdict = Verdict { remaining: Some(19), ..Verdict::uncounted(Outcome::Allowed) };
        let mut headers = HeaderMap::new();
        headers.append("x-ratelimit-remaining", HeaderValue::from_static("7"));
        headers.append("x-ratelimit-remaining", HeaderValue::from_static("8"));
        RateLimitHeaders::new(HeaderNames::default(), &[NamedRule { name: "a", rule: &rule, cost: 1 }])
            .append(&verdict, &mut headers);
        let remaining: Vec<_> = headers.get_all("x-ratelimit-remaining").iter().collect();
        assert_eq!(remaining, ["19", "7", "8"]);
    }
}
