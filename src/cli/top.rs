//! `tollgate top`: the keys that the limiters of a running gateway deny most often.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::Value;

use crate::cli::admin_client::{AdminClient, CallError, Target, encoded, table};
use crate::cli::report::{fail, heading, json, string};

/// Interval of `--watch`.
const INTERVAL: Duration = Duration::from_secs(1);
/// Moves the cursor of a terminal to the top and clears the screen (ECMA-48).
const CLEAR: &str = "\x1b[H\x1b[2J";

#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    target: Target,
    /// Show only the route with this id
    #[arg(long, value_name = "ID")]
    route: Option<String>,
    /// Show only the rule with this name
    #[arg(long, value_name = "NAME")]
    rule: Option<String>,
    /// Verdict of the requests to count
    #[arg(long, value_enum, default_value_t = Verdict::Denied)]
    verdict: Verdict,
    /// Number of keys per rule, at most 100
    #[arg(long, value_name = "N", default_value_t = 10)]
    limit: usize,
    /// Print the table again every second
    #[arg(long)]
    watch: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Verdict of the requests to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Verdict {
    /// Denied requests.
    Denied,
    /// Requests that an observed rule would have denied.
    Observed,
    /// Allowed requests.
    Allowed,
    /// All requests.
    #[value(alias = "asked")]
    All,
}

/// Prints the most frequent keys. The exit code is 0, or 1 if the gateway does not respond.
pub(super) fn run(arguments: &Arguments) -> ExitCode {
    let client = AdminClient::new(&arguments.target);
    let clears = arguments.watch && io::stdout().is_terminal();
    loop {
        let text = match page(&client, arguments) {
            Ok(text) => text,
            Err(error) => return fail(1, &error),
        };
        let mut out = io::stdout().lock();
        let written = write!(out, "{}{text}", if clears { CLEAR } else { "" }).and_then(|()| out.flush());
        drop(out);
        if written.is_err() || !arguments.watch {
            return ExitCode::from(u8::from(written.is_err()));
        }
        sleep(INTERVAL);
    }
}

fn page(client: &AdminClient, arguments: &Arguments) -> Result<String, CallError> {
    let verdict = arguments.verdict.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
    let mut path = format!("/api/top?verdict={verdict}&limit={}", arguments.limit);
    for (name, value) in [("route", &arguments.route), ("rule", &arguments.rule)] {
        if let Some(value) = value {
            path.push_str(&format!("&{name}={}", encoded(value)));
        }
    }
    let top = client.call("GET", &path, "", "rules")?;
    Ok(if arguments.json { json(&top) } else { render(&top) })
}

/// Meaning of the column `ERROR`.
const ERROR: &str = "ERROR: the number by which COUNT may be too high.";

/// Returns the response as a table.
fn render(top: &Value) -> String {
    let mut rows = vec![heading(["ROUTE", "RULE", "PLAN", "KEY", "COUNT", "ERROR", "SHARE"])];
    for rule in top["rules"].as_array().into_iter().flatten() {
        let total = rule["total"].as_f64().unwrap_or_default();
        for key in rule["keys"].as_array().into_iter().flatten() {
            let share = 100.0 * key["count"].as_f64().unwrap_or_default() / total.max(1.0);
            let cut = if key["cut"] == true { "…" } else { "" };
            rows.push(vec![
                string(&rule["route"]),
                string(&rule["rule"]),
                string(&rule["plan"]),
                format!("{}{cut}", string(&key["key"])),
                key["count"].to_string(),
                key["error"].to_string(),
                format!("{share:.1} %"),
            ]);
        }
    }
    let (verdict, seconds) = (string(&top["verdict"]), &top["seconds"]);
    let part = if top["complete"] == false { ", without workers that did not respond" } else { "" };
    match rows.len() {
        1 => format!("no {verdict} requests in the last {seconds} s{part}\n"),
        _ => format!(
            "{verdict} requests in the last {seconds} s{part}\n\n{}\nSHARE: of the {verdict} requests of the rule. {ERROR}\n",
            table(&rows, &[4, 5, 6])
        ),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_response_becomes_a_table() {
        let keys =
            json!([{"key": "alice", "count": 75, "error": 0}, {"key": "k", "cut": true, "count": 5, "error": 3}]);
        let rules = json!([{"route": "orders", "rule": "daily", "plan": "gold", "total": 100, "keys": keys}]);
        let top = json!({"verdict": "denied", "seconds": 87, "complete": true, "rules": rules});
        let expected = "denied requests in the last 87 s\n\n\
            ROUTE   RULE   PLAN  KEY    COUNT  ERROR   SHARE\n\
            orders  daily  gold  alice     75      0  75.0 %\n\
            orders  daily  gold  k…         5      3   5.0 %\n\n\
            SHARE: of the denied requests of the rule. ERROR: the number by which COUNT may be too high.\n";
        assert_eq!(render(&top), expected);
        let reversed =
            render(&json!({"verdict": "denied", "seconds": 1, "rules": [{"keys": [{"key": "a\u{202e}b"}]}]}));
        assert!(reversed.contains("  a\\u{202e}b  "), "{reversed}");
        let invisible =
            render(&json!({"verdict": "denied", "seconds": 1, "rules": [{"keys": [{"key": "a\u{200b}b\u{e0041}"}]}]}));
        assert!(invisible.contains("  a\\u{200b}b\\u{e0041}  "), "{invisible}");
        let empty = json!({"verdict": "observed", "seconds": 3, "complete": true, "rules": []});
        assert_eq!(render(&empty), "no observed requests in the last 3 s\n");
    }
}
