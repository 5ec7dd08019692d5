//! How an algorithm's state is read and written without a script.

use redis::{Cmd, Value};

use crate::algorithm::fixed_window::Window;
use crate::algorithm::sliding_window_counter::Counters;
use crate::algorithm::{Algorithm, Moment, State};
use crate::rule::{FixedWindow, MAX_SAFE_INTEGER, Rule, SlidingWindowCounter};
use crate::verdict::RuleVerdict;

/// An algorithm whose state plain commands can read and write: the same state that its script keeps, so that gateways
/// with and without scripts may share keys.
pub(super) trait Plain: Algorithm {
    /// The one command that reads the state under `key`.
    fn read(&self, key: &[u8]) -> Cmd;

    /// What it answered; a state that makes no sense is none.
    fn parse(&self, reply: &Value) -> Option<Self::State>;

    /// The command that makes `change` of what is under `key`.
    fn write(&self, key: &[u8], before: Option<Self::State>, change: Self::Change, now_us: u64) -> Cmd;
}

impl Plain for FixedWindow {
    fn read(&self, key: &[u8]) -> Cmd {
        get(key)
    }

    fn parse(&self, reply: &Value) -> Option<Window> {
        numbers(reply).map(|[used, ends_at_us]| Window { ends_at_us, used })
    }

    fn write(&self, key: &[u8], before: Option<Window>, change: Window, now_us: u64) -> Cmd {
        let Window { used, ends_at_us } = Self::apply(before, change);
        set(key, &[used, ends_at_us], ends_at_us, now_us)
    }
}

impl Plain for SlidingWindowCounter {
    fn read(&self, key: &[u8]) -> Cmd {
        get(key)
    }

    fn parse(&self, reply: &Value) -> Option<Counters> {
        numbers(reply).map(Counters::from_stored)
    }

    fn write(&self, key: &[u8], before: Option<Counters>, change: Counters, now_us: u64) -> Cmd {
        let counters = Self::apply(before, change);
        set(key, &counters.to_stored(), counters.expires_at_us(), now_us)
    }
}

fn get(key: &[u8]) -> Cmd {
    let mut cmd = redis::cmd("GET");
    cmd.arg(key);
    cmd
}

/// Sets `key` to `numbers`, until a second after they matter.
fn set(key: &[u8], numbers: &[u64], matter_until_us: u64, now_us: u64) -> Cmd {
    let text: Vec<String> = numbers.iter().map(u64::to_string).collect();
    let expires_ms = matter_until_us.saturating_sub(now_us) / 1_000 + 1_000;
    let mut cmd = redis::cmd("SET");
    cmd.arg(key).arg(text.join(" ")).arg("PX").arg(expires_ms);
    cmd
}

/// So many numbers with spaces between them, each as large as Lua counts at most.
fn numbers<const N: usize>(reply: &Value) -> Option<[u64; N]> {
    let Value::BulkString(text) = reply else { return None };
    let words = std::str::from_utf8(text).ok()?.split(' ');
    let numbers: Option<Vec<u64>> =
        words.map(|word| word.parse().ok().filter(|&number| number <= MAX_SAFE_INTEGER)).collect();
    numbers?.try_into().ok()
}

/// What is asked of a rule.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ask {
    Decide { cost: u64 },
    Settle { more: i64, counted_at_us: u64 },
}

/// Evaluates `$body` with the numbers of `$rule`, or `None` if its algorithm needs scripts.
macro_rules! by_plain {
    ($rule:expr, $inner:ident => $body:expr) => {
        match $rule {
            Rule::FixedWindow($inner) => Some($body),
            Rule::SlidingWindowCounter($inner) => Some($body),
            _ => None,
        }
    };
}

/// Whether a rule can be decided under a lock.
pub(super) fn is_plain(rule: &Rule) -> bool {
    by_plain!(rule, _rule => ()).is_some()
}

/// The command that reads a rule's state.
pub(super) fn read(rule: &Rule, key: &[u8]) -> Option<Cmd> {
    by_plain!(rule, rule => rule.read(key))
}

/// Decides with what was read. The command is what is to be written, if anything.
pub(super) fn decide(
    rule: &Rule,
    key: &[u8],
    reply: &Value,
    now: Moment,
    ask: Ask,
) -> Option<(RuleVerdict, Option<Cmd>)> {
    by_plain!(rule, rule => decide_by(rule, key, reply, now, ask))
}

fn decide_by<A: Plain>(rule: &A, key: &[u8], reply: &Value, now: Moment, ask: Ask) -> (RuleVerdict, Option<Cmd>) {
    let state = rule.parse(reply);
    let (answer, change) = match ask {
        Ask::Decide { cost } => rule.decide(state.as_ref(), now, cost),
        Ask::Settle { more, counted_at_us } => {
            (RuleVerdict::allowed(0, 0, now), rule.settle(state.as_ref(), now, more, counted_at_us))
        }
    };
    (answer, change.map(|change| rule.write(key, state, change, now.now_us)))
}
