//! Reports as one HTML page without references to other files.

use std::fmt::Write as _;

use crate::input::LackingField;
use crate::report::{Chart, Outcome, Report, RuleOutcome, percent};

const WIDTH: f64 = 800.0;
const HEIGHT: f64 = 160.0;

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;\
color:#222;background:#fff}table{border-collapse:collapse;width:100%}th,td{padding:.3rem .6rem;text-align:right;\
border-bottom:1px solid #8884}th:first-child,td:first-child,th:nth-child(2),td:nth-child(2){text-align:left;\
overflow-wrap:anywhere}svg{width:100%;height:auto;background:#8881}.all{fill:#3b82c4}.denied{fill:#c0392b}\
figcaption,.quiet{color:#555}@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}\
figcaption,.quiet{color:#aaa}.all{fill:#5aa0e0}.denied{fill:#f0705f}}";

/// Returns the report as an HTML page.
pub fn page(report: &Report) -> String {
    let mut out = String::from("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">");
    out.push_str("<meta name=\"viewport\" content=\"width=device-width\"><title>Tollgate simulation</title>");
    // Writing to a `String` cannot fail.
    let _ = writeln!(out, "<style>{STYLE}</style></head><body><h1>Tollgate simulation</h1>");
    let input = &report.input;
    let _ = write!(out, "<p>{} lines", input.lines);
    if let (Some(from), Some(to)) = (&report.from, &report.to) {
        let _ = write!(out, " from {from} to {to}");
    }
    let _ = write!(out, ", at {} times the rate of the log.", report.rate);
    let _ = writeln!(out, " {} broken lines, {} out of order.</p>", input.broken, input.out_of_order);
    if !input.first_broken.is_empty() {
        out.push_str("<ul class=\"quiet\">");
        for broken in &input.first_broken {
            let _ = write!(out, "<li>{}:{}: {}</li>", escape(&broken.file), broken.line, escape(&broken.problem));
        }
        out.push_str("</ul>\n");
    }
    for LackingField { field, lacking, lines } in &input.lacking_fields {
        let _ = writeln!(out, "<p>{lacking} of {lines} lines lack the field {} of --map.</p>", escape(field));
    }
    if let Some(comparison) = &report.comparison {
        let files: Vec<_> = report.configurations.iter().map(|outcome| escape(&outcome.file)).collect();
        let _ = write!(out, "<h2>Difference of {}</h2>", files.join(" from "));
        let counts = [
            ("newly denied", comparison.newly_denied),
            ("newly allowed", comparison.newly_allowed),
            ("denied by both", comparison.denied_by_both),
            ("allowed by both", comparison.allowed_by_both),
        ];
        table(&mut out, ["Requests", ""], counts.map(|(name, count)| [name.to_owned(), count.to_string()]));
        let rows = comparison.rules.iter().map(|rule| {
            let [denied, allowed] = [rule.newly_denied, rule.newly_allowed].map(|count| count.to_string());
            [rule.route.clone(), rule.rule.clone(), denied, allowed]
        });
        if !comparison.rules.is_empty() {
            table(&mut out, ["Route", "Rule", "Newly denied", "Newly allowed"], rows);
        }
    }
    report.configurations.iter().for_each(|outcome| configuration(&mut out, outcome));
    out.push_str("</body></html>\n");
    out
}

fn configuration(out: &mut String, outcome: &Outcome) {
    let share = percent(outcome.denied, outcome.requests);
    let _ = write!(out, "<h2>{}</h2><p>{} requests, ", escape(&outcome.file), outcome.requests);
    let _ = write!(out, "{} denied ({share} %), {} without a route, ", outcome.denied, outcome.unrouted);
    let (refused, answered, undetermined) = (outcome.refused, outcome.answered, outcome.undetermined);
    let _ = writeln!(
        out,
        "{refused} refused before routing, {answered} answered before limiters, {undetermined} undetermined.</p>"
    );
    if let Some(reproduced) = outcome.reproduced {
        let _ = writeln!(
            out,
            "<p>Verdicts of the log: {} the same, {} different.</p>",
            reproduced.same, reproduced.different
        );
    }
    let rows = outcome.rules.iter().map(|rule| {
        let RuleOutcome { requests, denied, observed, unknown, peak_per_second, .. } = rule;
        let [requests, denied, observed, unknown, peak] =
            [requests, denied, observed, unknown, peak_per_second].map(u64::to_string);
        [rule.route.clone(), rule.rule.clone(), requests, denied, observed, unknown, format!("{} %", rule.share), peak]
    });
    table(out, ["Route", "Rule", "Requests", "Denied", "Observed", "Key unknown", "Share", "Peak/s"], rows);
    outcome.rules.iter().for_each(|rule| rule_section(out, rule));
    if !outcome.notes.is_empty() {
        out.push_str("<h3>Limits of this simulation</h3><ul>");
        for note in &outcome.notes {
            let rule = note.rule.as_ref().map(|rule| format!(", rule {}", escape(rule))).unwrap_or_default();
            let _ = write!(out, "<li>Route {}{rule}: {}</li>", escape(&note.route), escape(&note.text));
        }
        out.push_str("</ul>\n");
    }
}

fn rule_section(out: &mut String, rule: &RuleOutcome) {
    let _ = write!(out, "<h3>{}: {}</h3>", escape(&rule.route), escape(&rule.rule));
    chart(out, &rule.chart);
    if rule.top.is_empty() {
        return;
    }
    let rows = rule.top.iter().map(|key| [key.key.clone(), key.denied.to_string()]);
    table(out, ["Key", "Denied or observed"], rows);
    let _ = writeln!(out, "<p class=\"quiet\">{} keys in all.</p>", rule.denied_keys);
}

fn table<const N: usize>(out: &mut String, head: [&str; N], rows: impl IntoIterator<Item = [String; N]>) {
    let cells = |tag: &str, texts: [String; N]| texts.map(|text| format!("<{tag}>{}</{tag}>", escape(&text))).concat();
    let _ = write!(out, "<table><tr>{}</tr>", cells("th", head.map(str::to_owned)));
    for row in rows {
        let _ = write!(out, "<tr>{}</tr>", cells("td", row));
    }
    out.push_str("</table>\n");
}

/// Draws requests as bars, and denials in front of them.
#[expect(clippy::cast_precision_loss, reason = "pixels")]
fn chart(out: &mut String, chart: &Chart) {
    let most = chart.points.iter().map(|point| point.0.max(point.1)).max().unwrap_or(0).max(1) as f64;
    let width = WIDTH / chart.points.len().max(1) as f64;
    let _ =
        write!(out, "<figure><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"requests over time\">");
    for (index, (all, denied)) in chart.points.iter().enumerate() {
        let x = index as f64 * width;
        for (class, count) in [("all", *all), ("denied", *denied)] {
            if count > 0 {
                let height = count as f64 / most * HEIGHT;
                let y = HEIGHT - height;
                let _ = write!(
                    out,
                    "<rect class=\"{class}\" x=\"{x:.2}\" y=\"{y:.2}\" width=\"{width:.2}\" height=\"{height:.2}\"/>"
                );
            }
        }
    }
    let _ = writeln!(
        out,
        "</svg><figcaption>Requests (blue) and denials (red) per {} s, at most {most}.</figcaption></figure>",
        chart.interval_secs
    );
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            char if char.is_control() => out.extend(char.escape_default()),
            char => out.push(char),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_cannot_add_markup() {
        assert_eq!(escape("<script>\"'&\u{1b}"), "&lt;script&gt;&quot;&#39;&amp;\\u{1b}");
    }
}
