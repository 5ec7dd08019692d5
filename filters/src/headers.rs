//! What a verdict says to the client: Spring Cloud Gateway's `X-RateLimit-*` family and `Retry-After`.
//!
//! Everything that follows from the rule is a ready [`HeaderValue`]; a response only has its remaining tokens written,
//! and up to 999 of them without an allocation.

use std::time::Duration;

use http::header::{Entry, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::limiter::rule::Rule;
use crate::limiter::verdict::{Outcome, Source, Verdict};

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
}

/// The headers of one rule, ready to be put on responses.
#[derive(Clone, Debug)]
pub struct RateLimitHeaders {
    names: HeaderNames,
    replenish_rate: HeaderValue,
    burst_capacity: HeaderValue,
    requested_tokens: HeaderValue,
}

/// Marks verdicts that were not made where the rule is kept.
pub(crate) const DEGRADED: HeaderName = HeaderName::from_static("x-ratelimit-degraded");

/// The seconds in `Retry-After` (RFC 9110 §10.2.3): the wait, rounded up, and never 0, which clients read as "at once".
#[must_use]
pub fn retry_after_secs(wait: Duration) -> u64 {
    wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0)).max(1)
}

/// `number` in decimal; up to 999 without an allocation.
#[must_use]
pub fn number_value(number: u64) -> HeaderValue {
    match usize::try_from(number) {
        Ok(small) if small < SMALL.len() => HeaderValue::from_static(small_number(small)),
        _ => HeaderValue::from(number),
    }
}

/// The numbers below 1000, three digits each.
static SMALL: [[u8; 3]; 1000] = {
    let mut table = [[b'0'; 3]; 1000];
    let mut n = 0;
    while n < 1000 {
        table[n] = [b'0' + (n / 100) as u8, b'0' + (n / 10 % 10) as u8, b'0' + (n % 10) as u8];
        n += 1;
    }
    table
};

fn small_number(number: usize) -> &'static str {
    let leading_zeros = if number < 10 {
        2
    } else if number < 100 {
        1
    } else {
        0
    };
    std::str::from_utf8(&SMALL[number][leading_zeros..]).unwrap_or_default()
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
        }
    }
}

// === impl RateLimitHeaders ===

impl RateLimitHeaders {
    /// The headers that report on `rule` under `names`, for requests that take `cost`.
    #[must_use]
    pub fn new(names: HeaderNames, rule: &Rule, cost: u64) -> Self {
        Self {
            names,
            replenish_rate: number_value(rule.rate()),
            burst_capacity: number_value(rule.capacity()),
            requested_tokens: number_value(cost),
        }
    }

    /// Whether responses that pass get any header at all.
    #[must_use]
    pub fn included(&self) -> bool {
        self.names.include
    }

    /// Adds the four headers, and `X-RateLimit-Degraded: fallback` when the store could not be asked. A header of the
    /// same name that an upstream or an inner limiter sent is kept and stands behind ours, the order Spring sends.
    pub fn append(&self, verdict: &Verdict, headers: &mut HeaderMap) {
        if !self.names.include {
            return;
        }
        add_in_front(headers, &self.names.remaining, remaining(verdict));
        add_in_front(headers, &self.names.replenish_rate, self.replenish_rate.clone());
        add_in_front(headers, &self.names.burst_capacity, self.burst_capacity.clone());
        add_in_front(headers, &self.names.requested_tokens, self.requested_tokens.clone());
        if verdict.source == Source::Fallback {
            add_in_front(headers, &DEGRADED, HeaderValue::from_static(Source::Fallback.as_str()));
        }
    }

    /// Writes a denial's headers as they mostly are, into a map that is copied for each denial.
    pub(crate) fn prepare(&self, headers: &mut HeaderMap) {
        headers.insert(RETRY_AFTER, number_value(1));
        if self.names.include {
            headers.insert(&self.names.remaining, number_value(0));
            headers.insert(&self.names.replenish_rate, self.replenish_rate.clone());
            headers.insert(&self.names.burst_capacity, self.burst_capacity.clone());
            headers.insert(&self.names.requested_tokens, self.requested_tokens.clone());
        }
    }

    /// Makes a copy of a [prepared](Self::prepare) map say what `verdict` says.
    pub(crate) fn complete(&self, verdict: &Verdict, headers: &mut HeaderMap) {
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
        if verdict.remaining != Some(0) {
            headers.insert(&self.names.remaining, remaining(verdict));
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
    use crate::limiter::rule::TokenBucket;

    #[test]
    fn numbers_are_written_in_decimal_on_both_sides_of_the_table() {
        for n in (0..=1_100).chain([u64::from(u32::MAX), u64::MAX]) {
            assert_eq!(number_value(n).to_str().unwrap(), n.to_string());
        }
    }

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
        let verdict = Verdict { remaining: Some(19), ..Verdict::unseen(Outcome::Allowed) };
        let mut headers = HeaderMap::new();
        headers.append("x-ratelimit-remaining", HeaderValue::from_static("7"));
        headers.append("x-ratelimit-remaining", HeaderValue::from_static("8"));
        RateLimitHeaders::new(HeaderNames::default(), &rule, 1).append(&verdict, &mut headers);
        let remaining: Vec<_> = headers.get_all("x-ratelimit-remaining").iter().collect();
        assert_eq!(remaining, ["19", "7", "8"]);
    }
}
