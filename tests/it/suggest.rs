//! `tollgate suggest`: limits for the clients of access logs.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::simulate::{combined_line, simulate_json, text};
use crate::support::gateway::TOLLGATE;

/// Returns the exit code, the output and the errors.
fn suggest(arguments: &[&str], folder: &Path) -> (i32, String, String) {
    let output = Command::new(TOLLGATE).arg("suggest").args(arguments).current_dir(folder).output().unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    (output.status.code().unwrap(), out, err)
}

fn suggest_json(arguments: &[&str], folder: &Path) -> Value {
    let (code, out, err) = suggest(&[arguments, &["--json"]].concat(), folder);
    assert_eq!((code, err.as_str()), (0, ""));
    serde_json::from_str(&out).unwrap()
}

/// Pipes `yaml` to `tollgate check -`, which finds nothing to report.
fn check(yaml: &str) {
    let mut command = Command::new(TOLLGATE);
    command.args(["check", "--offline", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(yaml.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert_eq!((output.status.code(), err.as_str()), (Some(0), ""), "{yaml}");
    assert!(out.starts_with("-: ok, "), "{out}");
}

/// Ten clients each send 1, 2, … 10 requests within a second, and those with most of them go on with one a second.
fn ladder() -> String {
    let client = |at: u32| format!("192.0.2.{at}");
    let first = (0..100).flat_map(|at| (0..=at / 10).map(move |_| combined_line(0, &client(at), "/a")));
    let later = (1..60).flat_map(|second| (90..100).map(move |at| combined_line(second, &client(at), "/a")));
    first.chain(later).collect()
}

#[test]
fn a_suggested_limit_passes_check_and_denies_requests_of_as_many_clients_as_it_says() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.log"), ladder()).unwrap();
    for (share, touched) in [("0", 0), ("9.9%", 0), ("10%", 10), ("35%", 30), ("100%", 90)] {
        let (code, yaml, err) = suggest(&["a.log", "--touch", share], folder.path());
        assert_eq!((code, err.as_str()), (0, ""));
        check(&yaml);
        assert!(yaml.contains(&format!("# touches {touched} of 100 clients ({touched} %)")), "{yaml}");
        let file = folder.path().join("a.yaml");
        std::fs::write(&file, &yaml).unwrap();
        let report = simulate_json(&[text(&file), text(&folder.path().join("a.log"))]);
        let rule = &report["configurations"][0]["rules"][0];
        assert_eq!((&rule["keys"], &rule["denied-keys"]), (&100.into(), &touched.into()), "{yaml}");
    }
    let (_, yaml, _) = suggest(&["a.log", "--touch", "10%"], folder.path());
    assert!(yaml.contains("{key-resolver: \"ip\", replenish-rate: 6, period: 1m, burst-capacity: 9}"), "{yaml}");
    assert!(yaml.contains("#   by the burst that they need: 192.0.2.90 (needs 64), 192.0.2.91 (needs 64), "), "{yaml}");
}

#[test]
fn limits_are_suggested_by_the_routes_and_keys_of_a_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let limiter = |key: &str| {
        format!(
            "{{name: RequestRateLimiter, args: {{key-resolver: {key}, limits: [{{name: s, replenish-rate: 1, burst-capacity: 1}}, {{name: m, algorithm: fixed-window, limit: 1, window: 1m}}]}}}}"
        )
    };
    let yaml = format!(
        "routes:\n- {{id: keyed, uri: 'echo:', predicates: [Path=/keyed], filters: [{}, {}]}}\n\
         - {{id: open, uri: 'echo:', predicates: [Path=/open]}}\n",
        limiter("'header:x-key'"),
        limiter("ip"),
    );
    std::fs::write(folder.path().join("a.yaml"), yaml).unwrap();
    let line = |path: &str, client: u32, key: &str| {
        format!("{{\"t\":1795341600,\"c\":\"192.0.2.{client}\",\"p\":\"{path}\",\"k\":\"{key}\"}}\n")
    };
    let keyed = (0..20).map(|at| line("/keyed", at % 2, ["x", "y", "z", "x"][at as usize % 4]));
    let open = (0..6).map(|at| line("/open", at, "-"));
    let lines: String = keyed.chain(open).chain([line("/none", 1, "-")]).collect();
    std::fs::write(folder.path().join("a.log"), lines).unwrap();
    let map = "time=t,client=c,path=p,header.X-Key=k";
    let figures = |report: &Value| {
        let figure = |route: &Value| {
            let [name, key] = ["route", "key"].map(|name| route[name].as_str().unwrap().to_owned());
            let limit = &route["limits"][0];
            let numbers = [&route["requests"], &route["clients"], &limit["burst-capacity"], &limit["touched"]];
            (name, key, numbers.map(|number| number.as_u64().unwrap()))
        };
        report["routes"].as_array().unwrap().iter().map(figure).collect::<Vec<_>>()
    };
    let row = |route: &str, key: &str, numbers: [u64; 4]| (route.to_owned(), key.to_owned(), numbers);
    let report = suggest_json(&["a.yaml", "a.log", "--map", map, "--touch", "0"], folder.path());
    assert_eq!(
        figures(&report),
        [
            row("keyed", "header:x-key", [20, 3, 10, 0]),
            row("keyed", "ip", [20, 2, 10, 0]),
            row("open", "ip", [6, 6, 1, 0])
        ]
    );
    assert_eq!(report["unrouted"], 1);
    let report =
        suggest_json(&["a.yaml", "a.log", "--map", map, "--touch", "40%", "--key", "header:X-Key"], folder.path());
    assert_eq!(figures(&report), [row("keyed", "header:x-key", [20, 3, 5, 1])], "the other route has no such key");
    assert_eq!(report["routes"][0]["limits"][0]["top"][0].to_string(), r#"{"key":"x","needs":10}"#);
    let (_, yaml, _) = suggest(&["a.yaml", "a.log", "--map", map], folder.path());
    check(&yaml);
}

#[test]
fn a_log_of_the_gateway_names_the_routes() {
    let folder = tempfile::tempdir().unwrap();
    let line = |route: &str, client: u32| {
        format!(
            "{{\"time\":\"2026-11-22T10:00:00Z\",\"client\":\"192.0.2.{client}\",\"target\":\"/x\",\"route\":\"{route}\"}}\n"
        )
    };
    let lines: String = (0..30).map(|at| line(["orders", "pay #1"][usize::from(at % 3 == 0)], at % 5)).collect();
    std::fs::write(folder.path().join("own.log"), lines).unwrap();
    let (code, yaml, _) = suggest(&["own.log"], folder.path());
    assert_eq!(code, 0);
    check(&yaml);
    for text in ["# route orders, key ip: 20 requests of 5 clients", "# route pay #1, key ip: 10 requests of 5 clients"]
    {
        assert!(yaml.contains(text), "{yaml}");
    }
    assert!(yaml.contains("- id: \"pay--1\"") && yaml.contains("Path=/pay--1/**"), "{yaml}");
}

#[test]
fn requests_without_a_key_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let line = |client: &str| {
        format!(
            r#"{{"time":"2026-11-28T10:00:00Z","client":"{client}","method":"GET","target":"/x","route":"r","status":200}}"#
        )
    };
    let log = ["192.0.2.1", "unix:", "proxy.example"].map(|client| line(client) + "\n").concat();
    std::fs::write(folder.path().join("a.log"), log).unwrap();
    let suggested = suggest_json(&["a.log"], folder.path());
    assert_eq!((&suggested["without-key"], &suggested["routes"][0]["requests"]), (&2.into(), &1.into()));
    let (_, yaml, _) = suggest(&["a.log"], folder.path());
    assert!(yaml.contains("# 2 requests are not measured, since no limiter finds its key"), "{yaml}");
}

#[test]
fn mistakes_of_a_suggestion_are_named() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.log"), "broken\n").unwrap();
    for (arguments, problem) in [
        (&["a.log", "--key", "heder:x"][..], "tollgate: --key: "),
        (&["a.log", "--touch", "0.01"], "not a share such as 1%"),
        (&["none.log"], "cannot read none.log"),
        (&["a.log"], "no line of the logs can be used"),
    ] {
        let (code, _, err) = suggest(arguments, folder.path());
        assert_eq!(code, 2, "{err}");
        assert!(err.contains(problem), "{err}");
    }
}
