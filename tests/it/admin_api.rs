//! The admin API beside limits: its OpenAPI document, configuration, reload, upstreams, and the commands that use it.

use serde_json::{Value, json};

use crate::support::client::Connection;
use crate::support::eventually;
use crate::support::gateway::{Gateway, run};
use crate::support::redis::Redis;

const CONFIG: &str = "
upstreams: {shop: {endpoints: ['http://127.0.0.1:1']}}
routes:
  - {id: shop, uri: 'lb://shop', predicates: [Path=/shop], filters: [{name: CircuitBreaker, args: {name: shop}}]}
  - id: orders
    uri: 'echo:'
    predicates: [Path=/orders]
    filters: [{name: RequestRateLimiter, args: {key-resolver: 'header:x-key', replenish-rate: 1, period: 1h, burst-capacity: 5}}]
";

#[test]
fn every_endpoint_is_described_and_answers_as_described() {
    let gateway = Gateway::start(CONFIG);
    eventually("it is ready", || gateway.admin("/health/ready").status == 200);
    let document = gateway.admin("/openapi.json").json();
    assert_eq!(document["openapi"], "3.1.0");
    let mut ids = Vec::new();
    for endpoint in gateway.admin("/none").json()["endpoints"].as_array().unwrap() {
        let (method, path) = endpoint.as_str().unwrap().split_once(' ').unwrap();
        let operation = &document["paths"][path][method.to_lowercase()];
        ids.push(operation["operationId"].as_str().unwrap_or_else(|| panic!("{endpoint} is not described")).to_owned());
        // Only keys in Redis can be changed: `api_keys::redis` does.
        if ids.last().is_some_and(|id| ["disableKeys", "enableKeys"].contains(&id.as_str())) {
            continue;
        }
        let path = path.replace("{route}", "orders").replace("{id}", "orders").replace("{key}", "x");
        let path = path
            .replace("{file}", "app.js")
            .replace("{upstream}", "shop")
            .replace("{endpoint}", "http://127.0.0.1:1")
            .replace("{name}", "shop");
        let body: &[u8] = match operation["operationId"].as_str().unwrap() {
            "setLimit" => b"{\"grant\": 1}",
            "setOverride" | "setRuleOverride" => b"{\"burst-capacity\": 9, \"expires-in\": \"1m\"}",
            "drainEndpoint" => b"{\"expires-in\": \"1m\", \"allow-last\": true}",
            "setLogLevel" => b"{\"level\": \"info\"}",
            "forceBreaker" => b"{\"state\": \"open\", \"expires-in\": \"1m\"}",
            _ if (method, &*path) == ("POST", "/api/limits/orders") => b"{\"keys\": [{\"key\": \"x\"}]}",
            _ => b"",
        };
        // The stream of events has no end.
        let method = if path == "/api/events" { "HEAD" } else { method };
        let answer = Connection::open(gateway.admin).request(method, &path, &[], body);
        let media_type = operation["responses"]["200"]["content"].as_object().unwrap().keys().next().unwrap();
        assert_eq!(answer.status, 200, "{endpoint}: {}", answer.text());
        let is_media_type = |content_type: &str| media_type == "*/*" || content_type.starts_with(media_type.as_str());
        assert!(answer.header("content-type").is_some_and(is_media_type), "{endpoint}");
        let schema = &operation["responses"]["200"]["content"][media_type]["schema"];
        let value = if media_type == "application/json" { answer.json() } else { Value::Null };
        let object = if schema["type"] == "array" { &value[0] } else { &value };
        let required = if schema["type"] == "array" { &schema["items"]["required"] } else { &schema["required"] };
        for member in required.as_array().into_iter().flatten() {
            assert!(object.get(member.as_str().unwrap()).is_some(), "{endpoint} lacks {member}: {value}");
        }
    }
    let described: usize =
        document["paths"].as_object().unwrap().values().map(|path| path.as_object().unwrap().len()).sum();
    assert_eq!(described, ids.len(), "the document has no other endpoints");
    ids.sort_unstable();
    assert!(ids.windows(2).all(|pair| pair[0] != pair[1]), "{ids:?}");
}

#[test]
fn a_reload_answers_with_the_problems_of_the_file() {
    let gateway = Gateway::start(CONFIG);
    let reload = || Connection::open(gateway.admin).request("POST", "/api/reload", &[], b"");
    let before = gateway.admin("/api/config").json();
    assert_eq!(before["file"].as_str(), gateway.config().to_str());
    assert_eq!((before["reloads"].as_u64(), before["hash"].as_str().unwrap().len()), (Some(0), 64));

    std::fs::write(gateway.config(), "redis: {password: hunter2, port: x}\nroutes: 5\n").unwrap();
    let refused = reload();
    assert_eq!((refused.status, refused.header("content-type")), (422, Some("application/problem+json")));
    let problem = refused.json();
    assert!(problem["diagnostics"].as_array().unwrap().iter().any(|found| found["line"] == 2), "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains("tollgate.yaml:2:"), "{problem}");
    assert!(!refused.text().contains("hunter2"), "{problem}");
    let running = gateway.admin("/api/config").json();
    assert_eq!((&running["hash"], &before["refused-reload"]), (&before["hash"], &Value::Null));
    let detail = running["refused-reload"]["detail"].as_str().unwrap();
    assert!(detail.contains("tollgate.yaml:2:") && !detail.contains("hunter2"), "{detail}");
    let (code, out, _) = run(&["status", &gateway.admin.to_string()]);
    assert!(code == Some(0) && out.contains("\nrefused ") && out.contains(detail), "{out}");
    let (code, _, err) = run(&["reload", &gateway.admin.to_string()]);
    assert!(code == Some(1) && err.contains("tollgate.yaml:2:") && err.contains("error:"), "{err}");
    assert!(!err.contains("(status"), "an excerpt ends the message: {err}");
    assert_eq!(gateway.metric("tollgate_failed_reloads_total", &[]), 2.0);

    let new = format!("server: {{address: 127.0.0.1, workers: 2, port: 0}}\naccess-log: {{output: off}}\n{CONFIG}");
    std::fs::write(gateway.config(), &new).unwrap();
    let applied = reload();
    assert_eq!(applied.status, 200, "{}", applied.text());
    assert_eq!(applied.json()["needs-restart"], json!(["server.workers"]));
    let after = gateway.admin("/api/config").json();
    assert_eq!((&before["needs-restart"], &after["needs-restart"]), (&json!([]), &json!(["server.workers"])));
    assert_eq!(
        reload().json()["needs-restart"],
        json!(["server.workers"]),
        "until the restart, not until the next reload"
    );
    assert_eq!(gateway.metric("tollgate_config_needs_restart", &[]), 1.0);
    let (code, out, _) = run(&["status", &gateway.admin.to_string()]);
    assert!(code == Some(0) && out.contains(" needed for server.workers\n"), "{out}");
    assert_ne!(after["hash"], before["hash"]);
    assert_eq!(after["refused-reload"], Value::Null);
    assert_eq!(after["hash"], applied.json()["hash"]);
    let (code, out, _) = run(&["reload", &gateway.admin.to_string()]);
    assert!(code == Some(0) && out.starts_with("configuration reloaded, hash "), "{out}");
    std::fs::remove_file(gateway.config()).unwrap();
    let (code, _, err) = run(&["reload", &gateway.admin.to_string()]);
    assert!(code == Some(1) && err.contains("stays in use: ") && err.matches("tollgate: ").count() == 1, "{err}");
}

#[test]
fn the_status_shows_upstreams_and_breakers() {
    let gateway = Gateway::start(CONFIG);
    eventually("it is ready", || gateway.admin("/health/ready").status == 200);
    let upstreams = gateway.admin("/api/upstreams").json();
    assert_eq!(upstreams[0]["endpoints"][0]["endpoint"], "http://127.0.0.1:1");
    assert_eq!(gateway.admin("/api/breakers").json()[0]["state"], "closed");
    let (code, out, err) = run(&["status", &gateway.admin.to_string()]);
    assert_eq!(code, Some(0), "{err}");
    for part in ["ready", "2 routes", "http://127.0.0.1:1 unknown", "breaker shop"] {
        assert!(out.contains(part), "{part}: {out}");
    }
    assert!(out.lines().any(|line| line.starts_with("store ") && line.ends_with(" memory")), "{out}");
    let mut redis = Redis::start();
    let gateway = Gateway::start(&format!("redis: {{url: '{}', timeout: 5s}}\n{CONFIG}", redis.url()));
    let store = || {
        run(&["status", &gateway.admin.to_string()])
            .1
            .lines()
            .find(|line| line.starts_with("store "))
            .map(str::to_owned)
    };
    eventually("redis is connected", || {
        store().is_some_and(|line| line.ends_with(" redis up, 1 of 1 workers connected"))
    });
    redis.kill();
    eventually("redis is lost", || store().is_some_and(|line| line.contains(" redis down, 0 of 1 workers connected")));
}

#[test]
fn the_limits_command_reads_and_changes_a_budget() {
    let gateway = Gateway::start(CONFIG);
    let address = gateway.admin.to_string();
    let remaining = |arguments: &[&str]| {
        let (code, out, err) = run(&[&["limits"], arguments, &[&address]].concat());
        assert_eq!(code, Some(0), "{err}");
        out.lines().nth(1).unwrap().split_whitespace().nth(1).unwrap().to_owned()
    };
    assert_eq!(remaining(&["get", "orders", "al ice/1"]), "5");
    assert_eq!(remaining(&["set", "orders", "al ice/1", "2"]), "2");
    assert_eq!(remaining(&["grant", "orders", "al ice/1", "1", "--rule", "orders"]), "3");
    assert_eq!(remaining(&["get", "orders", "al ice/1"]), "3");
    assert_eq!(remaining(&["reset", "orders", "al ice/1"]), "5");
    let (code, _, err) = run(&["limits", "get", "none", "x", &address]);
    assert!(
        code == Some(1) && err == "tollgate: unknown route `none`; routes with rules: `orders` (status 404)\n",
        "{err}"
    );
}
