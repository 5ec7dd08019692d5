//! `tollgate explain` and `tollgate migrate`: their output matches the gateway's behaviour.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::support::gateway::{Gateway, TOLLGATE};
use crate::support::redis::Redis;
use crate::support::upstream::Upstream;

fn tollgate(arguments: &[&str]) -> Output {
    Command::new(TOLLGATE).args(arguments).env_clear().output().unwrap()
}

fn explained(file: &Path, method: &str, target: &str, fields: &[(&str, &str)]) -> Value {
    let fields: Vec<String> = fields.iter().map(|(name, value)| format!("-H{name}: {value}")).collect();
    let mut arguments = vec!["explain", file.to_str().unwrap(), method, target, "--json"];
    arguments.extend(fields.iter().map(String::as_str));
    let output = tollgate(&arguments);
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn explain_shows_the_request_to_the_upstream_and_the_redis_keys_of_traffic() {
    let (upstream, redis) = (Upstream::ok("ok"), Redis::start());
    let uri = upstream.uri();
    let gateway = Gateway::start(&format!(
        "redis: {{url: '{}', timeout: 5s, key-prefix: 'prod:'}}
default-filters: ['SetRequestHeader=X-Default, d', PreserveHostHeader]
routes:
- {{id: posts, uri: '{uri}', predicates: [Path=/orders/**, Method=POST]}}
- id: orders
  uri: {uri}
  predicates: ['Path=/api/{{kind}}/**']
  filters:
    - StripPrefix=1
    - RewritePath=/shoes/(?<id>.*), /items/$\\{{id}}
    - 'AddRequestHeader=X-Kind, {{kind}}'
    - {{name: RequestRateLimiter, args: {{replenish-rate: 10, burst-capacity: 20, key-resolver: [header:X-User, path]}}}}
    - name: RequestRateLimiter
      args:
        key-resolver: header:X-Kind
        limits: [{{name: a, replenish-rate: 1, burst-capacity: 5}}, {{name: b, algorithm: quota, allowance: 30}}]
    - {{name: ConcurrencyLimiter, args: {{limit: 2, key-resolver: method}}}}
- {{id: away, uri: '{uri}', predicates: [Path=/away], filters: ['RedirectTo=302, https://b.example/']}}
",
        redis.url()
    ));
    let fields = [("X-User", "ada lovelace"), ("Connection", "X-Gone"), ("X-Gone", "1")];
    for (number, (method, target)) in
        [("GET", "/api/shoes/7?full=1"), ("DELETE", "/api/hats//a%20b"), ("POST", "/orders/x")].into_iter().enumerate()
    {
        let explanation = explained(gateway.config(), method, target, &fields);
        let mut connection = gateway.connect();
        assert_eq!(connection.request(method, target, &fields, b"").status, 200);
        let request = &upstream.requests()[number];
        let route = &explanation["route"];
        let url = route["forwarded"]["url"].as_str().unwrap();
        assert_eq!(request.line, format!("{method} {} HTTP/1.1", url.strip_prefix(&uri).unwrap()));
        for (name, values) in route["forwarded"]["headers"].as_object().unwrap() {
            let values: Vec<&str> = values.as_array().unwrap().iter().map(|value| value.as_str().unwrap()).collect();
            assert_eq!(request.all(name), values, "{name} of {method} {target}");
        }
        let filters = route["filters"].as_array().unwrap();
        let keys = filters.iter().flat_map(|filter| filter["counted"].as_array().into_iter().flatten());
        let keys = keys.flat_map(|counted| counted["redis-keys"].as_array().unwrap());
        for key in keys.map(|key| key.as_str().unwrap()).filter(|key| !key.ends_with(".leases")) {
            assert_eq!(redis.query::<i64>(&["EXISTS", key]).unwrap(), 1, "{key}");
        }
    }
    let named = explained(gateway.config(), "GET", "/api/shoes/7", &fields).to_string();
    let there: BTreeSet<String> = redis.query(&["KEYS", "*"]).unwrap();
    assert!(there.iter().all(|key| key.starts_with("prod:")), "{there:?}");
    assert!(there.iter().filter(|key| key.contains("shoes")).all(|key| named.contains(key.as_str())), "{there:?}");

    let away = explained(gateway.config(), "GET", "/away", &fields);
    assert_eq!(away["route"]["answered"]["status"], 302);
    assert_eq!(gateway.get("/away").status, 302);
    let passed: Vec<&str> =
        away["passed-over"].as_array().unwrap().iter().map(|one| one["route"].as_str().unwrap()).collect();
    assert_eq!(passed, ["posts", "orders"]);
}

#[test]
fn explain_and_migrate_fail_with_documented_exit_codes() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let spring = file("a.yml", "spring.cloud.gateway.routes: [\"a=http://a,Path=/**\"]\n");
    let bad = file("bad.yml", "spring.cloud.gateway.routes: [\"a=nowhere,Path=/**\"]\n");
    let missing = folder.path().join("none.yml").to_str().unwrap().to_owned();
    let out = folder.path().join("out.yaml").to_str().unwrap().to_owned();
    for (arguments, code) in [
        (vec!["explain", &*spring, "GET", "/a"], 0),
        (vec!["explain", &*spring, "/a"], 0),
        (vec!["explain", &*spring, "--config", &*spring, "/a"], 0),
        (vec!["explain", "GET", &*spring, "--config", &*spring, "/a"], 2),
        (vec!["explain", &*bad, "GET", "/a"], 1),
        (vec!["explain", &*missing, "GET", "/a"], 2),
        (vec!["explain", &*spring, "GET", "/a", "-H", "no field"], 2),
        (vec!["explain", &*spring, "G ET", "/a"], 2),
        (vec!["migrate", &*spring, "-o", &*out], 0),
        (vec!["check", "--offline", &*out], 0),
        (vec!["migrate", &*bad], 1),
        (vec!["migrate", &*missing], 2),
        (vec!["migrate", &*spring, "-o", "/nowhere/at/all"], 2),
    ] {
        let output = tollgate(&arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {output:?}");
        assert_eq!(output.stderr.is_empty(), code == 0, "{arguments:?}");
    }
    let order = String::from_utf8(tollgate(&["explain", "GET", &spring, "/a"]).stderr).unwrap();
    assert_eq!(order, "tollgate: `GET` is the method: write FILE, METHOD and URL in this order\n");
    let text = String::from_utf8(tollgate(&["explain", &spring, "GET", "http://gw:80/a"]).stdout).unwrap();
    let without_method = tollgate(&["explain", &spring, "--config", &spring, "http://gw:80/a"]).stdout;
    assert_eq!(String::from_utf8(without_method).unwrap(), text);
    assert!(text.starts_with("route a: Path=/**\nforwarded: GET http://a/a\n"), "{text}");
}

/// Runs `explain --live` against the admin port of `gateway`.
fn explained_live(gateway: &Gateway, arguments: &[&str]) -> String {
    let admin = gateway.admin.to_string();
    let output = tollgate(&[&["explain"], arguments, &["--live", &admin]].concat());
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_running_gateway_explains_requests_with_the_state_of_their_keys() {
    let redis = Redis::start();
    let limiter = "name: RequestRateLimiter, args: {key-resolver: 'header:x-key', replenish-rate: 1, period: 1h, burst-capacity: 2";
    let gateway = Gateway::start(&format!(
        "redis: {{url: '{}', timeout: 5s}}
upstreams: {{shop: {{endpoints: ['http://127.0.0.1:1']}}}}
routes:
- {{id: memory, uri: 'echo:', predicates: [Path=/memory], filters: ['AddRequestHeader=X-Token, s3cret', 'AddRequestParameter=pass, s3cret', {{{limiter}, store: memory}}}}]}}
- {{id: redis, uri: 'echo:', predicates: [Path=/redis], filters: [{{{limiter}}}}}]}}
- {{id: shop, uri: 'lb://shop', predicates: [Path=/shop], filters: [{{name: CircuitBreaker, args: {{name: shop}}}}]}}
",
        redis.url()
    ));
    let ask = |path: &str| gateway.connect().request("GET", path, &[("x-key", "ada")], b"").status;
    for path in ["/memory", "/redis"] {
        let live = || {
            let answer = gateway.admin(&format!("/api/explain?url={path}%3Fa=b&header=X-Key:%20ada"));
            assert_eq!(answer.status, 200, "{}", answer.text());
            let filters = answer.json()["route"]["filters"].as_array().unwrap().clone();
            let counted = filters.last().unwrap()["counted"][0].clone();
            assert_eq!(counted["key-id"], "ada");
            (counted["live"].clone(), answer.text())
        };
        let (before, text) = live();
        assert_eq!(
            (&before["remaining"], &before["capacity"], &before["is-exceeded"]),
            (&2.into(), &2.into(), &false.into())
        );
        assert!(!text.contains("s3cret"), "{text}");
        assert_eq!([ask(path), ask(path), ask(path)], [200, 200, 429]);
        let (after, _) = live();
        assert_eq!((&after["remaining"], &after["is-exceeded"]), (&0.into(), &true.into()), "{path}: {after}");
        // A token comes back an hour after the first request.
        let retry_after_ms = after["retry-after-ms"].as_u64().unwrap();
        assert!((3_000_000..=3_600_000).contains(&retry_after_ms), "{path}: {after}");
        let shown = explained_live(&gateway, &["GET", path, "-Hx-key: ada"]);
        assert!(shown.contains("0 of 2") && shown.contains("LEFT  RETRY AFTER"), "{shown}");
    }
    let text = explained_live(&gateway, &["GET", "/memory?x=y", "-Hx-key: ada"]);
    for line in ["AddRequestHeader=X-Token, ****", "x-token: ****", "?x=y&pass=****"] {
        assert!(text.contains(line), "{text}");
    }
    assert_eq!(gateway.connect().request("GET", "/shop", &[], b"").status, 502);
    let text = explained_live(&gateway, &["GET", "/shop"]);
    assert!(
        text.contains("circuit breaker shop: ")
            && text.contains("127.0.0.1:1: failing, 0 in flight, 1 failed in a row, last at 2"),
        "{text}"
    );
}

#[test]
fn invalid_requests_to_explain_are_refused() {
    let gateway = Gateway::start("routes: [{id: a, uri: 'echo:', predicates: [Path=/**]}]");
    for (query, detail) in [
        ("colour=red", "unknown query parameter `colour`"),
        ("method=G%20T", "invalid request `G T /`"),
        ("url=%00", "invalid request"),
        ("header=none", "invalid header field `none`"),
        ("peer=here", "`peer` must be an IP address, got `here`"),
    ] {
        let answer = gateway.admin(&format!("/api/explain?{query}"));
        assert_eq!(answer.status, 400, "{query}");
        let problem = answer.json();
        assert!(problem["detail"].as_str().unwrap().starts_with(detail), "{problem}");
    }
    let admin = gateway.admin.to_string();
    for (arguments, code) in [
        (vec!["explain", "a.yaml", "GET", "/", "--live", &*admin], 2),
        (vec!["explain", "GET", "/", "--live", "127.0.0.1:1"], 1),
        (vec!["explain", "GET", "/", "--live", &*admin], 0),
    ] {
        assert_eq!(tollgate(&arguments).status.code(), Some(code), "{arguments:?}");
    }
}

#[test]
fn explain_names_the_sections_of_a_spring_file_that_are_not_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("application.yml");
    let text = "spring.cloud.gateway.routes: [{id: a, uri: 'http://a', predicates: [Path=/a]}]\n\
                jwt: {secret: abc}\nlogging: {level: info}\ncors: {origins: '*'}\n";
    std::fs::write(&file, text).unwrap();
    let output = tollgate(&["explain", file.to_str().unwrap(), "GET", "/a", "--json"]);
    let notes = String::from_utf8(output.stderr).unwrap();
    let skipped = "application.yml:2:1: note: sections at the top level that are the application's own are skipped: \
                   `jwt` (line 2), `cors` (line 4)\n";
    assert!(notes.contains(skipped) && !notes.contains("abc") && !notes.contains("logging"), "{notes}");
    assert_eq!(notes.matches("note:").count(), 1, "{notes}");
    let explanation: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(explanation["route"]["id"], "a");
    let output = tollgate(&["explain", file.to_str().unwrap(), "GET", "/other"]);
    let notes = String::from_utf8(output.stderr).unwrap();
    assert!(notes.ends_with("tollgate: settings that are not Tollgate's are skipped: logging\n"), "{notes}");
}

#[test]
fn a_running_gateway_names_them_too() {
    let gateway = Gateway::start(
        "spring.cloud.gateway.routes: [{id: a, uri: 'echo:', predicates: [Path=/a]}]\njwt: {secret: abc}\nlogging: {level: info}\n",
    );
    let admin = gateway.admin.to_string();
    let notes = |path: &str| {
        let output = tollgate(&["explain", "GET", path, "--live", &admin]);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let matched = notes("/a");
    assert!(matched.contains("the application's own are skipped:") && matched.contains("`jwt` (line "), "{matched}");
    assert_eq!(matched.lines().count(), 1, "{matched}");
    let unmatched = notes("/other");
    assert!(unmatched.contains("`jwt` (line ") && unmatched.contains("are skipped: logging"), "{unmatched}");
}
