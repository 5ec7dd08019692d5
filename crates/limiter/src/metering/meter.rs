//! What one filter counts, and under which names.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::ledger::Ledger;
use super::{Counts, Period};
use crate::key::redis_text;

/// What every name begins with.
const PREFIX: &[u8] = b"request_counter.{";

/// The key id of what is beyond `max_cells`. No resolver's id is written so.
const OVERFLOW: &[u8] = b"#";

/// By what the counts of one key id are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Dimensions {
    /// The route.
    pub route: bool,
    /// The method.
    pub method: bool,
    /// The class of the answer's status: `2xx`; `none` where the client left before there was one.
    pub status: bool,
}

/// How one filter counts.
#[derive(Clone, Debug)]
pub struct MeterSettings {
    /// What tells its counts from those of other meters: a route's id, or a name that several share.
    pub scope: Arc<str>,
    /// The route's name in [`Dimensions::route`].
    pub route: Arc<str>,
    /// By what counts are told apart.
    pub dimensions: Dimensions,
    /// Over what is summed.
    pub period: Period,
    /// How long counts are kept, from the first of their period on. At least [`Period::longest`], or the end of a
    /// period would begin anew.
    pub ttl: Duration,
    /// Whether key ids are secrets: then only a hash of them is kept.
    pub hash_ids: bool,
}

/// Counts what one filter sees into a [`Ledger`].
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

/// Under what a request is counted, made while the request is there.
#[derive(Debug)]
pub struct Name(Vec<u8>);

// === impl Dimensions ===

impl Default for Dimensions {
    /// All of them.
    fn default() -> Self {
        Self { route: true, method: true, status: true }
    }
}

// === impl Meter ===

impl Meter {
    /// A meter that counts into `ledger`. Meters of one scope share their counts.
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

    /// Under what a request with the key id `id` is counted; one without a key id is counted under the empty one.
    #[must_use]
    pub fn name(&self, id: &[u8]) -> Name {
        // Room for an address, the period and the field: most are made with one allocation.
        let mut name = Vec::with_capacity(self.prefix.len() + self.route.len() + 72);
        name.extend_from_slice(&self.prefix);
        redis_text::write_id(id, self.hash_ids && !id.is_empty(), &mut name);
        Name(name)
    }

    /// Adds `counts` to those of `name` in the present period. `method` must be one of a bounded number of words of
    /// letters; `status` is 0 where there was no answer.
    pub fn count(&self, name: Name, method: &str, status: u16, counts: &Counts) {
        self.count_at(name, method, status, counts, unix_secs());
    }

    /// The same at another time, in seconds since 1970.
    pub fn count_at(&self, Name(mut name): Name, method: &str, status: u16, counts: &Counts, unix_secs: u64) {
        if *counts == Counts::default() {
            return;
        }
        self.complete(&mut name, method, status, unix_secs);
        let expires_at = unix_secs.saturating_add(self.ttl_secs);
        if !self.ledger.add(&name, counts, self.ttl_secs, expires_at) {
            name.clear();
            name.extend_from_slice(&self.prefix);
            name.extend_from_slice(OVERFLOW);
            self.complete(&mut name, method, status, unix_secs);
            self.ledger.add_overflow(&name, counts, self.ttl_secs, expires_at);
        }
    }

    /// Appends the period and, behind a NUL, which no name holds, the beginning of the fields.
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

pub(super) fn unix_secs() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
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
    fn names_tell_scope_key_id_and_period_and_fields_the_dimensions() {
        let orders = settings("orders");
        let named = |name: &str, field: &str| (name.to_owned(), field.to_owned());
        assert_eq!(
            written(&orders, b"10.0.0.1", "GET", 204),
            named("request_counter.{orders.10.0.0.1}.2026-11-21", "a%2Eb.GET.2xx.requests")
        );
        let status = Dimensions { route: false, method: false, status: true };
        let monthly = MeterSettings { period: Period::Month, dimensions: status, ..settings("a.b") };
        assert_eq!(written(&monthly, b"", "GET", 0), named("request_counter.{a%2Eb.}.2026-11", "none.requests"));
        let nothing = Dimensions { route: false, method: false, status: false };
        let hourly = MeterSettings { period: Period::Hour, dimensions: nothing, ..settings("a") };
        assert_eq!(written(&hourly, b"{}", "GET", 0), named("request_counter.{a.%7B%7D}.2026-11-21T13", "requests"));
    }

    #[test]
    fn a_secret_or_long_key_id_is_kept_as_a_hash_only() {
        let secret = MeterSettings { hash_ids: true, ..settings("r") };
        // printf s3cret | sha256sum
        assert!(written(&secret, b"s3cret", "GET", 200).0.contains("{r.#1EC1C26B50D5D3C58D9583181AF80766}"));
        assert!(written(&secret, b"", "GET", 200).0.contains("{r.}"), "nobody is no secret");
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
            prop_assert!(!one.0.contains("{#}") && !one.0.contains(".#}"), "nobody is the overflow: {}", one.0);
        }
    }
}
