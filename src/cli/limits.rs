//! `tollgate limits`: reads and changes the remaining tokens of a key in a running gateway, and overrides its limits.

mod overrides;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use self::overrides::Override;
use crate::cli::admin_client::{AdminClient, CallError, Target, encoded, printable, table};
use crate::cli::report::{duration, fail, heading, string, write};

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Show the remaining tokens of a key under each rule
    Get(SelectedKey),
    /// Set the remaining tokens of a key
    Set {
        #[command(flatten)]
        key: Key,
        /// Number of remaining tokens
        remaining: u64,
        #[command(flatten)]
        selection: Selection,
    },
    /// Add tokens to the remaining tokens of a key
    Grant {
        #[command(flatten)]
        key: Key,
        /// Number of tokens to add; to take tokens away, use `set`
        #[arg(allow_negative_numbers = true)]
        tokens: i64,
        #[command(flatten)]
        selection: Selection,
    },
    /// Reset a key under all its rules, of every plan, or under those of --rule and --plan, as if it had not been used
    Reset(SelectedKey),
    /// Override the limit of a key for a limited time
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
    /// Key id that the key resolver returns, such as a client address
    key: String,
}

/// Key of a route in a gateway.
#[derive(Debug, Args)]
pub(super) struct SelectedKey {
    #[command(flatten)]
    key: Key,
    #[command(flatten)]
    selection: Selection,
}

/// Rule, plan and gateway.
#[derive(Debug, Args)]
pub(super) struct Selection {
    #[command(flatten)]
    target: Target,
    /// Rule, by its name or bucket; a bucket without its #, which begins a comment in a shell
    #[arg(long, value_name = "NAME")]
    rule: Option<String>,
    /// Plan of the rule, if it is not the plan of the key; empty for requests without a plan
    #[arg(long, value_name = "NAME")]
    plan: Option<String>,
}

/// Runs `command`, and prints the resulting limits or overrides. The exit code is 0, or 1 if the gateway does not respond
/// or refuses.
pub(super) fn run(command: &Command) -> ExitCode {
    let result = match command {
        Command::Override(it) => return finish(it.call().map(|list| overrides::render(&list))),
        Command::Overrides { target } => {
            let response = AdminClient::new(target).call("GET", "/api/overrides", "", "route");
            return finish(response.map(|response| overrides::render(&response)));
        }
        Command::Get(SelectedKey { key, selection }) => selection.query("GET", &key.path("limits"), "limits"),
        Command::Reset(SelectedKey { key, selection }) => {
            let response = selection.query("DELETE", &key.path("limits"), "limits");
            return finish(response.map(|response| render(&response) + &reset_in_words(&response)));
        }
        Command::Set { key, remaining, selection } => {
            selection.put(&key.path("limits"), [("remaining", json!(remaining))], "limits")
        }
        Command::Grant { key, tokens, selection } => {
            selection.put(&key.path("limits"), [("grant", json!(tokens))], "limits")
        }
    };
    finish(result.map(|response| render(&response)))
}

fn finish(result: Result<String, CallError>) -> ExitCode {
    match result {
        Ok(text) => write(&text),
        Err(error) => fail(1, &in_options(&error.to_string())),
    }
}

/// Returns an error message of the API, with the command's options in place of JSON members.
fn in_options(message: &str) -> String {
    let options = [
        (r#"name one with "rule" (and "plan")"#, "name one with --rule (and --plan)"),
        ("or `unlimited` or `block`", "each with --set NAME=VALUE, or use --set xN, --unlimited or --block"),
        ("`expires-in`", "--for"),
    ];
    let message = options.iter().fold(message.to_owned(), |message, (member, option)| message.replace(member, option));
    let negative = "a grant must not be negative";
    if message.contains(negative) {
        return format!("{negative}: take tokens away with `tollgate limits set`");
    }
    message
}

/// Names the rules of a key that was reset.
fn reset_in_words(response: &Value) -> String {
    let name = |limit: &Value| match limit["plan"].as_str() {
        Some(plan) => format!("{} of plan {}", string(&limit["rule"]), printable(plan)),
        None => string(&limit["rule"]),
    };
    let rules: Vec<_> = response["limits"].as_array().into_iter().flatten().map(name).collect();
    format!("reset under {}\n", rules.join(", "))
}

impl Key {
    /// Returns the path of the key below that of `resource`.
    fn path(&self, resource: &str) -> String {
        format!("/api/{resource}/{}/{}", encoded(&self.route), encoded(&self.key))
    }
}

impl Selection {
    /// Returns the names of the rule and the plan that are given.
    fn names(&self) -> impl Iterator<Item = (&'static str, &str)> {
        [("rule", &self.rule), ("plan", &self.plan)]
            .into_iter()
            .filter_map(|(name, value)| Some((name, value.as_deref()?)))
    }

    /// Sends a request without a body. The response has `member`.
    fn query(&self, method: &str, path: &str, member: &str) -> Result<Value, CallError> {
        let query: Vec<_> = self.names().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
        AdminClient::new(&self.target).call(method, &format!("{path}?{}", query.join("&")), "", member)
    }

    /// Sends `members`. The response has `member`.
    fn put<'m>(
        &self,
        path: &str,
        members: impl IntoIterator<Item = (&'m str, Value)>,
        member: &str,
    ) -> Result<Value, CallError> {
        let names = self.names().map(|(name, value)| (name, json!(value)));
        let body: Map<_, _> = members.into_iter().chain(names).map(|(name, value)| (name.to_owned(), value)).collect();
        AdminClient::new(&self.target).call("PUT", path, &Value::Object(body).to_string(), member)
    }
}

/// Returns the time until a request is allowed. The text is empty if a request is allowed now.
fn retry_after(ms: &Value) -> String {
    match ms.as_u64() {
        Some(0) => String::new(),
        Some(_) => duration(ms),
        None => "never".to_owned(),
    }
}

/// Returns the time until all tokens are available again: `never` for a prepaid quota that is not full.
fn full_in(limit: &Value) -> String {
    let is_full = limit["remaining"].as_u64() >= limit["capacity"].as_u64();
    match limit["reset-after-ms"].as_u64() {
        Some(0) if limit["algorithm"] == "quota" && !is_full => "never".to_owned(),
        _ => duration(&limit["reset-after-ms"]),
    }
}

/// Returns the mode of a rule, or the share of keys for which it is enforced, and whether this key is one of them.
fn mode(limit: &Value) -> String {
    let Some(percent) = limit["enforce-percent"].as_f64() else { return string(&limit["mode"]) };
    let word = if limit["enforced"] == true { "with" } else { "without" };
    format!("{percent} % of keys, {word} this one")
}

/// Returns the response as a table.
fn render(response: &Value) -> String {
    let mut rows = vec![heading(["RULE", "PLAN", "REMAINING", "CAPACITY", "FULL IN", "RETRY AFTER", "STORE", "LIMIT"])];
    let limits = || response["limits"].as_array().into_iter().flatten();
    let is_enforced = |limit: &Value| limit["mode"] == "enforce" && limit.get("enforce-percent").is_none();
    let has_modes = !limits().all(is_enforced);
    if has_modes {
        rows[0].push("MODE".to_owned());
    }
    let has_overrides = limits().any(|limit| limit.get("override").is_some());
    let has_conditions = limits().any(|limit| limit.get("when").is_some());
    if has_conditions {
        rows[0].push("WHEN".to_owned());
    }
    if has_overrides {
        rows[0].push("OVERRIDE".to_owned());
    }
    for limit in limits() {
        let mut row = vec![
            string(&limit["rule"]),
            string(&limit["plan"]),
            limit["remaining"].to_string(),
            limit["capacity"].to_string(),
            full_in(limit),
            retry_after(&limit["retry-after-ms"]),
            string(&limit["store"]),
            string(&limit["limit"]),
        ];
        if has_modes {
            row.push(mode(limit));
        }
        if has_conditions {
            row.push(string(&limit["when"]));
        }
        if has_overrides {
            row.push(limit.get("override").map(|it| overrides::in_words(it, &limit["numbers"])).unwrap_or_default());
        }
        rows.push(row);
    }
    let plan = response.get("plan").map_or_else(String::new, |plan| {
        format!("plan: {}\n", plan.as_str().map_or_else(|| "none".to_owned(), printable))
    });
    let ends = limits().find_map(|limit| limit.get("leases-end-within-ms"));
    let leases = ends.map_or_else(String::new, |ms| format!("leases of the key end within {}\n", duration(ms)));
    plan + &table(&rows, &[2, 3, 4, 5]) + &leases
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_options_instead_of_json_members() {
        assert_eq!(
            in_options(r#"several rules: name one with "rule" (and "plan"): `a` (status 400)"#),
            "several rules: name one with --rule (and --plan): `a` (status 400)"
        );
        assert_eq!(
            in_options("give the numbers of `quota` that change (`allowance`), or `unlimited` or `block` (status 400)"),
            "give the numbers of `quota` that change (`allowance`), each with --set NAME=VALUE, or use --set xN, --unlimited or --block (status 400)"
        );
        let negative = r#"the body must be {"grant": N}: a grant must not be negative: set "remaining" (status 400)"#;
        assert_eq!(in_options(negative), "a grant must not be negative: take tokens away with `tollgate limits set`");
    }

    #[test]
    fn a_change_of_a_leased_key_says_when_its_leases_end() {
        let limit = json!({"rule": "day", "mode": "enforce", "leases-end-within-ms": 1_000});
        assert!(render(&json!({"limits": [limit]})).ends_with("\nleases of the key end within 1 s\n"));
    }

    #[test]
    fn limits_are_a_table() {
        let limit = |rule: &str, mode: Value, more: Value| {
            let mut limit =
                json!({"rule": rule, "remaining": 5, "capacity": 20, "store": "memory", "retry-after-ms": 0});
            for part in [mode, more] {
                limit.as_object_mut().unwrap().extend(part.as_object().unwrap().clone());
            }
            limit
        };
        let enforce = || json!({"mode": "enforce"});
        let limits = [
            limit("day", enforce(), json!({"limit": "fixed-window, 20 per 1d", "reset-after-ms": 86_399_000})),
            limit(
                "paid",
                enforce(),
                json!({"limit": "quota, 20 in total", "algorithm": "quota", "reset-after-ms": 0, "retry-after-ms": null}),
            ),
        ];
        let expected = "\
            RULE  PLAN  REMAINING  CAPACITY      FULL IN  RETRY AFTER  STORE   LIMIT\n\
            day                 5        20  23 h 59 min               memory  fixed-window, 20 per 1d\n\
            paid                5        20        never        never  memory  quota, 20 in total\n";
        assert_eq!(render(&json!({"limits": limits})), expected);

        let tried = [
            limit("a", json!({"mode": "observe"}), json!({})),
            limit("b", json!({"mode": "enforce", "enforce-percent": 12.5}), json!({"enforced": true})),
            limit("c", json!({"mode": "enforce", "enforce-percent": 5}), json!({"enforced": false})),
        ];
        let table = render(&json!({"limits": tried}));
        let modes: Vec<_> = table.lines().map(|line| line.split("  ").last().unwrap_or_default().trim()).collect();
        let shares = ["12.5 % of keys, with this one", "5 % of keys, without this one"];
        assert_eq!(modes, ["MODE", "observe", shares[0], shares[1]], "{table}");
    }
}
