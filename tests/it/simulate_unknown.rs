//! `tollgate simulate` on logs that lack parts of requests, and with mistaken arguments.

use std::path::Path;

use serde_json::Value;

use crate::simulate::{LIMITED, simulate, simulate_json, text};

fn limiter(arguments: &str) -> String {
    format!("{{name: RequestRateLimiter, args: {{{}}}}}", arguments.replace('W', "algorithm: fixed-window, window: 1h"))
}

fn write(folder: &Path, config: &str, lines: &[String]) -> [std::path::PathBuf; 3] {
    let paths = ["a.yaml", "a.log", "a.html"].map(|name| folder.join(name));
    std::fs::write(&paths[0], config).unwrap();
    std::fs::write(&paths[1], lines.join("\n")).unwrap();
    paths
}

/// Line of our own log with further `fields`.
fn own_line(fields: &str) -> String {
    format!("{{\"time\":\"2026-11-22T10:00:00Z\",\"client\":\"192.0.2.1\",\"target\":\"/a\",\"route\":\"a\"{fields}}}")
}

fn note(outcome: &Value, rule: &str) -> String {
    let notes = outcome["notes"].as_array().unwrap();
    let note = notes.iter().find(|note| note["rule"] == rule);
    note.map_or_else(String::new, |note| note["text"].as_str().unwrap().to_owned())
}

#[test]
fn lines_of_our_own_log_without_the_key_are_counted_by_rule() {
    let folder = tempfile::tempdir().unwrap();
    let rules = "limits: [{name: ip, limit: 2, W, key-resolver: ip}, {name: new, limit: 1, W, key-resolver: 'header:x-api-key'}]";
    let route = format!("routes: [{{id: a, uri: 'echo:', predicates: [Path=/a], filters: [{}]}}]", limiter(rules));
    let bare = || own_line(",\"verdict\":\"allowed\",\"rule\":\"ip\",\"key\":\"192.0.2.1\"");
    let [config, log, html] = write(folder.path(), &route, &[bare(), bare(), bare()]);
    let report = simulate_json(&[text(&config), text(&log), "--report", text(&html)]);
    let outcome = &report["configurations"][0];
    assert_eq!(outcome["denied"], 1, "the other rule is simulated");
    let lacking = "not simulated: its key is `header:x-api-key`, which no line of the route has";
    assert_eq!(note(outcome, "new"), lacking);
    let rule = &outcome["rules"][1];
    assert_eq!((&rule["rule"], &rule["requests"], &rule["unknown"]), (&"new".into(), &0.into(), &3.into()));
    let plain = String::from_utf8(simulate(&[text(&config), text(&log)]).stdout).unwrap();
    assert!(plain.contains(lacking) && plain.contains("3 requests are unknown: their lines lack the key"), "{plain}");
    let html = std::fs::read_to_string(html).unwrap();
    assert!(html.contains(lacking) && html.contains("<td>new</td><td>0</td><td>0</td><td>0</td><td>3</td>"), "{html}");

    let keyed = || own_line(",\"verdict\":\"allowed\",\"keys\":{\"ip\":\"192.0.2.1\",\"new\":\"k\"}");
    let refused = own_line(",\"reason\":\"empty-key\"");
    let [config, log, _] =
        write(folder.path(), &route.replace("limit: 2", "limit: 9"), &[keyed(), bare(), keyed(), refused]);
    let report = simulate_json(&[text(&config), text(&log)]);
    let outcome = &report["configurations"][0];
    assert_eq!((&outcome["denied"], &outcome["answered"]), (&1.into(), &1.into()));
    let found = note(outcome, "new");
    assert!(found.contains("is taken from the log") && found.contains("1 of 3 requests are not simulated"), "{found}");
}

#[test]
fn rules_with_one_key_resolver_share_the_key_of_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let rules = "key-resolver: 'header:x-key', limits: [{name: new, limit: 1, W}, {name: old, limit: 9, W}]";
    let route = format!("routes: [{{id: a, uri: 'echo:', predicates: [Path=/a], filters: [{}]}}]", limiter(rules));
    let line = || own_line(",\"verdict\":\"allowed\",\"rule\":\"old\",\"key\":\"k\"");
    let [config, log, _] = write(folder.path(), &route, &[line(), line(), line()]);
    let outcome = simulate_json(&[text(&config), text(&log)])["configurations"][0].clone();
    assert_eq!((&outcome["denied"], &outcome["rules"][0]["unknown"]), (&2.into(), &0.into()));
}

#[test]
fn fields_of_the_map_that_lines_lack_are_errors_or_counted() {
    let folder = tempfile::tempdir().unwrap();
    let route = format!(
        "routes: [{{id: a, uri: 'echo:', predicates: [Path=/a], filters: [{}]}}]",
        limiter("key-resolver: 'header:x-key', limit: 1, W")
    );
    let line = |key: &str| format!("{{\"ts\":1795341600,\"req\":{{\"u\":\"/a\"}}{key}}}");
    let keyed = || line(",\"k\":\"x\"");
    let [config, log, html] = write(folder.path(), &route, &[keyed(), line(""), keyed()]);
    for (map, field) in [
        ("time=ts,path=req.u,header.X-Key=TYPO", "TYPO"),
        ("time=ts,path=req.u,header.X-Unread=TYPO", "TYPO"),
        ("time=ts,path=req.u,ip=req.TYPO", "req.TYPO"),
        ("time=ts,path=u", "u"),
    ] {
        let output = simulate(&[text(&config), text(&log), "--map", map]);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        let message =
            format!("no line has the field `{field}` of --map; the fields of the first lines are ts, req.u, k");
        let names = errors.split(" are ").nth(1).unwrap_or_default().trim();
        let mut names: Vec<_> = names.split(", ").collect();
        names.sort_unstable();
        assert!(errors.contains(message.split(" are ").next().unwrap()), "{errors}");
        assert_eq!((names, output.status.code(), output.stdout.len()), (vec!["k", "req.u", "ts"], Some(2), 0), "{map}");
    }
    let arguments = [text(&config), text(&log), "--map", "time=ts,path=req.u,header.X-Key=k", "--report", text(&html)];
    let report = simulate_json(&arguments);
    assert_eq!(report["input"]["lacking-fields"].to_string(), r#"[{"field":"k","lacking":1,"lines":3}]"#);
    let outcome = &report["configurations"][0];
    assert_eq!((&outcome["denied"], &outcome["rules"][0]["unknown"]), (&1.into(), &1.into()));
    let found = note(outcome, "a");
    assert_eq!(found, "1 of 3 requests are not simulated: their lines lack the key `header:x-key`");
    let plain = String::from_utf8(simulate(&arguments).stdout).unwrap();
    assert!(plain.contains("1 of 3 lines lack the field `k` of --map"), "{plain}");
    assert!(std::fs::read_to_string(html).unwrap().contains("1 of 3 lines lack the field k of --map."));
}

#[test]
fn methods_and_addresses_that_the_map_lacks_are_not_guessed() {
    let folder = tempfile::tempdir().unwrap();
    let route = |id: &str, method: &str| {
        let limiter = limiter("key-resolver: ip, limit: 1, W");
        format!("- {{id: {id}, uri: 'echo:', predicates: [Path=/a, Method={method}], filters: [{limiter}]}}\n")
    };
    let line = || "{\"ts\":1795341600,\"u\":\"/a\",\"m\":\"POST\",\"c\":\"192.0.2.1\"}".to_owned();
    let config = format!("routes:\n{}{}", route("get", "GET"), route("post", "POST"));
    let [config, log, _] = write(folder.path(), &config, &[line(), line()]);
    let outcome = simulate_json(&[text(&config), text(&log), "--map", "time=ts,path=u"])["configurations"][0].clone();
    assert_eq!((&outcome["undetermined"], &outcome["unrouted"]), (&2.into(), &0.into()));
    let notes = outcome["notes"].to_string();
    for route in ["GET", "POST"] {
        let note = format!("`Method={route}` reads parts of requests that the log lacks (--map method=FIELD)");
        assert!(notes.contains(&note), "{notes}");
    }
    assert!(notes.contains("its key is `ip`, which the log lacks (--map client=FIELD)"), "{notes}");
    let map = "time=ts,path=u,method=m,client=c";
    let outcome = simulate_json(&[text(&config), text(&log), "--map", map])["configurations"][0].clone();
    assert_eq!(
        (&outcome["denied"], &outcome["routes"][1]["denied"], &outcome["notes"]),
        (&1.into(), &1.into(), &Value::Array(vec![]))
    );
}

#[test]
fn keys_of_rules_with_another_name_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let rules =
        "key-resolver: 'header:x-key', limits: [{name: ip, limit: 9, W, key-resolver: ip}, {name: new, limit: 1, W}]";
    let route = format!("routes: [{{id: a, uri: 'echo:', predicates: [Path=/a], filters: [{}]}}]", limiter(rules));
    let line = || own_line(",\"verdict\":\"allowed\",\"keys\":{\"ip\":\"192.0.2.1\",\"old\":\"k\"}");
    let replay = |route: &str| {
        let [config, log, _] = write(folder.path(), route, &[line(), line()]);
        simulate_json(&[text(&config), text(&log)])["configurations"][0].clone()
    };
    let found = note(&replay(&route), "new");
    let hint = "the lines have keys of `old`: give a rule with the same key resolver that name";
    assert!(found.starts_with("not simulated") && found.ends_with(hint), "{found}");
    assert_eq!(replay(&route.replace("name: new", "name: old"))["denied"], 1);
}

#[test]
fn a_rule_that_got_others_has_the_keys_of_the_time_when_it_stood_alone() {
    let folder = tempfile::tempdir().unwrap();
    let rules = "key-resolver: 'header:x-key', limits: [{name: daily, limit: 9, W}, {limit: 1, W}]";
    let route = format!("routes: [{{id: a, uri: 'echo:', predicates: [Path=/a], filters: [{}]}}]", limiter(rules));
    let line = || own_line(",\"verdict\":\"allowed\",\"rule\":\"a\",\"key\":\"k\"");
    let [config, log, _] = write(folder.path(), &route, &[line(), line()]);
    let report = simulate_json(&[text(&config), text(&log)])["configurations"][0].clone();
    assert_eq!(report["denied"], 1, "{report}");
}

#[test]
fn verdicts_of_lists_are_kept_and_hashed_keys_are_unknown() {
    let folder = tempfile::tempdir().unwrap();
    let limiters = [
        "key-resolver: 'header:x-key', exempt: [friend], block: [foe], limit: 1, W",
        "key-resolver: 'header:x-key', limit: 1, W, plan-resolver: {table: {vip: gold}}, plans: {gold: {limit: 9, W}}",
        "key-resolver: 'header:x-key', limit: 1, W, enforce-percent: 50",
    ];
    let config = |limiter_arguments: &str| {
        let limiter = limiter(limiter_arguments);
        format!("routes: [{{id: a, uri: 'echo:', predicates: [Path=/a], filters: [{limiter}]}}]\n")
    };
    let hashing = "management: {hash-keys: true}\n";
    let key = ",\"rule\":\"a\",\"key\":\"5bdcc146bf60754e\"";
    let verdict = |verdict: &str, key: &str| own_line(&format!(",\"verdict\":\"{verdict}\"{key}"));
    let lines = [
        verdict("exempt", ""),
        verdict("allowed", key),
        verdict("exempt", ""),
        verdict("denied", key),
        verdict("blocked", ""),
    ];
    let replay = |config: &str| {
        let [config, log, _] = write(folder.path(), config, &lines);
        simulate_json(&[text(&config), text(&log)])["configurations"][0].clone()
    };
    for (head, words) in [("", "which lacks their keys"), (hashing, "hashes of keys")] {
        let outcome = replay(&(config(limiters[0]) + head));
        assert_eq!(outcome["reproduced"].to_string(), r#"{"same":5,"different":0}"#);
        assert_eq!((&outcome["denied"], &outcome["rules"][0]["unknown"]), (&2.into(), &0.into()));
        let notes = outcome["notes"].to_string();
        assert!(notes.contains(words) && !(head == hashing && notes.contains("look like hashes")), "{notes}");
    }
    for (limiter, words) in [(limiters[1], "plans are by key"), (limiters[2], "`enforce-percent` chooses keys")] {
        let outcome = replay(&(config(limiter) + hashing));
        assert_eq!((&outcome["denied"], outcome["rules"].as_array().unwrap().len()), (&0.into(), 0));
        assert!(outcome["notes"].to_string().contains(words), "{}", outcome["notes"]);
        // The log does not say that its keys are hashes.
        let notes = replay(&config(limiter))["notes"].to_string();
        assert!(!notes.contains(words) && notes.contains("all keys look like hashes"), "{notes}");
    }
}

#[test]
fn mistakes_have_clear_messages() {
    let folder = tempfile::tempdir().unwrap();
    let [config, log, none] = ["a.yaml", "a.log", "none"].map(|name| folder.path().join(name));
    std::fs::write(&config, LIMITED).unwrap();
    std::fs::write(&log, "{\"ts\":1,\"uri\":\"/\"}\n").unwrap();
    for (arguments, message) in [
        (&[text(&config), text(&none)][..], "cannot read "),
        (&[text(&config), text(&log), "--map", "colour=x"], "unknown part `colour` in --map"),
        (&[text(&config), text(&log), "--map", "time=ts"], "--map needs path=FIELD"),
        (&[text(&config), text(&log), "--rate", "0"], "not a factor such as 2, x2 or 0.5"),
        (
            &[text(&config), text(&log), "--map", "time=ts,path=url"],
            "no line has the field `url` of --map; the fields of the first lines are ts, uri",
        ),
        (&[text(&none), text(&log)], "none"),
    ] {
        let output = simulate(arguments);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(errors.contains(message), "{errors}");
    }
}
