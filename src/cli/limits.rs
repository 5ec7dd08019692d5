//! `tollgate limits`: reads, sets, grants and resets the budget of a key in a running gateway.

mod overrides;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use self::overrides::Override;
use crate::cli::admin_client::{AdminClient, CallError, Target, encoded, printable, table};

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Show the remaining budget of a key under each rule
    Get(Key),
    /// Set the remaining budget of a key
    Set {
        /// Id of the route
        route: String,
        /// Key, as its resolver reads it
        key: String,
        /// Tokens that shall remain
        remaining: u64,
        #[command(flatten)]
        selection: Selection,
    },
    /// Add tokens to the budget of a key
    Grant {
        /// Id of the route
        route: String,
        /// Key, as its resolver reads it
        key: String,
        /// Tokens to add; a negative number removes them from a quota
        #[arg(allow_negative_numbers = true)]
        tokens: i64,
        #[command(flatten)]
        selection: Selection,
    },
    /// Reset the budget of a key
    Reset(Key),
    /// Override the limit of a key for a while
    Override(Override),
    /// List the overrides
    Overrides {
        #[command(flatten)]
        target: Target,
    },
}

/// Key of a route.
#[derive(Debug, Args)]
pub(super) struct Key {
    /// Id of the route
    route: String,
    /// Key, as its resolver reads it
    key: String,
    #[command(flatten)]
    selection: Selection,
}

/// Rule, plan and gateway.
#[derive(Debug, Args)]
pub(super) struct Selection {
    #[command(flatten)]
    target: Target,
    /// Rule, by its name or bucket
    #[arg(long, value_name = "NAME")]
    rule: Option<String>,
    /// Plan of the rule; empty for requests without a plan
    #[arg(long, value_name = "NAME")]
    plan: Option<String>,
}

/// Prints the budget afterwards. The exit code is 0, or 1 if the gateway does not answer or refuses.
pub(super) fn run(command: &Command) -> ExitCode {
    let result = match command {
        Command::Override(it) => return finish(it.call().map(|list| overrides::render(&list))),
        Command::Overrides { target } => {
            let answer = AdminClient::new(target).call("GET", "/api/overrides", "");
            return finish(answer.map(|answer| overrides::render(&answer)));
        }
        Command::Get(key) => key.call("GET"),
        Command::Reset(key) => key.call("DELETE"),
        Command::Set { route, key, remaining, selection } => selection.put(route, key, "remaining", json!(remaining)),
        Command::Grant { route, key, tokens, selection } => selection.put(route, key, "grant", json!(tokens)),
    };
    finish(result.map(|answer| render(&answer)))
}

fn finish(result: Result<String, CallError>) -> ExitCode {
    match result.map(|text| io::stdout().lock().write_all(text.as_bytes())) {
        Ok(written) => ExitCode::from(u8::from(written.is_err())),
        Err(error) => {
            eprintln!("tollgate: {error}");
            ExitCode::FAILURE
        }
    }
}

impl Key {
    fn call(&self, method: &str) -> Result<Value, CallError> {
        let Selection { target, rule, plan } = &self.selection;
        let named = [("rule", rule), ("plan", plan)].into_iter();
        let query = named.filter_map(|(name, value)| Some(format!("{name}={}", encoded(value.as_ref()?))));
        let query = query.collect::<Vec<_>>().join("&");
        AdminClient::new(target).call(method, &format!("{}?{query}", path(&self.route, &self.key)), "")
    }
}

impl Selection {
    fn put(&self, route: &str, key: &str, name: &str, number: Value) -> Result<Value, CallError> {
        let mut body = Map::from_iter([(name.to_owned(), number)]);
        for (name, value) in [("rule", &self.rule), ("plan", &self.plan)] {
            body.extend(value.as_ref().map(|value| (name.to_owned(), json!(value))));
        }
        AdminClient::new(&self.target).call("PUT", &path(route, key), &Value::Object(body).to_string())
    }
}

fn path(route: &str, key: &str) -> String {
    format!("/api/limits/{}/{}", encoded(route), encoded(key))
}

/// Returns the time until a request is admitted; empty if one is now.
fn retry_after(ms: &Value) -> String {
    match ms.as_u64() {
        Some(0) => String::new(),
        Some(ms) => format!("{} s", ms.div_ceil(1000)),
        None => "never".to_owned(),
    }
}

/// Returns the answer as a table.
fn render(answer: &Value) -> String {
    let text = |value: &Value| printable(value.as_str().unwrap_or_default());
    let mut rows =
        vec![["RULE", "PLAN", "REMAINING", "CAPACITY", "FULL IN", "RETRY AFTER", "STORE"].map(str::to_owned).to_vec()];
    let limits = || answer["limits"].as_array().into_iter().flatten();
    let has_overrides = limits().any(|limit| limit.get("override").is_some());
    if has_overrides {
        rows[0].push("OVERRIDE".to_owned());
    }
    for limit in limits() {
        let full_in = limit["reset-after-ms"].as_u64().unwrap_or_default().div_ceil(1000);
        let mut row = vec![
            text(&limit["rule"]),
            text(&limit["plan"]),
            limit["remaining"].to_string(),
            limit["capacity"].to_string(),
            format!("{full_in} s"),
            retry_after(&limit["retry-after-ms"]),
            text(&limit["store"]),
        ];
        if has_overrides {
            row.push(limit.get("override").map(|it| overrides::in_words(it, &limit["numbers"])).unwrap_or_default());
        }
        rows.push(row);
    }
    let plan = answer.get("plan").map_or_else(String::new, |plan| {
        format!("plan: {}\n", plan.as_str().map_or_else(|| "none".to_owned(), printable))
    });
    plan + &table(&rows, &[2, 3, 4, 5])
}
