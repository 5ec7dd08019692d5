//! Keys and arguments of a script call.

use super::CallOptions;
use super::arg_list::ArgList;
use super::key_location::{SHARED_STRING, write_stem};
use crate::key::BucketKey;
use crate::rule::{Quota, Rule, RuleSettings, ScriptArg, by_algorithm};
use crate::store::memory::unix_us;

/// Number of equal requests in one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchSize {
    /// All requests, spare ones included.
    pub(crate) requests: u64,
    /// Requests that already wait. Spare requests pass only if all do.
    pub(crate) waiting: u64,
}

/// Keys and arguments of a script call.
pub(super) struct ScriptArgs<'o> {
    pub(super) keys: ArgList,
    pub(super) args: ArgList,
    options: &'o CallOptions,
    /// Time for the script in seconds; empty: Redis' own.
    now: String,
    /// About that time in microseconds since 1970, for the calendar windows that Redis chooses from.
    near_us: u64,
}

impl<'o> ScriptArgs<'o> {
    pub(super) fn new(options: &'o CallOptions) -> Self {
        let near_us = options.clock.as_ref().map_or_else(unix_us, |clock| clock.wall_us());
        let (keys, args) = (ArgList::with_capacity(2, 192), ArgList::with_capacity(8, 64));
        Self { keys, args, options, now: options.clock_text(), near_us }
    }

    /// Adds the Redis keys of `key` unless they are present; returns the index of the first. `rule_name` stands behind
    /// the hash tag, since all keys of a call must be in one slot: `quota.{orders.10.0.0.1}.daily`.
    pub(super) fn add_keys(&mut self, key: BucketKey<'_>, rule_name: Option<&str>, words: &[&str]) -> usize {
        let (at, options) = (self.keys.len(), self.options);
        let mut stem = 0..0;
        for (index, word) in words.iter().enumerate() {
            self.keys.push_with(|out| {
                if index == 0 {
                    stem.start = out.len();
                    out.extend_from_slice(options.prefix.as_bytes());
                    write_stem(key, options.hash_ids, words, out);
                    stem.end = out.len();
                } else {
                    out.extend_from_within(stem.clone());
                }
                if words.len() > 1 {
                    out.extend_from_slice(word.as_bytes());
                }
                if let Some(name) = rule_name {
                    out.push(b'.');
                    out.extend_from_slice(name.as_bytes());
                }
            });
        }
        let added = self.keys.get(at);
        let same = self.keys.iter().take(at).position(|key| Some(key) == added);
        if same.is_some() {
            self.keys.truncate(at);
        }
        same.unwrap_or(at)
    }

    /// Adds the key of the string that the limiter's rules share; returns its index.
    pub(super) fn add_shared_key(&mut self, key: BucketKey<'_>) -> usize {
        self.add_keys(key, None, &[SHARED_STRING])
    }

    /// Adds the time that the reply to a request takes, if the algorithm needs it.
    pub(super) fn lead(&mut self, rule: &Rule, options: &CallOptions) {
        if let Rule::LeakyBucket(rule) = rule {
            self.number(options.lead_us(rule));
        }
    }

    /// Adds the key of the revocation of each key, which is named by its index.
    pub(super) fn add_revocations(&mut self, keys: impl Iterator<Item = usize>) {
        let mut added: Vec<usize> = Vec::new();
        for key in keys {
            let name = self.keys.get(key).filter(|_| !added.contains(&key)).map(revocation_of);
            if let Some(name) = name {
                self.keys.push(&name);
                added.push(key);
            }
        }
    }

    /// Adds the arguments of `rule`: two numbers, the time, the cost, and the rest.
    pub(super) fn rule(&mut self, rule: &Rule, cost: &[u8]) {
        by_algorithm!(rule, settings => self.settings(settings, settings.first_script_args(), cost));
    }

    /// Adds the arguments of an operation on a prepaid quota.
    pub(super) fn quota(&mut self, quota: &Quota, action: &'static str, amount: &[u8]) {
        self.settings(quota, [ScriptArg::Number(quota.allowance()), ScriptArg::Word(action)], amount);
    }

    fn settings(&mut self, settings: &impl RuleSettings, first: [ScriptArg; 2], cost: &[u8]) {
        first.into_iter().for_each(|arg| self.arg(arg));
        self.args.push(self.now.as_bytes());
        self.args.push(cost);
        settings.add_script_args(self.near_us, |arg| self.arg(arg));
    }

    fn arg(&mut self, arg: ScriptArg) {
        match arg {
            ScriptArg::Number(number) => self.number(number),
            ScriptArg::Word(word) => self.args.push(word.as_bytes()),
        }
    }

    /// Adds a number.
    pub(super) fn number(&mut self, number: u64) {
        self.args.push(itoa::Buffer::new().format(number).as_bytes());
    }
}

/// Name of the key that records the last revocation of leases on `key`.
pub(crate) fn revocation_of(key: &[u8]) -> Vec<u8> {
    [key, b".revoked"].concat()
}
