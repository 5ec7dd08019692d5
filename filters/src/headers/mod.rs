//! What a verdict says to the client: three families of header fields, and `Retry-After`.
//!
//! | Family | Fields |
//! |---|---|
//! | `spring` | `X-RateLimit-Remaining`, `-Replenish-Rate`, `-Burst-Capacity`, `-Requested-Tokens`, each renamable |
//! | `draft` | `RateLimit-Policy` and `RateLimit` (draft-ietf-httpapi-ratelimit-headers-11), an item for each rule |
//! | `legacy` | `X-RateLimit-Limit`, `-Remaining`, `-Reset` (seconds from now until nothing is spent any more) |
//!
//! Of several rules, `spring` and `legacy` speak of the one nearest to denying. A rule that is no bucket has its limit
//! for rate and burst. What follows from the rules is a ready [`HeaderValue`]; a response only has its remaining tokens
//! written, and up to 999 of them without an allocation.

mod draft;
mod number;

use std::time::Duration;

use http::header::{Entry, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue};

pub use self::number::number_value;
use tollgate_limiter::rule::Rule;
use tollgate_limiter::store::MAX_CHECKS;
use tollgate_limiter::verdict::{Outcome, RuleVerdict, Source, Verdict};

/// The names under which a limiter reports, and whether it does (Spring's `redis-rate-limiter.include-headers`,
/// `.remaining-header` and so on).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderNames {
    /// Whether any of these headers is sent. `Retry-After` is always.
    pub include: bool,
    /// Whole tokens left, `-1` when nobody counted.
    pub remaining: HeaderName,
    /// Tokens added a second.
    pub replenish_rate: HeaderName,
    /// Tokens that the bucket holds at most.
    pub burst_capacity: HeaderName,
    /// Tokens that a request takes.
    pub requested_tokens: HeaderName,
    /// Which families are sent.
    pub families: Families,
}

/// Which families of fields are sent. The default is Spring's alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Families {
    /// The four fields of Spring Cloud Gateway.
    pub spring: bool,
    /// `RateLimit-Policy` and `RateLimit`.
    pub draft: bool,
    /// `X-RateLimit-Limit`, `-Remaining` and `-Reset`.
    pub legacy: bool,
}

/// A rule as the fields name and describe it.
#[derive(Clone, Copy, Debug)]
pub struct Described<'a> {
    /// The policy's name in `RateLimit`.
    pub name: &'a str,
    /// The rule.
    pub rule: &'a Rule,
    /// What a request takes, as far as that is known beforehand.
    pub cost: u64,
}

/// The headers of a filter's rules, ready to be put on responses.
#[derive(Clone, Debug)]
pub struct RateLimitHeaders {
    names: HeaderNames,
    rules: Box<[Ready]>,
}

/// What follows from one rule.
#[derive(Clone, Debug)]
struct Ready {
    replenish_rate: HeaderValue,
    burst_capacity: HeaderValue,
    requested_tokens: HeaderValue,
    policy: draft::Policy,
    /// A quota that nothing refills.
    is_stock: bool,
}

/// Which of the rules a verdict speaks of: positions of its checks among them, and what each took where that varies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) rules: &'a [u8],
    pub(crate) costs: Option<&'a [u64]>,
}

/// Marks verdicts that were not made where the rule is kept.
pub(crate) const DEGRADED: HeaderName = HeaderName::from_static("x-ratelimit-degraded");
const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
const LEGACY_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const LEGACY_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const LEGACY_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// The positions of as many rules as there may be.
const ALL_RULES: [u8; MAX_CHECKS] = [0, 1, 2, 3, 4, 5];

/// The seconds in `Retry-After` (RFC 9110 §10.2.3): the wait, rounded up, and never 0, which clients read as "at once".
#[must_use]
pub fn retry_after_secs(wait: Duration) -> u64 {
    whole_secs(wait).max(1)
}

/// `time` in seconds, rounded up.
fn whole_secs(time: Duration) -> u64 {
    time.as_secs().saturating_add(u64::from(time.subsec_nanos() > 0))
}

// === impl HeaderNames ===

impl Default for HeaderNames {
    /// Spring's names, sent.
    fn default() -> Self {
        Self {
            include: true,
            remaining: HeaderName::from_static("x-ratelimit-remaining"),
            replenish_rate: HeaderName::from_static("x-ratelimit-replenish-rate"),
            burst_capacity: HeaderName::from_static("x-ratelimit-burst-capacity"),
            requested_tokens: HeaderName::from_static("x-ratelimit-requested-tokens"),
            families: Families::default(),
        }
    }
}

impl Default for Families {
    fn default() -> Self {
        Self { spring: true, draft: false, legacy: false }
    }
}

// === impl RateLimitHeaders ===

impl RateLimitHeaders {
    /// The headers that report on `rules` under `names`.
    #[must_use]
    pub fn new(names: HeaderNames, rules: &[Described<'_>]) -> Self {
        let ready = |described: &Described<'_>| Ready {
            replenish_rate: number_value(described.rule.rate()),
            burst_capacity: number_value(described.rule.capacity()),
            requested_tokens: number_value(described.cost),
            policy: draft::Policy::new(described.name, described.rule),
            is_stock: described.rule.algorithm().spec().prepaid,
        };
        Self { names, rules: rules.iter().map(ready).collect() }
    }

    /// Whether responses that pass get any header at all.
    #[must_use]
    pub fn included(&self) -> bool {
        self.names.include
    }

    /// Adds the fields for a verdict on all of the rules, in their order, and `X-RateLimit-Degraded: fallback` when the
    /// store could not be asked. A header of the same name that an upstream or an inner limiter sent is kept and stands
    /// behind ours, the order Spring sends.
    pub fn append(&self, verdict: &Verdict, headers: &mut HeaderMap) {
        self.append_asked(verdict, Asked { rules: &ALL_RULES, costs: None }, headers);
    }

    /// The same for a verdict on some of the rules.
    pub(crate) fn append_asked(&self, verdict: &Verdict, asked: Asked<'_>, headers: &mut HeaderMap) {
        let Some(ready) = self.nearest(verdict, asked).filter(|_| self.names.include) else { return };
        let Families { spring, draft, legacy } = self.names.families;
        if spring {
            add_in_front(headers, &self.names.remaining, remaining(verdict));
            add_in_front(headers, &self.names.replenish_rate, ready.replenish_rate.clone());
            add_in_front(headers, &self.names.burst_capacity, ready.burst_capacity.clone());
            let cost = asked.costs.and_then(|costs| costs.get(verdict.rule));
            let requested = cost.map_or_else(|| ready.requested_tokens.clone(), |cost| number_value(*cost));
            add_in_front(headers, &self.names.requested_tokens, requested);
        }
        if draft {
            self.append_draft(verdict, asked, headers);
        }
        if legacy {
            self.append_legacy(verdict, ready, headers);
        }
        if verdict.source == Source::Fallback {
            add_in_front(headers, &DEGRADED, HeaderValue::from_static(Source::Fallback.as_str()));
        }
    }

    /// What follows from the rule that `verdict` speaks of.
    fn nearest(&self, verdict: &Verdict, asked: Asked<'_>) -> Option<&Ready> {
        self.rules.get(usize::from(*asked.rules.get(verdict.rule)?))
    }

    fn append_draft(&self, verdict: &Verdict, asked: Asked<'_>, headers: &mut HeaderMap) {
        let policies = asked.rules.iter().filter_map(|at| Some(&self.rules.get(usize::from(*at))?.policy));
        if let Some(value) = draft::policy_field(policies.clone()) {
            add_in_front(headers, &RATELIMIT_POLICY, value);
        }
        let Some(remaining) = verdict.remaining else { return };
        let only = [RuleVerdict {
            outcome: verdict.outcome,
            remaining,
            reset_after: verdict.reset_after,
            delay: verdict.delay,
            counted_at_us: verdict.counted_at_us,
        }];
        let answers = if verdict.per_rule.is_empty() { &only[..] } else { &verdict.per_rule };
        if let Some(value) = draft::limit_field(policies.zip(answers.iter().copied())) {
            add_in_front(headers, &RATELIMIT, value);
        }
    }

    fn append_legacy(&self, verdict: &Verdict, ready: &Ready, headers: &mut HeaderMap) {
        add_in_front(headers, &LEGACY_LIMIT, ready.burst_capacity.clone());
        let Some(left) = verdict.remaining else { return };
        if !self.names.families.spring || self.names.remaining != LEGACY_REMAINING {
            add_in_front(headers, &LEGACY_REMAINING, number_value(left));
        }
        // A stock that nothing refills has no such time: 0 would tell its client to come again at once.
        if !(ready.is_stock && verdict.reset_after.is_zero()) {
            add_in_front(headers, &LEGACY_RESET, number_value(whole_secs(verdict.reset_after)));
        }
    }

    /// Whether [`complete`](Self::complete) can say what there is to say.
    fn is_simple(&self) -> bool {
        self.rules.len() == 1 && self.names.families == Families::default()
    }

    /// Writes a denial's headers as they mostly are, into a map that is copied for each denial.
    pub(crate) fn prepare(&self, headers: &mut HeaderMap) {
        headers.insert(RETRY_AFTER, number_value(1));
        if let ([ready], true) = (&*self.rules, self.names.include && self.is_simple()) {
            headers.insert(&self.names.remaining, number_value(0));
            headers.insert(&self.names.replenish_rate, ready.replenish_rate.clone());
            headers.insert(&self.names.burst_capacity, ready.burst_capacity.clone());
            headers.insert(&self.names.requested_tokens, ready.requested_tokens.clone());
        }
    }

    /// Makes a copy of a [prepared](Self::prepare) map say what `verdict` says.
    pub(crate) fn complete(&self, verdict: &Verdict, asked: Asked<'_>, headers: &mut HeaderMap) {
        match verdict.outcome {
            Outcome::Denied { retry_after } if retry_after <= Duration::from_secs(1) => {}
            Outcome::Denied { .. } => Self::set_retry_after(verdict, headers),
            _ => {
                headers.remove(RETRY_AFTER);
            }
        }
        if !self.names.include {
            return;
        }
        if !self.is_simple() {
            return self.append_asked(verdict, asked, headers);
        }
        if verdict.remaining != Some(0) {
            headers.insert(&self.names.remaining, remaining(verdict));
        }
        if let Some([cost]) = asked.costs {
            headers.insert(&self.names.requested_tokens, number_value(*cost));
        }
        if verdict.source == Source::Fallback {
            headers.insert(DEGRADED, HeaderValue::from_static(Source::Fallback.as_str()));
        }
    }

    /// Sets `Retry-After` when waiting helps: not for [`Outcome::Allowed`] and [`Outcome::NeverAdmitted`].
    pub fn set_retry_after(verdict: &Verdict, headers: &mut HeaderMap) {
        if let Outcome::Denied { retry_after } | Outcome::StoreUnavailable { retry_after } = verdict.outcome {
            headers.insert(RETRY_AFTER, number_value(retry_after_secs(retry_after)));
        }
    }
}

fn remaining(verdict: &Verdict) -> HeaderValue {
    verdict.remaining.map_or(HeaderValue::from_static("-1"), number_value)
}

/// Puts `value` before whatever the map has under `name`. A map that is full (32,768 headers) stays as it is.
pub(crate) fn add_in_front(headers: &mut HeaderMap, name: &HeaderName, value: HeaderValue) {
    match headers.try_entry(name) {
        Ok(Entry::Vacant(vacant)) => {
            let _ = vacant.try_insert(value);
        }
        Ok(Entry::Occupied(mut occupied)) => {
            let theirs: Vec<_> = occupied.insert_mult(value).collect();
            for value in theirs {
                occupied.append(value);
            }
        }
        Err(_) => {}
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;
    use tollgate_limiter::rule::TokenBucket;

    #[test]
    fn the_wait_is_rounded_up_and_at_least_one_second() {
        for (wait, secs) in [
            (Duration::ZERO, 1),
            (Duration::from_nanos(1), 1),
            (Duration::from_secs(1), 1),
            (Duration::from_millis(1_001), 2),
            (Duration::MAX, u64::MAX),
        ] {
            assert_eq!(retry_after_secs(wait), secs, "{wait:?}");
        }
    }

    #[test]
    fn an_upstreams_values_stay_behind_ours() {
        let rule = Rule::TokenBucket(TokenBucket::per_second(10, 20).unwrap());
        let verdict = Verdict { remaining: Some(19), ..Verdict::uncounted(Outcome::Allowed) };
        let mut headers = HeaderMap::new();
        headers.append("x-ratelimit-remaining", HeaderValue::from_static("7"));
        headers.append("x-ratelimit-remaining", HeaderValue::from_static("8"));
        RateLimitHeaders::new(HeaderNames::default(), &[Described { name: "a", rule: &rule, cost: 1 }])
            .append(&verdict, &mut headers);
        let remaining: Vec<_> = headers.get_all("x-ratelimit-remaining").iter().collect();
        assert_eq!(remaining, ["19", "7", "8"]);
    }
}
