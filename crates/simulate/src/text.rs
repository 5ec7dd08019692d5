//! Reports as text.

use std::fmt::{self, Display, Formatter};

use crate::input::{InputStats, LackingField};
use crate::report::{Outcome, Report, RuleComparison, RuleOutcome, percent};

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}", lines(self.input.lines))?;
        if let (Some(from), Some(to)) = (&self.from, &self.to) {
            write!(f, " from {from} to {to}")?;
        }
        writeln!(
            f,
            "{}",
            if self.rate == 1.0 { String::new() } else { format!(", replayed at {} times the rate", self.rate) }
        )?;
        self.input.fmt(f)?;
        for outcome in &self.configurations {
            writeln!(f)?;
            outcome.fmt(f)?;
        }
        if let Some(comparison) = &self.comparison {
            let mut files = self.configurations.iter().map(|outcome| outcome.file.escape_debug());
            if let (Some(first), Some(second)) = (files.next(), files.next()) {
                writeln!(f, "\ndifference of {first} from {second}")?;
            }
            writeln!(f, "  newly denied     {:>10}", comparison.newly_denied)?;
            writeln!(f, "  newly allowed    {:>10}", comparison.newly_allowed)?;
            writeln!(f, "  denied by both   {:>10}", comparison.denied_by_both)?;
            writeln!(f, "  allowed by both  {:>10}", comparison.allowed_by_both)?;
            if !comparison.rules.is_empty() {
                writeln!(f, "\n  {:<24} {:<20} {:>13} {:>13}", "ROUTE", "RULE", "NEWLY DENIED", "NEWLY ALLOWED")?;
            }
            for rule in &comparison.rules {
                let RuleComparison { route, rule, newly_denied, newly_allowed } = rule;
                writeln!(f, "  {route:<24} {rule:<20} {newly_denied:>13} {newly_allowed:>13}")?;
            }
        }
        if !self.gates.is_empty() {
            writeln!(f, "\nbounds of denied requests")?;
        }
        self.gates.iter().try_for_each(|gate| writeln!(f, "  {}: {gate}", if gate.passed { "ok" } else { "FAILED" }))
    }
}

/// Lines that could not be used, or not at their time.
impl Display for InputStats {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.broken > 0 {
            writeln!(f, "{} {} broken:", lines(self.broken), if self.broken == 1 { "is" } else { "are" })?;
            for broken in &self.first_broken {
                writeln!(f, "  {}:{}: {}", broken.file.escape_debug(), broken.line, broken.problem)?;
            }
        }
        if self.out_of_order > 0 {
            let (count, secs) = (lines(self.out_of_order), self.out_of_order_secs);
            writeln!(
                f,
                "{count} up to {secs:.3} s earlier than lines far above, as if the clock had gone back: replayed at the \
                 time of those"
            )?;
        }
        for LackingField { field, lacking, lines } in &self.lacking_fields {
            writeln!(f, "{lacking} of {lines} lines lack the field `{}` of --map", field.escape_debug())?;
        }
        Ok(())
    }
}

/// Returns a number of lines in words.
fn lines(count: u64) -> String {
    if count == 1 { "1 line".to_owned() } else { format!("{count} lines") }
}

impl Display for Outcome {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let share = percent(self.denied, self.requests);
        writeln!(f, "{}: {} requests, {} denied ({share} %)", self.file.escape_debug(), self.requests, self.denied)?;
        for (count, text) in [
            (self.unrouted, "without a route"),
            (self.refused, "malformed, refused before routing"),
            (self.answered, "answered by CORS, a limit of size or for lack of a key, before the limiters"),
            (self.undetermined, "without a known route or way to a limiter, since the log lacks what decides"),
        ] {
            if count > 0 {
                writeln!(f, "  {count} {text}")?;
            }
        }
        if let Some(reproduced) = self.reproduced {
            writeln!(f, "  verdicts of the log: {} the same, {} different", reproduced.same, reproduced.different)?;
        }
        writeln!(
            f,
            "\n  {:<24} {:<20} {:>10} {:>10} {:>10} {:>8} {:>8}",
            "ROUTE", "RULE", "REQUESTS", "DENIED", "OBSERVED", "SHARE", "PEAK/S"
        )?;
        for route in &self.routes {
            let share = percent(route.denied, route.requests);
            writeln!(
                f,
                "  {:<24} {:<20} {:>10} {:>10} {:>10} {share:>6} %",
                route.route, "", route.requests, route.denied, ""
            )?;
            self.rules.iter().filter(|rule| rule.route == route.route).try_for_each(|rule| rule.fmt(f))?;
        }
        if self.rules.iter().any(|rule| rule.peak_per_second > 0) {
            writeln!(f, "\n  PEAK/S: most denied and observed requests of the rule within one second")?;
        }
        if self.rules.iter().any(|rule| rule.observed > 0) {
            writeln!(f, "  OBSERVED: requests that rules with `mode: observe` or `enforce-percent` would have denied")?;
        }
        if !self.notes.is_empty() {
            writeln!(f, "\n  limits of this simulation:")?;
        }
        for note in &self.notes {
            match &note.rule {
                Some(rule) => writeln!(f, "  - route {}, rule {rule}: {}", note.route, note.text)?,
                None => writeln!(f, "  - route {}: {}", note.route, note.text)?,
            }
        }
        Ok(())
    }
}

impl Display for RuleOutcome {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { rule, requests, denied, observed, share, peak_per_second, .. } = self;
        writeln!(
            f,
            "  {:<24} {rule:<20} {requests:>10} {denied:>10} {observed:>10} {share:>6} % {peak_per_second:>8}",
            ""
        )?;
        if self.unknown > 0 {
            writeln!(f, "  {:<24} - {} requests are unknown: their lines lack the key", "", self.unknown)?;
        }
        if self.denied_keys > 0 {
            writeln!(f, "  {:<24} - {} of {} keys over the limit", "", self.denied_keys, self.keys)?;
        }
        // The counts of keys stand below those of their rule: an observed rule denies nothing.
        let column = if *denied > 0 || *observed == 0 { 10 } else { 21 };
        for key in &self.top {
            let name = format!("- {}", key.key.escape_debug());
            writeln!(f, "  {:<24} {name:<20} {:>10} {:>column$}", "", "", key.denied)?;
        }
        match self.denied_keys - self.top.len().min(self.denied_keys) {
            0 => Ok(()),
            more => writeln!(f, "  {:<24} - {more} more keys", ""),
        }
    }
}
