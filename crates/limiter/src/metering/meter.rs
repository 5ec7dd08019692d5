//! Meter: names and counts of one filter.

use std::sync::Arc;
use std::time::Duration;

use super::ledger::{Cell, Ledger};
use super::period::unix_secs;
use super::{Counts, Period};
use crate::key::redis_text;

/// Prefix of every name.
const PREFIX: &[u8] = b"request_counter.{";

/// Key id of requests beyond `max_cells`. No encoded key id equals it.
const OVERFLOW: &[u8] = b"#";

/// Dimensions by which the counts of a key id are split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Dimensions {
    /// Splits by route.
    pub route: bool,
    /// Splits by method.
    pub method: bool,
    /// Splits by class of the response status, such as `2xx`; `none` if the client left before a response.
    pub status: bool,
}

/// Settings of a meter.
#[derive(Clone, Debug)]
pub struct MeterSettings {
    /// Scope of the counts: a route's id, or a name shared by several meters.
    pub scope: Arc<str>,
    /// Name of the route for [`Dimensions::route`].
    pub route: Arc<str>,
    /// Dimensions of the counts.
    pub dimensions: Dimensions,
    /// Period over which requests are summed.
    pub period: Period,
    /// Time for which counts are kept, from the first request of a period on. At least [`Period::max_duration`], or
    /// counts would expire within their period.
    pub ttl: Duration,
    /// True if key ids are secrets, so that only a hash of them is stored.
    pub hash_ids: bool,
}

/// Counts the requests of one filter into a [`Ledger`].
#[derive(Debug)]
pub struct Meter {
    ledger: Arc<Ledger>,
    prefix: Box<[u8]>,
    route: Box<[u8]>,
    dimensions: Dimensions,
    period: Period,
    ttl_secs: u64,
    hash_ids: bool,
}

/// Name under which a request is counted, created while the request is available.
#[derive(Debug)]
pub struct UsageName(Vec<u8>);

// === impl Dimensions ===

impl Default for Dimensions {
    /// All dimensions.
    fn default() -> Self {
        Self { route: true, method: true, status: true }
    }
}

// === impl Meter ===

impl Meter {
    /// Creates a meter that counts into `ledger`. Meters with the same scope share their counts.
    #[must_use]
    pub fn new(ledger: Arc<Ledger>, settings: &MeterSettings) -> Self {
        let mut prefix = PREFIX.to_vec();
        redis_text::write_scope(&settings.scope, &mut prefix);
        prefix.push(b'.');
        let mut route = Vec::new();
        if settings.dimensions.route {
            redis_text::write_scope(&settings.route, &mut route);
            route.push(b'.');
        }
        Self {
            ledger,
            prefix: prefix.into(),
            route: route.into(),
            dimensions: settings.dimensions,
            period: settings.period,
            ttl_secs: settings.ttl.as_secs().max(1),
            hash_ids: settings.hash_ids,
        }
    }

    /// Returns the name of requests with the key id `id`; empty for requests without a key id.
    #[must_use]
    pub fn name(&self, id: &[u8]) -> UsageName {
        // Capacity for an address, the period and the field, so that most names need one allocation.
        let mut name = Vec::with_capacity(self.prefix.len() + self.route.len() + 72);
        name.extend_from_slice(&self.prefix);
        redis_text::write_id(id, self.hash_ids && !id.is_empty(), &mut name);
        UsageName(name)
    }

    /// Adds `counts` to those of `name` in the current period.
    ///
    /// `method` consists of letters and has a bounded number of values; `status` is 0 without a response.
    pub fn count(&self, name: UsageName, method: &str, status: u16, counts: &Counts) {
        self.count_at(name, method, status, counts, unix_secs());
    }

    /// Adds `counts` in the period that contains `unix_secs`, in seconds since 1970.
    pub fn count_at(&self, UsageName(mut name): UsageName, method: &str, status: u16, counts: &Counts, unix_secs: u64) {
        if *counts == Counts::default() {
            return;
        }
        self.complete(&mut name, method, status, unix_secs);
        let expires_at = unix_secs.saturating_add(self.ttl_secs);
        let cell = Cell { counts: *counts, ttl_secs: self.ttl_secs, expires_at };
        if !self.ledger.add(&name, cell, false) {
            name.clear();
            name.extend_from_slice(&self.prefix);
            name.extend_from_slice(OVERFLOW);
            self.complete(&mut name, method, status, unix_secs);
            self.ledger.add(&name, cell, true);
        }
    }

    /// Appends the period and, after a NUL (which no name contains), the prefix of the fields.
    fn complete(&self, name: &mut Vec<u8>, method: &str, status: u16, unix_secs: u64) {
        name.extend_from_slice(b"}.");
        self.period.write(unix_secs, name);
        name.push(0);
        name.extend_from_slice(&self.route);
        if self.dimensions.method {
            name.extend_from_slice(method.as_bytes());
            name.push(b'.');
        }
        if self.dimensions.status {
            match u8::try_from(status / 100) {
                Ok(class @ 1..=9) => name.extend_from_slice(&[b'0' + class, b'x', b'x']),
                _ => name.extend_from_slice(b"none"),
            }
            name.push(b'.');
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use proptest::prelude::*;

    use super::*;

    const AT: u64 = 1_795_269_599; // 2026-11-21T13:59:59Z

    pub(crate) fn settings(scope: &str) -> MeterSettings {
        MeterSettings {
            scope: scope.into(),
            route: "a.b".into(),
            dimensions: Dimensions::default(),
            period: Period::Day,
            ttl: Duration::from_secs(35 * 86_400),
            hash_ids: false,
        }
    }

    fn written(settings: &MeterSettings, id: &[u8], method: &str, status: u16) -> (String, String) {
        let ledger = Arc::new(Ledger::new(10));
        let meter = Meter::new(Arc::clone(&ledger), settings);
        meter.count_at(meter.name(id), method, status, &Counts { requests: 1, ..Counts::default() }, AT);
        let [usage] = <[_; 1]>::try_from(ledger.usage()).unwrap();
        let [(field, 1)] = <[_; 1]>::try_from(usage.fields).unwrap() else { panic!("one field") };
        (usage.name, field)
    }

    #[test]
    fn names_contain_scope_key_id_and_period_and_fields_the_dimensions() {
        let orders = settings("orders");
        let written_as = |name: &str, field: &str| (name.to_owned(), field.to_owned());
        assert_eq!(
            written(&orders, b"10.0.0.1", "GET", 204),
            written_as("request_counter.{orders.10.0.0.1}.2026-11-21", "a%2Eb.GET.2xx.requests")
        );
        let status = Dimensions { route: false, method: false, status: true };
        let monthly = MeterSettings { period: Period::Month, dimensions: status, ..settings("a.b") };
        assert_eq!(written(&monthly, b"", "GET", 0), written_as("request_counter.{a%2Eb.}.2026-11", "none.requests"));
        let nothing = Dimensions { route: false, method: false, status: false };
        let hourly = MeterSettings { period: Period::Hour, dimensions: nothing, ..settings("a") };
        assert_eq!(
            written(&hourly, b"{}", "GET", 0),
            written_as("request_counter.{a.%7B%7D}.2026-11-21T13", "requests")
        );
    }

    #[test]
    fn a_secret_or_long_key_id_is_stored_as_a_hash() {
        let secret = MeterSettings { hash_ids: true, ..settings("r") };
        // printf s3cret | sha256sum
        assert!(written(&secret, b"s3cret", "GET", 200).0.contains("{r.#1EC1C26B50D5D3C58D9583181AF80766}"));
        assert!(written(&secret, b"", "GET", 200).0.contains("{r.}"), "an empty key id is not hashed");
        assert!(written(&settings("r"), &[b'a'; 100_000], "GET", 200).0.len() < 100);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn two_different_pairs_never_share_a_name(
            a in "[ab.{}%#:]{0,4}", b in prop::collection::vec(prop::sample::select(b"ab.{}%#:\0".to_vec()), 0..5),
            c in "[ab.{}%#:]{0,4}", d in prop::collection::vec(prop::sample::select(b"ab.{}%#:\0".to_vec()), 0..5)
        ) {
            let (one, other) = (written(&settings(&a), &b, "GET", 200), written(&settings(&c), &d, "GET", 200));
            prop_assert_eq!(one == other, a == c && b == d);
            prop_assert!(!one.0.contains("{#}") && !one.0.contains(".#}"), "no name equals the overflow: {}", one.0);
        }
    }
}
