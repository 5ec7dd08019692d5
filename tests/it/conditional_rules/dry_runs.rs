//! `explain` and `simulate` with rules that have a `when`.

use std::process::Command;

use serde_json::{Value, json};

use super::{admin, orders};
use crate::support::gateway::{Gateway, TOLLGATE, run};

#[test]
fn explain_names_the_rules_that_do_not_apply_and_the_reason() {
    let gateway = Gateway::start(&orders(""));
    let file = gateway.config().to_str().unwrap();
    let explained = |arguments: &[&str]| {
        let (code, text, errors) = run(&[&["explain", file], arguments].concat());
        assert_eq!(code, Some(0), "{errors}");
        text
    };
    let read: Value = serde_json::from_str(&explained(&["GET", "/orders/1", "--json"])).unwrap();
    let limiter = &read["route"]["filters"][2];
    assert_eq!(limiter["counted"].as_array().unwrap().len(), 1);
    assert_eq!(
        limiter["skipped-rules"],
        json!([{
            "rule": "writes",
            "predicate": "any: [Method=POST; Header=X-Bulk, yes]",
            "seen": "the method is `GET`; header `X-Bulk` is missing",
        }])
    );
    let text = explained(&["GET", "/orders/1/items"]);
    assert!(
        text.contains("rule writes does not apply: Path=/orders/{id} does not match: the path is `/orders/1/items`"),
        "{text}"
    );
    let write: Value = serde_json::from_str(&explained(&["POST", "/orders/1", "-H", "x-user: ada", "--json"])).unwrap();
    let limiter = &write["route"]["filters"][2];
    assert_eq!((limiter["counted"].as_array().unwrap().len(), &limiter["skipped-rules"]), (2, &Value::Null));
    let live = admin(&gateway, "GET", "/api/explain?method=GET&url=/orders/1", "");
    assert_eq!(live["route"]["filters"][2]["skipped-rules"][0]["rule"], "writes");
}

#[test]
fn simulate_applies_conditions_and_names_those_that_the_log_cannot_decide() {
    let folder = tempfile::tempdir().unwrap();
    let window = "algorithm: fixed-window, window: 1h, key-resolver: ip";
    let config = format!(
        "routes: [{{id: a, uri: 'echo:', predicates: [Path=/**], filters: [{{name: RequestRateLimiter, args: {{limits: [\
         {{name: writes, limit: 1, {window}, when: [Method=POST, Path=/a/**]}}, \
         {{name: bulk, limit: 1, {window}, when: ['Header=X-Bulk, yes']}}, \
         {{name: sale, limit: 1, {window}, when: ['After=2020-01-01T00:00:00Z']}}]}}}}]}}]"
    );
    let line = |request: &str| {
        format!("192.0.2.1 - - [22/Nov/2026:10:00:00 +0000] \"{request} HTTP/1.1\" 200 1 \"-\" \"-\"\n")
    };
    let log = ["GET /a/1", "POST /a/1", "GET /a/1", "POST /b", "POST /a/2", "POST /a/3"].map(line).concat();
    let [config_file, log_file] = [("a.yaml", &config), ("a.log", &log)].map(|(name, text)| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    });
    let output =
        Command::new(TOLLGATE).arg("simulate").arg(&config_file).arg(&log_file).arg("--json").output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let outcome = &report["configurations"][0];
    assert_eq!((&outcome["requests"], &outcome["denied"]), (&json!(6), &json!(2)), "{report}");
    let notes: Vec<_> =
        outcome["notes"].as_array().unwrap().iter().map(|note| (&note["rule"], &note["text"])).collect();
    let lacks =
        |text: &str| json!(format!("not simulated: `{text}` of its `when` reads parts of requests that the log lacks"));
    let expected = [(json!("bulk"), lacks("Header=X-Bulk, yes")), (json!("sale"), lacks("After=2020-01-01T00:00:00Z"))];
    assert_eq!(notes, expected.each_ref().map(|(rule, text)| (rule, text)));
}

#[test]
fn simulate_needs_no_key_in_lines_of_requests_to_which_its_rule_does_not_apply() {
    let folder = tempfile::tempdir().unwrap();
    let [config, log] = ["a.yaml", "a.log"].map(|name| folder.path().join(name));
    let line = |method: &str, keys: &str| {
        format!(
            "{{\"time\":\"2026-11-22T10:00:00Z\",\"client\":\"192.0.2.1\",\"method\":\"{method}\",\"target\":\"/orders/1\",\
             \"route\":\"orders\",\"verdict\":\"allowed\",\"keys\":{{\"all\":\"192.0.2.1\"{keys}}}}}\n"
        )
    };
    // The log lacks `X-Bulk`.
    let yaml = orders("").replace("{any: [Method=POST, 'Header=X-Bulk, yes']}", "Method=POST");
    std::fs::write(&config, yaml).unwrap();
    let write = || line("POST", ",\"writes\":\"ada\"");
    std::fs::write(&log, [line("GET", ""), write(), write(), write(), line("GET", "")].concat()).unwrap();
    let output = Command::new(TOLLGATE).arg("simulate").args([&config, &log]).arg("--json").output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let outcome = &report["configurations"][0];
    assert_eq!((&outcome["requests"], &outcome["denied"]), (&json!(5), &json!(1)), "{report}");
    let notes = outcome["notes"].to_string();
    assert!(notes.contains("`header:x-user` is taken from the log") && !notes.contains("lines lack it"), "{notes}");
}
