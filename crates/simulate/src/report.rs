//! Results of a simulation.

use serde::Serialize;

use crate::gate::GateOutcome;
use crate::input::InputStats;
pub use crate::statistics::Chart;

/// Result of a simulation.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Report {
    /// Lines that were read.
    pub input: InputStats,
    /// Time of the first request, RFC 3339.
    pub from: Option<String>,
    /// Time of the last request.
    pub to: Option<String>,
    /// Factor of the rate of requests.
    pub rate: f64,
    /// Results by configuration: one, or two that are compared.
    pub configurations: Vec<Outcome>,
    /// Difference between two configurations.
    pub comparison: Option<Comparison>,
    /// Results of the bounds of denied requests, for the first configuration.
    pub gates: Vec<GateOutcome>,
}

impl Report {
    /// Returns true if the limiters of the first configuration decided a request of the log.
    pub fn reaches_limiters(&self) -> bool {
        let mut routes = self.configurations.first().into_iter().flat_map(|outcome| &outcome.routes);
        routes.any(|route| route.requests > 0 && route.all_rules > 0 && !route.is_undecided())
    }
}

/// Result of one configuration.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Outcome {
    /// File.
    pub file: String,
    /// Requests that were replayed.
    pub requests: u64,
    /// Requests that limiters denied.
    pub denied: u64,
    /// Requests that match no route.
    pub unrouted: u64,
    /// Requests that are refused before routing.
    pub refused: u64,
    /// Requests to which the gateway responds before the limiters decide: CORS, limits of size, missing keys, own endpoints.
    pub answered: u64,
    /// Requests that are not simulated: the log lacks fields that decide on their route, or if they reach the limiters.
    pub undetermined: u64,
    /// Agreement with the verdicts in the log; `None` if it has none.
    pub reproduced: Option<Reproduced>,
    /// Results by route.
    pub routes: Vec<RouteOutcome>,
    /// Results by rule.
    pub rules: Vec<RuleOutcome>,
    /// Limits of the simulation.
    pub notes: Vec<Note>,
}

/// Agreement with the verdicts in the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Reproduced {
    /// Requests with the verdict of the log.
    pub same: u64,
    /// Requests with another verdict.
    pub different: u64,
}

/// Result of one route.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct RouteOutcome {
    /// Id of the route.
    pub route: String,
    /// Requests that match.
    pub requests: u64,
    /// Requests that limiters denied.
    pub denied: u64,
    /// Rules that are not simulated.
    pub unsimulated_rules: usize,
    /// Rules of its limiters.
    #[serde(skip)]
    pub(super) all_rules: usize,
}

impl RouteOutcome {
    /// Returns true if no rule of the route is simulated, though it has some: its requests were not decided.
    pub(super) fn is_undecided(&self) -> bool {
        self.unsimulated_rules > 0 && self.unsimulated_rules == self.all_rules
    }
}

/// Result of one rule.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct RuleOutcome {
    /// Id of the route.
    pub route: String,
    /// Name of the rule, as in metrics.
    pub rule: String,
    /// Requests that the rule checked.
    pub requests: u64,
    /// Requests that it denied.
    pub denied: u64,
    /// Requests that it would have denied if it were enforced.
    pub observed: u64,
    /// Requests that the rule did not check, since their lines lack its key.
    pub unknown: u64,
    /// Denied and would-be denied requests in percent.
    pub share: f64,
    /// Most denied and would-be denied requests in one second.
    pub peak_per_second: u64,
    /// Time of that second.
    pub peak_at: Option<String>,
    /// Number of keys that the rule checked.
    pub keys: usize,
    /// Number of keys with denied or would-be denied requests.
    pub denied_keys: usize,
    /// Keys with most of them.
    pub top: Vec<KeyCount>,
    /// Requests over time.
    pub chart: Chart,
}

/// Key with its denied requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct KeyCount {
    /// Key id.
    pub key: String,
    /// Denied and would-be denied requests.
    pub denied: u64,
}

/// Part of the configuration that is not simulated, or only in part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Note {
    /// Id of the route.
    pub route: String,
    /// Name of the rule; `None` for the whole route.
    pub rule: Option<String>,
    /// Limit of the simulation and its reason.
    pub text: String,
}

/// Difference of the first configuration from the second one, in requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Comparison {
    /// Denied by the first configuration, allowed by the second.
    pub newly_denied: u64,
    /// Allowed by the first configuration, denied by the second.
    pub newly_allowed: u64,
    /// Denied by both.
    pub denied_by_both: u64,
    /// Allowed by both.
    pub allowed_by_both: u64,
    /// Difference by route and rule, for rules that have one.
    pub rules: Vec<RuleComparison>,
}

/// Difference by one rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct RuleComparison {
    /// Id of the route.
    pub route: String,
    /// Name of the rule, as in metrics.
    pub rule: String,
    /// Requests that the rule denies in the first configuration, and that the second allows.
    pub newly_denied: u64,
    /// Requests that the rule denies in the second configuration, and that the first allows.
    pub newly_allowed: u64,
}

/// Returns `us` since 1970 as RFC 3339, in seconds.
pub(super) fn time(us: u64) -> Option<String> {
    let timestamp = jiff::Timestamp::from_second(i64::try_from(us / 1_000_000).ok()?).ok()?;
    Some(timestamp.to_string())
}

/// Returns `part` of `whole` in percent, rounded to two decimals.
#[expect(clippy::cast_precision_loss, reason = "shown with two decimals")]
pub fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { (part as f64 * 10_000.0 / whole as f64).round() / 100.0 }
}
