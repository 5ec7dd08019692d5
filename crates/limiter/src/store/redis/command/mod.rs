//! Commands of the limiter: keys and arguments, and replies decoded. Nothing here sends anything.

mod arg_list;
mod key_location;
mod reply;
mod script_args;
mod script_call;

use std::hash::{Hash, Hasher};
use std::sync::Arc;

pub(crate) use self::key_location::{short_name, slot_of};
#[cfg(feature = "gateway")]
pub use self::reply::script_reply;
pub(crate) use self::reply::{batch_verdicts, rule_verdicts};
pub(crate) use self::script_args::{BatchSize, revocation_of};
pub(crate) use self::script_call::{
    LeaseTimes, MAX_WEIGHT, QuotaAction, ScriptCall, can_coalesce, decide, decide_batch, look, notice_key, quota,
    return_leased, settle,
};
use super::turns::ReplyDelay;
use crate::rule::LeakyBucket;
use crate::store::Check;
use crate::store::memory::Clock;

/// Options that all calls of a store share.
#[derive(Clone, Default)]
pub(crate) struct CallOptions {
    /// Text before the name of each key, the same for all stores of a client.
    pub(crate) prefix: Arc<str>,
    /// Sends a hash of each key id, since ids are secrets.
    pub(crate) hash_ids: bool,
    /// Clock to decide by; `None`: Redis' own.
    pub(crate) clock: Option<Arc<dyn Clock>>,
    /// Lateness of the client's replies.
    pub(crate) reply_delay: Arc<ReplyDelay>,
}

impl CallOptions {
    /// Returns the time of decisions as far as this process knows: the configured clock's, or that of `otherwise`.
    pub(crate) fn now_us(&self, otherwise: &impl Clock) -> u64 {
        self.clock.as_ref().map_or_else(|| otherwise.now_us(), |clock| clock.now_us())
    }

    /// Returns the configured clock's time as scripts read it: seconds with six decimals. Empty: Redis' own time.
    pub(crate) fn clock_text(&self) -> String {
        let text = |us: u64| format!("{}.{:06}", us / 1_000_000, us % 1_000_000);
        self.clock.as_ref().map(|clock| text(clock.wall_us())).unwrap_or_default()
    }

    /// Time that the reply takes, for a turn under `rule`; 0 on a clock of the caller's.
    fn lead_us(&self, rule: &LeakyBucket) -> u64 {
        if self.clock.is_some() { 0 } else { self.reply_delay.lead_us(rule) }
    }
}

impl Hash for CallOptions {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.hash_ids.hash(state);
        self.clock.as_ref().map(|clock| Arc::as_ptr(clock).cast::<()>()).hash(state);
    }
}

/// Returns the Redis keys that one decision under all of `checks` reads and writes, without
/// [`RedisSettings::key_prefix`](crate::store::redis::RedisSettings::key_prefix).
///
/// `hash_ids`: key ids are written as hashes. `locked`: a [`LockedStore`](crate::store::redis::LockedStore) decides,
/// which has one key for each rule.
#[must_use]
pub fn key_names(checks: &[Check<'_>], hash_ids: bool, locked: bool) -> Vec<String> {
    let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
    if locked {
        return checks.iter().map(|check| text(&short_name(check.key, check.rule.algorithm(), hash_ids))).collect();
    }
    decide(checks, &[], &CallOptions { hash_ids, ..CallOptions::default() }).keys.iter().map(text).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use std::time::Duration;

    use super::*;
    use crate::key::BucketKey;
    use crate::rule::{Align, FixedWindow, Rule, TokenBucket};

    #[test]
    fn names_are_the_keys_of_a_decision() {
        let bucket = Rule::TokenBucket(TokenBucket::per_second(1, 2).unwrap());
        let window = Rule::FixedWindow(FixedWindow::new(5, Duration::from_secs(1), Align::First).unwrap());
        let check = |scope, rule| Check { key: BucketKey { scope, id: b"ada" }, rule, cost: 1 };
        let spring_names = ["request_rate_limiter.{orders.ada}.tokens", "request_rate_limiter.{orders.ada}.timestamp"];
        assert_eq!(key_names(&[check("orders", &bucket)], false, false), spring_names);
        assert_eq!(key_names(&[check("orders", &window)], false, true), ["window.{orders.ada}"]);
        let both = [check("orders#a", &bucket), check("orders#b", &window)];
        assert_eq!(key_names(&both, false, false), ["rules.{orders.ada}"]);
        assert!(key_names(&[check("orders", &bucket)], true, false)[0].contains(".#"));
    }
}
