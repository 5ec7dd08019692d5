//! Replies of scripts: any bytes of a server are a complete list of verdicts, or none.
//!
//! Input: the number of rules, then a reply in RESP.

use tollgate_limiter::Outcome;
use tollgate_limiter::store::redis::script_reply;

pub fn run(bytes: &[u8]) {
    let Some((rules, reply)) = bytes.split_first() else { return };
    let rules = usize::from(rules % 8);
    let Some(verdicts) = script_reply(reply, rules) else { return };
    assert_eq!(verdicts.len(), rules);
    for verdict in verdicts {
        let is_delayed = !verdict.delay.is_zero();
        assert!(!is_delayed || verdict.outcome == Outcome::Allowed, "{verdict:?}");
    }
}
