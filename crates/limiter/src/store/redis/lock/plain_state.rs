//! State of an algorithm, read and written without a script.

use redis::{Cmd, Value};

use crate::algorithm::fixed_window::Windows;
use crate::algorithm::sliding_window_counter::Counters;
use crate::algorithm::{Algorithm, Moment, State};
use crate::rule::{FixedWindow, Rule, SlidingWindowCounter};
use crate::verdict::RuleVerdict;

/// Algorithm with a state that plain commands can read and write. The state is that of its script, so gateways with and
/// without scripts may share keys.
pub(super) trait PlainState: Algorithm {
    /// Command that reads the state under `key`.
    fn read(&self, key: &[u8]) -> Cmd {
        let mut cmd = redis::cmd("GET");
        cmd.arg(key);
        cmd
    }

    /// Decodes the reply; an invalid state counts as missing.
    fn parse(&self, reply: &Value) -> Option<Self::State>;

    /// Commands that apply `change` to the state under `key`.
    fn write(&self, key: &[u8], before: Option<Self::State>, change: Self::Change, now_us: u64) -> Vec<Cmd>;
}

impl PlainState for FixedWindow {
    fn parse(&self, reply: &Value) -> Option<Windows> {
        text(reply).and_then(Windows::from_stored)
    }

    fn write(&self, key: &[u8], before: Option<Windows>, change: Windows, now_us: u64) -> Vec<Cmd> {
        let windows = Self::apply(before, change);
        vec![set(key, &windows.to_stored(), windows.kept_until_us(), now_us)]
    }
}

impl PlainState for SlidingWindowCounter {
    fn parse(&self, reply: &Value) -> Option<Counters> {
        text(reply).and_then(Counters::from_stored)
    }

    fn write(&self, key: &[u8], before: Option<Counters>, change: Counters, now_us: u64) -> Vec<Cmd> {
        let counters = Self::apply(before, change);
        vec![set(key, &counters.to_stored(), counters.expires_at_us(), now_us)]
    }
}

/// Sets `key` to `text`, with an expiry one second after it matters.
fn set(key: &[u8], text: &str, matters_until_us: u64, now_us: u64) -> Cmd {
    let expires_ms = matters_until_us.saturating_sub(now_us) / 1_000 + 1_000;
    let mut cmd = redis::cmd("SET");
    cmd.arg(key).arg(text).arg("PX").arg(expires_ms);
    cmd
}

fn text(reply: &Value) -> Option<&str> {
    let Value::BulkString(text) = reply else { return None };
    std::str::from_utf8(text).ok()
}

/// Operation on a rule.
#[derive(Clone, Copy, Debug)]
pub(super) enum Operation {
    Decide { cost: u64 },
    Settle { more: i64, counted_at_us: u64 },
}

impl Operation {
    pub(super) fn is_decision(self) -> bool {
        matches!(self, Self::Decide { .. })
    }
}

/// Evaluates `$body` with the rule's numbers, or `None` if the algorithm needs scripts.
macro_rules! with_plain_state {
    ($rule:expr, $inner:ident => $body:expr) => {
        match $rule {
            Rule::FixedWindow($inner) => Some($body),
            Rule::SlidingWindowCounter($inner) => Some($body),
            Rule::SlidingWindowLog($inner) => Some($body),
            _ => None,
        }
    };
}

/// Command that reads a rule's state.
pub(super) fn read(rule: &Rule, key: &[u8]) -> Option<Cmd> {
    with_plain_state!(rule, rule => rule.read(key))
}

/// Decides by the stored state. The commands are the write; there is none if the state stays as it is.
pub(super) fn decide(
    rule: &Rule,
    key: &[u8],
    stored: &Value,
    now: Moment,
    operation: Operation,
) -> Option<(RuleVerdict, Vec<Cmd>)> {
    with_plain_state!(rule, rule => decide_by(rule, key, stored, now, operation))
}

fn decide_by<A: PlainState>(
    rule: &A,
    key: &[u8],
    stored: &Value,
    now: Moment,
    operation: Operation,
) -> (RuleVerdict, Vec<Cmd>) {
    let state = rule.parse(stored);
    let (rule_verdict, change) = match operation {
        Operation::Decide { cost } => rule.decide(state.as_ref(), now, cost),
        Operation::Settle { more, counted_at_us } => {
            (RuleVerdict::allowed(0, 0, now), rule.settle(state.as_ref(), now, more, counted_at_us))
        }
    };
    (rule_verdict, change.map(|change| rule.write(key, state, change, now.now_us)).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::samples;

    #[test]
    fn lockable_algorithms_have_a_plain_state() {
        for rule in samples() {
            assert_eq!(read(&rule, b"k").is_some(), rule.algorithm().spec().lockable, "{rule:?}");
        }
    }
}
