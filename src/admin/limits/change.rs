//! Changes of buckets: what they do, and what is known of them if Redis is lost.

use std::fmt;

use schemars::JsonSchema;
use serde::Deserialize;
use thiserror::Error;
use tollgate_limiter::rule::MAX_SAFE_INTEGER;
use tollgate_limiter::store::redis::{StoreError, Unanswered};

use crate::admin::limits::error::LimitsError;
use crate::admin::limits::selection::{name, quoted};
use crate::admin::request::BodyError;
use tollgate_config::NamedLimit;

/// Largest grant.
const MAX_GRANT: i64 = MAX_SAFE_INTEGER as i64;

/// Change of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Adds tokens.
    Grant(i64),
    /// Sets the remaining tokens.
    Set(u64),
    /// Makes the bucket full.
    Reset,
}

/// Body of a PUT.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
#[schemars(extend("oneOf" = [{"required": ["remaining"]}, {"required": ["grant"]}]))]
pub(in crate::admin) struct ChangeBody {
    /// Name of the rule. Needed if the key has several.
    pub(super) rule: Option<String>,
    /// Plan of the rule. Needed if several plans have a rule of this name.
    pub(super) plan: Option<String>,
    /// New number of remaining tokens.
    #[schemars(range(max = MAX_SAFE_INTEGER))]
    remaining: Option<u64>,
    /// Tokens to add.
    #[schemars(range(min = 0, max = MAX_SAFE_INTEGER))]
    grant: Option<i64>,
}

/// Failure of a change in Redis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lost {
    reason: String,
    may_have_run: bool,
}

/// Change that Redis did not confirm for every rule.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(in crate::admin) struct Unconfirmed {
    change: Change,
    reason: String,
    /// Rules that were changed.
    done: Vec<String>,
    /// Rules that may have been changed.
    unknown: Vec<String>,
    /// Rules that were not changed.
    untouched: Vec<String>,
}

impl ChangeBody {
    pub(super) const EXPECTED: &str = "{\"remaining\": N} or {\"grant\": N}, optionally with \"rule\" and \"plan\"";

    /// Returns the change.
    pub(super) fn change(&self) -> Result<Change, BodyError> {
        let bad = |reason: String| Err(BodyError::Invalid { expected: Self::EXPECTED, reason });
        match (self.remaining, self.grant) {
            (Some(remaining @ 0..=MAX_SAFE_INTEGER), None) => Ok(Change::Set(remaining)),
            (None, Some(more @ 0..=MAX_GRANT)) => Ok(Change::Grant(more)),
            (None, Some(..0)) => bad("a grant must not be negative: set \"remaining\" to take tokens away".into()),
            (Some(_), None) | (None, Some(_)) => bad(format!("the number must be at most {MAX_SAFE_INTEGER}")),
            _ => bad("give exactly one of the two".into()),
        }
    }
}

impl Change {
    /// Describes the change for the log. `key` is printable.
    pub(super) fn audit(self, route: &str, rules: &[NamedLimit<'_>], key: &str) -> String {
        let subject = format!("key {key} under rule {} of route {route}", names(rules).join(", "));
        match self {
            Self::Grant(1) => format!("grant of 1 token to {subject}"),
            Self::Grant(more) => format!("grant of {more} tokens to {subject}"),
            Self::Set(remaining) => format!("remaining tokens set to {remaining} for {subject}"),
            Self::Reset => format!("reset of {subject}"),
        }
    }

    fn past(self) -> &'static str {
        match self {
            Self::Grant(_) => "granted",
            Self::Set(_) => "set",
            Self::Reset => "reset",
        }
    }
}

/// Returns the names of rules, with their plans.
pub(super) fn names(rules: &[NamedLimit<'_>]) -> Vec<String> {
    rules.iter().map(|rule| quoted(name(rule), rule.plan)).collect()
}

impl Lost {
    /// Returns the failure of a change that was not sent, because Redis did not reply before.
    pub(super) fn unsent() -> Self {
        Self { reason: LimitsError::Unreachable.to_string(), may_have_run: false }
    }

    /// Returns the error of a change of the rule at `position` of `rules`. Those before it were changed.
    pub(super) fn during(self, change: Change, rules: &[NamedLimit<'_>], position: usize) -> Unconfirmed {
        let mut done = names(rules);
        let mut unknown = done.split_off(position.min(done.len()));
        let mut untouched = unknown.split_off(unknown.len().min(1));
        if !self.may_have_run {
            untouched.splice(0..0, unknown.drain(..));
        }
        Unconfirmed { change, reason: self.reason, done, unknown, untouched }
    }
}

impl From<Unanswered> for Lost {
    fn from(Unanswered { kind, may_have_run }: Unanswered) -> Self {
        let reason = match kind {
            StoreError::Timeout => "Redis did not reply in time".to_owned(),
            StoreError::Disconnected if may_have_run => "the connection to Redis broke".to_owned(),
            StoreError::Disconnected | StoreError::BreakerOpen => LimitsError::Unreachable.to_string(),
            kind => kind.to_string(),
        };
        Self { reason, may_have_run }
    }
}

/// Appends the outcome to the reason. With one rule it has no names.
impl fmt::Display for Unconfirmed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { change, reason, done, unknown, untouched } = self;
        let past = change.past();
        write!(f, "{reason}; ")?;
        match (done.as_slice(), unknown.as_slice(), untouched.as_slice()) {
            ([], [], _) => write!(f, "nothing was {past}"),
            ([], [_], []) => write!(
                f,
                "the key may have been {}: read it before you repeat the call",
                match change {
                    Change::Grant(_) => "granted the tokens",
                    Change::Set(_) | Change::Reset => past,
                }
            ),
            (_, [], []) => write!(f, "the change was made, but the key cannot be read"),
            _ => {
                let parts = [(past, done), ("possibly", unknown), ("not", untouched)];
                let parts = parts.into_iter().filter(|(_, rules)| !rules.is_empty());
                let part = |(word, rules): (&str, &Vec<String>)| match word == past {
                    true => format!("{past}: {}", rules.join(", ")),
                    false => format!("{word} {past}: {}", rules.join(", ")),
                };
                f.write_str(&parts.map(part).collect::<Vec<_>>().join("; "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(change: Change, done: &[&str], unknown: &[&str], untouched: &[&str]) -> String {
        let names = |names: &[&str]| names.iter().map(|name| format!("`{name}`")).collect();
        let [done, unknown, untouched] = [done, unknown, untouched].map(names);
        Unconfirmed { change, reason: "Redis is lost".into(), done, unknown, untouched }.to_string()
    }

    #[test]
    fn the_outcome_of_a_lost_change_is_told() {
        for (change, [done, unknown, untouched], expected) in [
            (Change::Grant(1), [&[][..], &[], &["a"]], "nothing was granted"),
            (Change::Set(1), [&[], &[], &["a"]], "nothing was set"),
            (Change::Reset, [&[], &[], &["a", "b"]], "nothing was reset"),
            (
                Change::Grant(1),
                [&[], &["a"], &[]],
                "the key may have been granted the tokens: read it before you repeat the call",
            ),
            (Change::Reset, [&["a", "b"], &[], &[]], "the change was made, but the key cannot be read"),
            (Change::Reset, [&["a", "b"], &[], &["c", "d"]], "reset: `a`, `b`; not reset: `c`, `d`"),
            (Change::Reset, [&["a"], &["b"], &["c"]], "reset: `a`; possibly reset: `b`; not reset: `c`"),
            (Change::Reset, [&[], &["b"], &["c"]], "possibly reset: `b`; not reset: `c`"),
        ] {
            assert_eq!(shown(change, done, unknown, untouched), format!("Redis is lost; {expected}"));
        }
    }

    #[test]
    fn a_call_that_was_not_sent_has_not_run() {
        let reason = |kind, may_have_run| Lost::from(Unanswered { kind, may_have_run }).reason;
        assert_eq!(reason(StoreError::BreakerOpen, false), "Redis is unreachable");
        assert_eq!(reason(StoreError::Disconnected, false), "Redis is unreachable");
        assert_eq!(reason(StoreError::Disconnected, true), "the connection to Redis broke");
        assert_eq!(reason(StoreError::Timeout, true), "Redis did not reply in time");
    }
}
