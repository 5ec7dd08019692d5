//! One override, and its text in Redis.

use std::fmt;
use std::time::Instant;

use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, percent_encode};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tollgate_limiter::store::redis::SharedOverride;

use crate::state::overrides::change::RuleChange;

/// Limit that is overridden.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OverrideTarget {
    /// Scope of the rule's buckets.
    pub scope: String,
    /// Plan of the rule; `None` for the rules of requests without one.
    pub plan: Option<String>,
    /// Key id, or its hash; `None` for every key.
    pub key: Option<Box<[u8]>>,
}

/// Override in place of the configured rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OverrideEffect {
    /// Other numbers.
    Rule(RuleChange),
    /// Allows every request uncounted.
    Unlimited,
    /// Denies every request.
    Block,
}

/// OverrideNames of an override, for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct OverrideNames {
    /// Id of the route that was named.
    pub route: String,
    /// Name of the rule.
    pub rule: String,
    /// Name of the token that set it.
    pub by: String,
}

/// Temporary override of a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    /// Limit that is overridden.
    pub target: OverrideTarget,
    /// Override in place of the configured rule.
    pub effect: OverrideEffect,
    /// OverrideNames for people.
    pub names: OverrideNames,
    /// End.
    pub until: Instant,
}

/// Text of an override in Redis.
#[derive(Debug, Serialize, Deserialize)]
struct OverrideText {
    effect: OverrideEffect,
    names: OverrideNames,
}

impl OverrideTarget {
    /// Returns the field of the hash in Redis.
    pub fn field(&self) -> String {
        let key = self.key.as_ref().map(|key| percent_encode(key, NON_ALPHANUMERIC).to_string());
        json!([self.scope, self.plan, key]).to_string()
    }

    fn of_field(field: &str) -> Option<Self> {
        let (scope, plan, key): (String, Option<String>, Option<String>) = serde_json::from_str(field).ok()?;
        let key = key.map(|key| percent_decode_str(&key).collect::<Vec<u8>>().into());
        Some(Self { scope, plan, key })
    }
}

impl Override {
    /// Returns the text in Redis.
    pub fn text(&self) -> String {
        let text = OverrideText { effect: self.effect.clone(), names: self.names.clone() };
        serde_json::to_string(&text).unwrap_or_default()
    }

    /// Decodes an override in Redis, read at `now`. `None` for one that a later version wrote.
    pub(super) fn of_shared(shared: &SharedOverride, now: Instant) -> Option<Self> {
        let OverrideText { effect, names } = serde_json::from_str(&shared.text).ok()?;
        let until = now.checked_add(shared.expires_in)?;
        Some(Self { target: OverrideTarget::of_field(&shared.target)?, effect, names, until })
    }

    /// Returns true if `other` differs in more than the rounding of its end.
    pub(super) fn differs(&self, other: &Self) -> bool {
        let apart = self.until.max(other.until) - self.until.min(other.until);
        (&self.target, &self.effect, &self.names) != (&other.target, &other.effect, &other.names)
            || apart > std::time::Duration::from_secs(1)
    }
}

impl fmt::Display for OverrideEffect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule(change) => change.fmt(f),
            Self::Unlimited => f.write_str("unlimited"),
            Self::Block => f.write_str("blocked"),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_override_is_read_from_redis_as_it_was_written() {
        let now = Instant::now();
        let change = serde_json::from_value(json!({"replenish-rate": 5, "period": "1m"})).unwrap();
        let names = OverrideNames { route: "orders".into(), rule: "daily".into(), by: "ops".into() };
        for (effect, plan, key) in [
            (OverrideEffect::Rule(change), None, Some(&b"a \xff\"|:"[..])),
            (OverrideEffect::Unlimited, Some("gold".to_owned()), None),
            (OverrideEffect::Block, Some(String::new()), Some(b"v")),
        ] {
            let target = OverrideTarget { scope: "orders#daily".into(), plan, key: key.map(Into::into) };
            let until = now + Duration::from_secs(9);
            let written = Override { target, effect, names: names.clone(), until };
            let shared = SharedOverride {
                target: written.target.field(),
                text: written.text(),
                expires_in: Duration::from_secs(9),
            };
            assert_eq!(Override::of_shared(&shared, now), Some(written));
            let later = SharedOverride { text: "{\"effect\": \"paced\"}".into(), ..shared };
            assert_eq!(Override::of_shared(&later, now), None);
        }
    }
}
