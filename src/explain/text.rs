//! Explanations and rules as text.

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use crate::explain::model::{
    CorsJudgement, CountedKey, Explanation, FilterTrace, LiveLimit, LiveRoute, MatchedRoute, REQUEST_COUNTER,
};
use tollgate_limiter::rule::{Refill, Rule, RuleShape};
use tollgate_telemetry::logs::fields::printable;

/// Text for a request that a route of a registered service may match.
const LOCATOR: &str = "no route of the file matches: 404, unless `discovery.locator` has a route for it
  It makes a route for each service of the registries. Only a running gateway knows them: ask it with --live.";

impl Display for Explanation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(reason) = &self.refused {
            return writeln!(f, "refused before routing: {}", printable(reason));
        }
        if self.own_endpoint {
            return writeln!(f, "response of the gateway: a path of `management.endpoints`, which come before routes");
        }
        for route in &self.passed_over {
            writeln!(f, "skipped {}: {} does not match: {}", route.route, route.predicate, printable(&route.seen))?;
        }
        if let Some(cors) = &self.cors {
            cors.fmt(f)?;
        }
        match &self.route {
            Some(route) => route.fmt(f),
            None if self.lacks_locator_routes => writeln!(f, "{LOCATOR}"),
            None => writeln!(f, "no route matches: 404"),
        }
    }
}

impl Display for CorsJudgement {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let policy = self.policy.as_ref().map(|policy| format!(" policy of {policy}:")).unwrap_or_default();
        writeln!(f, "CORS:{policy} {}", self.verdict.as_text())?;
        for (name, values) in &self.headers {
            values.iter().try_for_each(|value| writeln!(f, "  {name}: {}", printable(value)))?;
        }
        Ok(())
    }
}

impl Display for MatchedRoute {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "route {}: {}", self.id, self.predicates.join(", "))?;
        for (name, value) in &self.variables {
            writeln!(f, "  {{{name}}} = {}", printable(value))?;
        }
        for (number, trace) in self.filters.iter().enumerate() {
            write!(f, "  {}. {trace}", number + 1)?;
        }
        if let Some(live) = &self.live {
            live.fmt(f)?;
        }
        if let Some(answered) = &self.answered {
            let by = if answered.reason.starts_with("cors-") { "the CORS policy" } else { "a filter" };
            writeln!(f, "response of {by}: {} ({})", answered.status, answered.reason)?;
        }
        let Some(forwarded) = &self.forwarded else { return Ok(()) };
        writeln!(f, "forwarded: {} {}", forwarded.method, printable(&forwarded.url))?;
        for (name, values) in &forwarded.headers {
            values.iter().try_for_each(|value| writeln!(f, "  {name}: {}", printable(value)))?;
        }
        Ok(())
    }
}

impl Display for FilterTrace {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.filter.split_once('{').filter(|_| !self.arguments.is_empty()) {
            None => writeln!(f, "{}", self.filter)?,
            Some((name, _)) => {
                writeln!(f, "{name}")?;
                let row = |(name, value): &(String, String)| vec![name.clone(), printable(value)];
                indented(f, &table(&self.arguments.iter().map(row).collect::<Vec<_>>(), &[]))?;
            }
        }
        for skipped in &self.skipped_rules {
            let plan = skipped.plan.as_ref().map(|plan| format!(" of plan {plan}")).unwrap_or_default();
            let (rule, predicate, seen) = (&skipped.rule, &skipped.predicate, printable(&skipped.seen));
            writeln!(f, "       rule {rule}{plan} does not apply: {predicate} does not match: {seen}")?;
        }
        if self.counted.is_empty() {
            return Ok(());
        }
        let is_live = self.counted.iter().any(|counted| counted.live.is_some());
        let mut head = vec!["BUCKET", "KEY", "COST", "LIMIT", "MODE"];
        if is_live {
            head.extend(["LEFT", "RETRY AFTER"]);
        }
        let mut rows = vec![head.into_iter().map(str::to_owned).collect::<Vec<_>>()];
        rows.extend(self.counted.iter().map(|counted| counted.row(is_live)));
        indented(f, &table(&rows, &[2, 5, 6]))?;
        let redis_keys = self.counted.iter().flat_map(|counted| &counted.redis_keys);
        let mut redis_keys = redis_keys.into_iter();
        redis_keys.try_for_each(|key| writeln!(f, "       Redis key: {key}"))
    }
}

impl CountedKey {
    fn row(&self, is_live: bool) -> Vec<String> {
        let mode = match self.rule.as_str() {
            REQUEST_COUNTER => "",
            _ if self.observed => "observed",
            _ => "enforced",
        };
        let mut row = vec![
            self.scope.clone(),
            printable(&self.key_id),
            self.cost.to_string(),
            self.live.as_ref().and_then(|live| live.rule.as_ref()).unwrap_or(&self.rule).clone(),
            mode.to_owned(),
        ];
        if is_live {
            row.extend(self.live.as_ref().map(LiveLimit::cells).unwrap_or_default());
        }
        row
    }
}

impl LiveLimit {
    /// Returns the remaining tokens, and the time until the rule admits the request.
    fn cells(&self) -> [String; 2] {
        let left = match (self.remaining, &self.problem) {
            (Some(remaining), _) => format!("{remaining} of {}", self.capacity),
            (None, problem) => problem.clone().unwrap_or_default(),
        };
        let left = match &self.overridden {
            // The limit beside it has the numbers.
            Some(_) if self.rule.is_some() => format!("{left} (override)"),
            Some(overridden) => format!("{left} (override: {overridden})"),
            None => left,
        };
        let retry_after = match (self.is_exceeded, self.retry_after_ms) {
            (false, _) => String::new(),
            (true, Some(ms)) => format!("{}.{:03} s", ms / 1000, ms % 1000),
            (true, None) => "never".to_owned(),
        };
        [left, retry_after]
    }
}

impl Display for LiveRoute {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for breaker in &self.breakers {
            writeln!(f, "circuit breaker {}: {}", breaker.name, breaker.state)?;
        }
        for endpoint in &self.endpoints {
            let in_flight = endpoint.in_flight.unwrap_or_default();
            write!(f, "endpoint {}: {}, {in_flight} in flight", endpoint.endpoint, endpoint.state)?;
            if let Some(error) = &endpoint.check_error {
                write!(f, ", health check: {}", error.escape_debug())?;
            } else if let Some(failure) = endpoint.last_failure.as_ref().filter(|_| endpoint.consecutive_failures > 0) {
                let failures = endpoint.consecutive_failures;
                write!(f, ", {failures} failed in a row, last at {}: {}", failure.at, failure.error.escape_debug())?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

fn indented(f: &mut Formatter<'_>, text: &str) -> fmt::Result {
    text.lines().try_for_each(|line| writeln!(f, "       {line}"))
}

/// Returns `rows` as a table with aligned columns. Columns with an index in `right` are aligned to the right.
pub fn table(rows: &[Vec<String>], right: &[usize]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut out = String::new();
    for row in rows {
        let cells = row.iter().enumerate().map(|(column, cell)| {
            let padding = " ".repeat(widths[column].saturating_sub(cell.chars().count()));
            if right.contains(&column) { format!("{padding}{cell}") } else { format!("{cell}{padding}") }
        });
        out.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        out.push('\n');
    }
    out
}

/// Describes a rule in a few words.
pub fn describe(rule: &Rule) -> String {
    let name = rule.algorithm().as_str();
    match rule.shape() {
        RuleShape::Bucket { rate, period, burst } => {
            format!("{name}, {rate} per {}, burst {burst}{}", exact(period), refill(rule))
        }
        RuleShape::Pace { rate, period, .. } => format!("{name}, {rate} per {}, paced", exact(period)),
        RuleShape::Window { limit, window } => format!("{name}, {limit} per {}", exact(window)),
        RuleShape::Calendar { limit, calendar } => {
            format!("{name}, {limit} per {:?} of {}", calendar.unit(), calendar.time_zone())
        }
        RuleShape::Total { limit } => format!("{name}, {limit} in total"),
    }
}

/// Describes the refill of a bucket in steps.
fn refill(rule: &Rule) -> &'static str {
    let (Rule::TokenBucket(bucket) | Rule::Gcra(bucket)) = rule else { return "" };
    match bucket.refill() {
        Refill::Smooth => "",
        Refill::Interval => ", refill interval",
        Refill::Aligned { .. } => ", refill aligned",
    }
}

/// Returns a duration in the form of the configuration, in the largest unit in which it is a whole number.
fn exact(duration: Duration) -> String {
    let secs = duration.as_secs();
    let units = [(86_400, "d"), (3600, "h"), (60, "m")];
    match units.iter().find(|(unit, _)| secs.is_multiple_of(*unit) && secs > 0) {
        Some((unit, name)) if duration.subsec_nanos() == 0 => format!("{}{name}", secs / unit),
        _ => format!("{duration:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_aligned_and_show_no_control_characters() {
        let row = |cells: &[&str]| cells.iter().map(|cell| printable(cell)).collect::<Vec<_>>();
        let rows = [row(&["KEY", "COUNT"]), row(&["a\u{1b}[2J\n", "5"]), row(&["müller", "1000"])];
        assert_eq!(table(&rows, &[1]), "KEY           COUNT\na\\u{1b}[2J\\n      5\nmüller         1000\n");
    }

    #[test]
    fn durations_have_the_largest_exact_unit() {
        let of = |ms| exact(Duration::from_millis(ms));
        let shown = [0, 1500, 1000, 60_000, 90_000, 60_500, 3_600_000, 86_400_000, 90_000_000].map(of);
        assert_eq!(shown, ["0ns", "1.5s", "1s", "1m", "90s", "60.5s", "1h", "1d", "25h"]);
    }
}
