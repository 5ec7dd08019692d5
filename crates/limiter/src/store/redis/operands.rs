//! What a script is called with: the names of keys, and a rule in arguments.

use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use super::words::Words;
use crate::key::{BucketKey, redis_text};
use crate::rule::{Algorithm, Align, Flow, Quota, Rule};
use crate::store::memory::Clock;

/// How calls are written.
#[derive(Clone, Default)]
pub(super) struct Style {
    /// Key ids are secrets: Redis gets a hash of them.
    pub(super) hash_ids: bool,
    /// The time to decide at; `None`: Redis' own.
    pub(super) clock: Option<Arc<dyn Clock>>,
}

impl Style {
    /// The time that decisions are counted on, as far as this process knows; `otherwise` where that is Redis' own.
    pub(super) fn now_us(&self, otherwise: &impl Clock) -> u64 {
        self.clock.as_ref().map_or_else(|| otherwise.now_us(), |clock| clock.now_us())
    }
}

impl Hash for Style {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.hash_ids.hash(state);
        self.clock.as_ref().map(|clock| Arc::as_ptr(clock).cast::<()>()).hash(state);
    }
}

/// So many equal requests at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Batch {
    /// How many are asked for.
    pub(super) requests: u64,
    /// How many of them there are already: the rest pass only if all do.
    pub(super) waiting: u64,
}

/// Keys and arguments of checks.
pub(super) struct Operands {
    keys: Words,
    args: Words,
    hash_ids: bool,
    /// The time for the script, empty for Redis' own.
    now: String,
    /// About that time, in microseconds since 1970, to find the windows of a calendar that Redis chooses from.
    near_us: u64,
}

/// What tells the keys of one bucket apart. A token bucket's are Spring Cloud Gateway's; those of others are as short as
/// they can be, since they are kept a million times: `gcra.{orders.10.0.0.1}` takes 24 bytes less than Spring's prefix.
pub(super) fn suffixes(algorithm: Algorithm) -> &'static [&'static [u8]] {
    match algorithm {
        Algorithm::TokenBucket => &[b"tokens", b"timestamp"],
        Algorithm::Gcra => &[b"gcra"],
        Algorithm::FixedWindow => &[b"window"],
        Algorithm::SlidingWindowLog => &[b"log"],
        Algorithm::SlidingWindowCounter => &[b"counter"],
        Algorithm::LeakyBucket => &[b"leaky"],
        Algorithm::Quota => &[b"quota"],
    }
}

/// The name of a bucket that is kept under one key: `gcra.{orders.10.0.0.1}`.
pub(super) fn short_name(key: BucketKey<'_>, hash_id: bool, what: &[u8]) -> Vec<u8> {
    let mut name = Vec::with_capacity(96);
    write_short_name(key, hash_id, what, &mut name);
    name
}

fn write_short_name(key: BucketKey<'_>, hash_id: bool, what: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(what);
    out.extend_from_slice(b".{");
    redis_text::write_scope(key.scope, out);
    out.push(b'.');
    redis_text::write_id(key.id, hash_id, out);
    out.push(b'}');
}

impl Operands {
    pub(super) fn new(style: &Style) -> Self {
        let seconds = |us: u64| format!("{}.{:06}", us / 1_000_000, us % 1_000_000);
        let given_us = style.clock.as_ref().map(|clock| clock.wall_us());
        let near_us = given_us.unwrap_or_else(unix_us);
        let now = given_us.map(seconds).unwrap_or_default();
        Self {
            keys: Words::with_capacity(2, 192),
            args: Words::with_capacity(8, 64),
            hash_ids: style.hash_ids,
            now,
            near_us,
        }
    }

    /// Adds the keys that belong to `key`, unless they are there; returns the position of the first. `rule` tells the
    /// keys of a limiter's rules apart, behind the hash tag, since one call wants them all in one slot:
    /// `quota.{orders.10.0.0.1}.daily`.
    pub(super) fn key(&mut self, key: BucketKey<'_>, rule: Option<&str>, suffixes: &[&[u8]]) -> usize {
        let (at, hash_ids) = (self.keys.len(), self.hash_ids);
        match suffixes {
            [only] => self.keys.push_with(|out| {
                write_short_name(key, hash_ids, only, out);
                if let Some(rule) = rule {
                    out.push(b'.');
                    out.extend_from_slice(rule.as_bytes());
                }
            }),
            all => {
                for suffix in all {
                    self.keys.push_with(|out| {
                        redis_text::write(key, hash_ids, out);
                        out.extend_from_slice(suffix);
                    });
                }
            }
        }
        let added = self.keys.get(at);
        let known = self.keys.iter().take(at).position(|known| Some(known) == added);
        if known.is_some() {
            self.keys.truncate(at);
        }
        known.unwrap_or(at)
    }

    /// When what is to be corrected was counted: for the algorithms that ask.
    pub(super) fn counted_at(&mut self, rule: &Rule, counted_at_us: u64) {
        if !matches!(rule, Rule::TokenBucket(_) | Rule::Gcra(_)) {
            self.number(counted_at_us);
        }
    }

    /// The arguments that a batch begins with.
    pub(super) fn batch(&mut self, batch: Batch) {
        self.number(batch.requests);
        self.number(batch.waiting);
    }

    /// How many arguments there are so far.
    pub(super) fn count(&self) -> usize {
        self.args.len()
    }

    /// How many keys there are.
    pub(super) fn keys(&self) -> usize {
        self.keys.len()
    }

    /// Their names alone.
    pub(super) fn into_keys(self) -> Words {
        self.keys
    }

    /// Keys, then arguments.
    pub(super) fn all(&self) -> impl Iterator<Item = &[u8]> {
        self.keys.iter().chain(self.args.iter())
    }

    /// Bytes of keys and arguments together.
    pub(super) fn bytes(&self) -> usize {
        self.keys.bytes() + self.args.bytes()
    }

    fn number(&mut self, number: u64) {
        self.args.push(itoa::Buffer::new().format(number).as_bytes());
    }

    fn now(&mut self) {
        self.args.push(self.now.as_bytes());
    }

    fn text(&mut self, text: &str) {
        self.args.push(text.as_bytes());
    }

    /// The arguments: two numbers of the rule, no time, the cost, and what else the rule says.
    pub(super) fn rule(&mut self, rule: &Rule, cost: &[u8]) {
        match rule {
            Rule::TokenBucket(bucket) | Rule::Gcra(bucket) => {
                let flow = bucket.flow();
                self.number(flow.per_tick.into());
                self.number(bucket.burst_capacity());
                self.now();
                self.args.push(cost);
                if (flow.units, flow.tick_us) != (Flow::PER_SECOND_UNITS, 1) {
                    self.number(flow.units);
                    self.number(flow.tick_us);
                }
            }
            Rule::FixedWindow(window) => {
                self.number(window.limit());
                self.number(window.window_us());
                self.now();
                self.args.push(cost);
                match window.windows_around(self.near_us) {
                    Some(starts) => {
                        self.text("calendar");
                        starts.into_iter().for_each(|start| self.number(start));
                    }
                    None => self.text(match window.align() {
                        Align::First => "first",
                        Align::Clock => "clock",
                    }),
                }
            }
            Rule::SlidingWindowLog(window) => {
                self.number(window.limit());
                self.number(window.window_us());
                self.now();
                self.args.push(cost);
            }
            Rule::SlidingWindowCounter(window) => {
                self.number(window.limit());
                self.number(window.window_us());
                self.now();
                self.args.push(cost);
                self.number(window.tick_us());
            }
            Rule::LeakyBucket(pace) => {
                self.number(pace.interval_us());
                self.number(pace.max_wait_us());
                self.now();
                self.args.push(cost);
                self.number(pace.max_queue());
                self.number(pace.warm_up_us());
            }
            Rule::Quota(quota) => self.stock(quota, "take", cost),
        }
    }

    pub(super) fn stock(&mut self, quota: &Quota, action: &str, amount: &[u8]) {
        self.number(quota.allowance());
        self.text(action);
        self.now();
        self.args.push(amount);
        match quota.periods_around(self.near_us) {
            Some(starts) => starts.into_iter().for_each(|start| self.number(start)),
            None => (0..4).for_each(|_| self.text("")),
        }
    }
}

/// This machine's time in microseconds since 1970.
fn unix_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
