//! Replies of the limits API: rules, budgets of keys, and overrides.

use std::borrow::Cow;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use serde_json::{Map, Value};
use tollgate_limiter::rule::{Algorithm, NumberKind, NumberSpec, Rule};

use crate::admin::limits::bucket_store::Reading;
use crate::admin::limits::selection::{KeyPlan, name};
use crate::admin::reply::whole_millis;
use crate::explain::describe as in_words;
use tollgate_config::{Audience, NamedLimit, Route};
use tollgate_filters::request_rate_limiter::Enforcement;
use tollgate_proxy::state::overrides::{EffectiveRule, OverrideEffect, RuleChange};

/// Rule of a route.
#[reply]
pub(in crate::admin) struct RuleReply {
    pub(super) route: String,
    pub(super) rule: String,
    #[serde(flatten)]
    pub(super) settings: RuleSettings,
}

/// Settings of a rule.
#[reply]
pub(in crate::admin) struct RuleSettings {
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<String>,
    key_resolver: String,
    #[schemars(extend("enum" = Algorithm::ALL.map(Algorithm::as_str)))]
    algorithm: &'static str,
    /// Largest number of tokens.
    capacity: u64,
    /// Rule in words.
    limit: String,
    numbers: Numbers,
    #[schemars(extend("enum" = ["enforce", "observe", "off"]))]
    mode: &'static str,
    /// Percentage of the keys for which the rule is enforced.
    #[serde(skip_serializing_if = "Option::is_none")]
    enforce_percent: Option<f64>,
    /// Requests to which the rule applies; absent if it applies to all.
    #[serde(skip_serializing_if = "Option::is_none")]
    when: Option<String>,
}

/// Numbers of a rule that can be overridden.
#[derive(Clone, Serialize)]
pub(in crate::admin) struct Numbers(RuleChange);

/// Budget of a key under each rule.
#[reply]
pub(in crate::admin) struct Budget<'c, L = LimitReply> {
    pub(super) route: &'c str,
    pub(super) key: Cow<'c, str>,
    pub(super) limits: Vec<L>,
    /// Plan of the key, if the limiter has plans by key.
    #[serde(skip_serializing_if = "KeyPlan::is_absent")]
    pub(super) plan: KeyPlan,
}

/// Budget of a key under one rule.
#[reply]
pub(in crate::admin) struct LimitReply {
    #[serde(flatten)]
    pub(super) rule: RuleReply,
    #[serde(rename = "override", skip_serializing_if = "Option::is_none")]
    pub(super) effect: Option<EffectReply>,
    /// With `enforce-percent`: true if the rule is enforced for this key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) enforced: Option<bool>,
    #[schemars(extend("enum" = ["memory", "redis"]))]
    pub(super) store: &'static str,
    /// Remaining tokens.
    pub(super) remaining: u64,
    /// Time until all tokens are back.
    pub(super) reset_after_ms: u64,
    /// 0 if a request passes now; null if no time is known.
    pub(super) retry_after_ms: Option<u64>,
}

/// Budget of a key under one rule after a change.
#[reply]
pub(in crate::admin) struct ChangedLimit {
    #[serde(flatten)]
    pub(super) limit: LimitReply,
    /// Time after which no gateway uses an earlier lease on the key, if a limiter has leases.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) leases_end_within_ms: Option<u64>,
}

/// Many keys of one rule.
#[reply]
pub(in crate::admin) struct BatchReply {
    #[serde(flatten)]
    pub(super) rule: RuleReply,
    #[schemars(extend("enum" = ["memory", "redis"]))]
    pub(super) store: &'static str,
    pub(super) keys: Vec<BatchKey>,
}

/// Key of a batch.
#[reply]
pub(in crate::admin) struct BatchKey {
    pub(super) key: String,
    #[serde(flatten)]
    pub(super) reading: Option<Reading>,
    /// Reason if the key has no state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
    #[serde(rename = "override", skip_serializing_if = "Option::is_none")]
    pub(super) effect: Option<EffectReply>,
}

/// Temporary override of a rule, in effect for a key.
#[reply]
pub(in crate::admin) struct EffectReply {
    /// Tokens in each period or window.
    #[serde(skip_serializing_if = "Option::is_none")]
    rate: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    capacity: Option<u64>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    unlimited: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    block: bool,
    expires_in_ms: u64,
}

/// Override as the members of a body.
#[reply]
pub(in crate::admin) struct OverrideNumbers {
    #[serde(flatten)]
    numbers: Option<Numbers>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    unlimited: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    block: bool,
}

/// Override in the list of overrides.
#[reply]
pub(in crate::admin) struct ListedOverride {
    pub(super) route: String,
    pub(super) rule: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) plan: Option<String>,
    /// Absent for an override of every key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) key: Option<String>,
    #[serde(rename = "override")]
    pub(super) numbers: OverrideNumbers,
    /// False if the rule is no longer configured.
    pub(super) in_effect: bool,
    /// Caller who set it.
    pub(super) by: String,
    pub(super) expires_in_ms: u64,
    #[schemars(extend("format" = "date-time"))]
    pub(super) expires_at: String,
}

/// Override that has been set.
#[reply]
pub(in crate::admin) struct NewOverride {
    #[serde(flatten)]
    pub(super) rule: RuleReply,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) key: Option<String>,
    #[serde(rename = "override")]
    pub(super) numbers: OverrideNumbers,
    pub(super) expires_in_ms: u64,
}

/// Override that has ended.
#[reply]
pub(in crate::admin) struct EndedOverride {
    pub(super) route: String,
    pub(super) rule: String,
    /// Absent if the rule is no longer configured.
    #[serde(flatten)]
    pub(super) settings: Option<RuleSettings>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) key: Option<String>,
}

impl RuleReply {
    /// Describes a rule as configured.
    pub(super) fn new(route: &Route, rule: &NamedLimit<'_>) -> Self {
        Self::under(route, rule, &rule.limit.rule)
    }

    /// Describes a rule with the numbers of `effective`, which is in effect in its place.
    pub(super) fn under(route: &Route, rule: &NamedLimit<'_>, effective: &Rule) -> Self {
        let (mode, enforce_percent) = match rule.enforcement() {
            Enforcement::FULL => ("enforce", None),
            Enforcement::OBSERVE => ("observe", None),
            Enforcement::Off => ("off", None),
            Enforcement::PerTenThousand(of_10_000) => ("enforce", Some(f64::from(of_10_000) / 100.0)),
        };
        let settings = RuleSettings {
            plan: rule.plan.map(str::to_owned),
            key_resolver: rule.key_resolver().to_string(),
            algorithm: effective.algorithm().as_str(),
            capacity: effective.capacity(),
            limit: in_words(effective),
            numbers: Numbers(RuleChange::of(effective)),
            mode,
            enforce_percent,
            when: rule.limit.when.as_ref().map(|when| when.text(Audience::Network)),
        };
        Self { route: route.id.to_string(), rule: name(rule).to_owned(), settings }
    }
}

/// Returns whether a rule of `enforcement` is enforced for `key`, if it is for some keys.
pub(super) fn enforced(enforcement: Enforcement, key: &[u8]) -> Option<bool> {
    match enforcement {
        Enforcement::FULL | Enforcement::OBSERVE | Enforcement::Off => None,
        Enforcement::PerTenThousand(_) => Some(!enforcement.observes(key)),
    }
}

impl EffectReply {
    pub(super) fn new((effective, left): &(EffectiveRule, Duration)) -> Self {
        let rule = effective.rule();
        Self {
            rate: rule.map(Rule::rate),
            capacity: rule.map(Rule::capacity),
            unlimited: matches!(effective, EffectiveRule::Unlimited),
            block: matches!(effective, EffectiveRule::Blocked),
            expires_in_ms: whole_millis(*left),
        }
    }
}

impl From<&OverrideEffect> for OverrideNumbers {
    fn from(effect: &OverrideEffect) -> Self {
        let (numbers, unlimited, block) = match effect {
            OverrideEffect::Rule(change) => (Some(Numbers(change.clone())), false, false),
            OverrideEffect::Unlimited => (None, true, false),
            OverrideEffect::Block => (None, false, true),
        };
        Self { numbers, unlimited, block }
    }
}

impl JsonSchema for Numbers {
    fn schema_name() -> Cow<'static, str> {
        "Numbers".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema_of = |kind| match kind {
            NumberKind::Count | NumberKind::Rate => u64::json_schema(generator),
            NumberKind::Time => String::json_schema(generator),
        };
        let numbers: Map<String, Value> =
            NumberSpec::all().map(|spec| (spec.name.to_owned(), schema_of(spec.kind).into())).collect();
        json_schema!({"type": "object", "properties": numbers})
    }
}
