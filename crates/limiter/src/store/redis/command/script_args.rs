//! Keys and arguments of a script call.

use std::time::{SystemTime, UNIX_EPOCH};

use super::arg_list::ArgList;
use super::key_location::{SHARED_STRING, write_name};
use super::options::CallOptions;
use crate::key::BucketKey;
use crate::rule::{Align, FixedWindow, Flow, LeakyBucket, Quota, Rule, SlidingWindowCounter, TokenBucket};

/// Number of equal requests in one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchSize {
    /// All requests, spare ones included.
    pub(crate) requests: u64,
    /// Requests that already wait. Spare requests pass only if all do.
    pub(crate) waiting: u64,
}

/// Keys and arguments of a script call.
pub(super) struct ScriptArgs {
    keys: ArgList,
    args: ArgList,
    hash_ids: bool,
    /// Time for the script in seconds; empty: Redis' own.
    now: String,
    /// About that time in microseconds since 1970, for the calendar windows that Redis chooses from.
    near_us: u64,
}

impl ScriptArgs {
    pub(super) fn new(options: &CallOptions) -> Self {
        let seconds = |us: u64| format!("{}.{:06}", us / 1_000_000, us % 1_000_000);
        let given_us = options.clock.as_ref().map(|clock| clock.wall_us());
        let near_us = given_us.unwrap_or_else(unix_us);
        let now = given_us.map(seconds).unwrap_or_default();
        Self {
            keys: ArgList::with_capacity(2, 192),
            args: ArgList::with_capacity(8, 64),
            hash_ids: options.hash_ids,
            now,
            near_us,
        }
    }

    /// Adds the Redis keys of `key` unless they are present; returns the index of the first. `rule_name` stands behind
    /// the hash tag, since all keys of a call must be in one slot: `quota.{orders.10.0.0.1}.daily`.
    pub(super) fn add_keys(&mut self, key: BucketKey<'_>, rule_name: Option<&str>, words: &[&str]) -> usize {
        let (at, hash_ids) = (self.keys.len(), self.hash_ids);
        for index in 0..words.len() {
            self.keys.push_with(|out| {
                write_name(key, hash_ids, words, index, out);
                if let Some(name) = rule_name {
                    out.push(b'.');
                    out.extend_from_slice(name.as_bytes());
                }
            });
        }
        let added = self.keys.get(at);
        let known = self.keys.iter().take(at).position(|known| Some(known) == added);
        if known.is_some() {
            self.keys.truncate(at);
        }
        known.unwrap_or(at)
    }

    /// Adds the key of the string that the limiter's rules share; returns its index.
    pub(super) fn add_shared_key(&mut self, key: BucketKey<'_>) -> usize {
        self.add_keys(key, None, &[SHARED_STRING])
    }

    /// Adds the time at which a corrected cost was counted, if the algorithm needs it.
    pub(super) fn counted_at(&mut self, rule: &Rule, counted_at_us: u64) {
        if rule.algorithm().spec().settles_by_time {
            self.number(counted_at_us);
        }
    }

    /// Adds the first arguments of a batch.
    pub(super) fn batch(&mut self, batch: BatchSize) {
        self.number(batch.requests);
        self.number(batch.waiting);
    }

    /// Returns the number of arguments so far.
    pub(super) fn arg_count(&self) -> usize {
        self.args.len()
    }

    /// Returns the number of keys so far.
    pub(super) fn key_count(&self) -> usize {
        self.keys.len()
    }

    pub(super) fn into_keys(self) -> ArgList {
        self.keys
    }

    /// Keys, then arguments.
    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.keys.iter().chain(self.args.iter())
    }

    /// Returns the bytes of all keys and arguments.
    pub(super) fn bytes(&self) -> usize {
        self.keys.bytes() + self.args.bytes()
    }

    /// Adds the arguments of `rule`: two numbers, the time, the cost, and the rest.
    pub(super) fn rule(&mut self, rule: &Rule, cost: &[u8]) {
        match rule {
            Rule::TokenBucket(bucket) | Rule::Gcra(bucket) => self.bucket(bucket, cost),
            Rule::FixedWindow(window) => self.fixed_window(window, cost),
            Rule::SlidingWindowLog(window) => self.limit(window.limit(), window.window_us(), cost),
            Rule::SlidingWindowCounter(window) => self.counter(window, cost),
            Rule::LeakyBucket(bucket) => self.leaky_bucket(bucket, cost),
            Rule::Quota(quota) => self.quota(quota, "take", cost),
        }
    }

    /// Adds the arguments of an operation on a prepaid quota.
    pub(super) fn quota(&mut self, quota: &Quota, action: &str, amount: &[u8]) {
        self.number(quota.allowance());
        self.text(action);
        self.now();
        self.args.push(amount);
        match quota.periods_around(self.near_us) {
            Some(starts) => {
                starts.into_iter().for_each(|start| self.number(start));
                self.number(quota.calendar_id().get().into());
            }
            None => (0..5).for_each(|_| self.text("")),
        }
    }

    fn bucket(&mut self, bucket: &TokenBucket, cost: &[u8]) {
        let flow = bucket.flow();
        self.limit(flow.per_tick.into(), bucket.burst_capacity(), cost);
        if (flow.units, flow.tick_us) != (Flow::PER_SECOND_UNITS, 1) {
            self.number(flow.units);
            self.number(flow.tick_us);
        }
    }

    fn fixed_window(&mut self, window: &FixedWindow, cost: &[u8]) {
        self.limit(window.limit(), window.window_us(), cost);
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

    fn counter(&mut self, window: &SlidingWindowCounter, cost: &[u8]) {
        self.limit(window.limit(), window.window_us(), cost);
        self.number(window.tick_us());
    }

    fn leaky_bucket(&mut self, bucket: &LeakyBucket, cost: &[u8]) {
        self.limit(bucket.interval_us(), bucket.max_wait_us(), cost);
        self.number(bucket.max_queue());
        self.number(bucket.warm_up_us());
    }

    /// Adds the arguments that all scripts begin with.
    fn limit(&mut self, first: u64, second: u64, cost: &[u8]) {
        self.number(first);
        self.number(second);
        self.now();
        self.args.push(cost);
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
}

/// This machine's time in microseconds since 1970.
fn unix_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
