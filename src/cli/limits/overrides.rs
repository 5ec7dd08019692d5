//! `tollgate limits override` and `tollgate limits overrides`: temporary overrides of limits.

use clap::Args;
use serde_json::{Value, json};

use super::{Key, Selection};
use crate::cli::admin_client::{AdminClient, CallError, printable, table};
use crate::cli::report::{duration, heading, string};

/// Override of the limit of a key.
#[derive(Debug, Args)]
pub(in crate::cli) struct Override {
    #[command(flatten)]
    key: Key,
    /// New value of a setting of the rule, such as replenish-rate=50 (repeatable), or x10 for ten times the limit. A rate is per
    /// the period of the rule unless period=TIME is set
    #[arg(long = "set", value_name = "NAME=VALUE|xN", value_parser = setting)]
    numbers: Vec<(String, Value)>,
    /// Allow every request, without counting it
    #[arg(long, conflicts_with = "numbers")]
    unlimited: bool,
    /// Deny every request
    #[arg(long, conflicts_with_all = ["numbers", "unlimited"])]
    block: bool,
    /// Duration of the override, such as 15m
    #[arg(long = "for", alias = "expires-in", value_name = "TIME", required_unless_present = "remove")]
    time: Option<String>,
    /// End the override now
    #[arg(long, conflicts_with_all = ["numbers", "unlimited", "block", "time"])]
    remove: bool,
    #[command(flatten)]
    selection: Selection,
}

/// Parses `NAME=VALUE`, or `xN` as the factor of the whole limit. A whole number becomes a JSON number, any other value a
/// string, such as a duration.
fn setting(text: &str) -> Result<(String, Value), String> {
    let factor = |text: &str| {
        let number = text.trim().strip_prefix(['x', 'X', '×'])?;
        number.starts_with(|c: char| c.is_ascii_digit()).then(|| number.to_owned())
    };
    if let Some(factor) = factor(text) {
        let whole = factor.parse::<u64>().ok().filter(|factor| *factor > 0);
        return whole.map(|factor| ("factor".to_owned(), json!(factor))).ok_or_else(|| {
            format!("x{factor} is no factor: N of xN is a whole number from 1; a lower limit needs its numbers, such as replenish-rate=5")
        });
    }
    let (name, value) = text.split_once('=').ok_or_else(|| format!("expected NAME=VALUE or xN, got `{text}`"))?;
    if let Some(factor) = factor(value) {
        return Err(format!("x{factor} multiplies the whole limit: write `--set x{factor}`, or a number for {name}"));
    }
    let value = value.trim();
    Ok((name.trim().to_owned(), value.parse::<u64>().map_or_else(|_| json!(value), |number| json!(number))))
}

impl Override {
    /// Sets or removes the override. Returns the overrides afterwards.
    pub(super) fn call(&self) -> Result<Value, CallError> {
        if let Some(address) = self.selection.target.address().filter(|address| setting(address).is_ok()) {
            return Err(CallError::Setting(address.to_owned()));
        }
        let path = self.key.path("overrides");
        if self.remove {
            self.selection.query("DELETE", &path, "route")?;
        } else {
            let flags = [("unlimited", self.unlimited), ("block", self.block)];
            let flags = flags.into_iter().filter(|(_, is_set)| *is_set).map(|(name, _)| (name, json!(true)));
            let time = self.time.as_ref().map(|time| ("expires-in", json!(time)));
            let numbers = self.numbers.iter().map(|(name, value)| (name.as_str(), value.clone()));
            self.selection.put(&path, numbers.chain(time).chain(flags), "route")?;
        }
        AdminClient::new(&self.selection.target).call("GET", "/api/overrides", "", "route")
    }
}

/// Returns each member of an override as `NAME=VALUE`, or as its name if it is true.
fn members(it: &Value) -> Vec<String> {
    let member = |(name, value): (&String, &Value)| match value {
        Value::Bool(true) => printable(name),
        Value::String(text) => printable(&format!("{name}={text}")),
        value => printable(&format!("{name}={value}")),
    };
    it.as_object().into_iter().flatten().map(member).collect()
}

/// Describes the override of a limit: `unlimited`, `block` or the `numbers` in effect, and the time until it ends.
pub(super) fn in_words(it: &Value, numbers: &Value) -> String {
    let word = ["unlimited", "block"].into_iter().find(|word| it[word] == true);
    let effect = word.map_or_else(|| members(numbers).join(" "), str::to_owned);
    format!("{effect}, ends in {}", duration(&it["expires-in-ms"]))
}

/// Returns a list of overrides as a table.
pub(super) fn render(list: &Value) -> String {
    let mut rows = vec![heading(["ROUTE", "RULE", "PLAN", "KEY", "OVERRIDE", "ENDS IN", "BY"])];
    for it in list.as_array().into_iter().flatten() {
        let mut numbers = members(&it["override"]);
        if it["in-effect"] == false {
            numbers.push("(no such rule)".to_owned());
        }
        rows.push(vec![
            string(&it["route"]),
            string(&it["rule"]),
            string(&it["plan"]),
            it["key"].as_str().map_or_else(|| "(every key)".to_owned(), printable),
            numbers.join(" "),
            duration(&it["expires-in-ms"]),
            string(&it["by"]),
        ]);
    }
    table(&rows, &[5])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overrides_are_a_table() {
        let list = json!([
            {"route": "orders", "rule": "daily", "key": "al\u{1b}ice", "override": {"replenish-rate": 5, "period": "1m"}, "by": "ops", "expires-in-ms": 59_001},
            {"route": "orders", "rule": "orders", "plan": "gold", "override": {"unlimited": true}, "by": "local", "expires-in-ms": 1},
        ]);
        let table = render(&list);
        let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[0], ["ROUTE", "RULE", "PLAN", "KEY", "OVERRIDE", "ENDS", "IN", "BY"]);
        assert_eq!(lines[1], ["orders", "daily", "al\\u{1b}ice", "replenish-rate=5", "period=1m", "60", "s", "ops"]);
        assert_eq!(lines[2], ["orders", "orders", "gold", "(every", "key)", "unlimited", "1", "s", "local"]);
        assert_eq!(setting("replenish-rate = 50"), Ok(("replenish-rate".to_owned(), json!(50))));
        assert_eq!(setting("period=1m"), Ok(("period".to_owned(), json!("1m"))));
        assert_eq!(setting("x10"), Ok(("factor".to_owned(), json!(10))));
        assert!(setting("50").is_err());
        assert!(setting("limit=x10").is_err_and(|error| error.contains("write `--set x10`")));
        for wrong in ["x0.5", "x0", "x1e3", "X10%"] {
            assert!(setting(wrong).is_err_and(|error| error.contains("a whole number from 1")), "{wrong}");
        }
    }
}
