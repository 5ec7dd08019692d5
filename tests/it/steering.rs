//! Changes of a running gateway for a while: drained endpoints and forced circuit breakers.

use std::io::Write;
use std::sync::Mutex;
use std::sync::mpsc::channel;

use serde_json::Value;

use crate::support::client::Connection;
use crate::support::gateway::{Gateway, run};
use crate::support::upstream::{Upstream, read_request, response};
use crate::support::{PATIENCE, eventually};

fn change(gateway: &Gateway, method: &str, path: &str, body: &str) -> (u16, Value) {
    let answer = Connection::open(gateway.admin).request(method, path, &[], body.as_bytes());
    if answer.status >= 400 {
        assert_eq!(answer.header("content-type"), Some("application/problem+json"), "{path} {body}");
    }
    (answer.status, answer.json())
}

/// Two workers, an upstream with `endpoints` and a route to it with a circuit breaker that opens at `failure_rate` percent.
fn yaml(endpoints: &[&Upstream], failure_rate: u8) -> String {
    let uris: Vec<String> = endpoints.iter().map(|endpoint| format!("'{}'", endpoint.uri())).collect();
    format!(
        "server: {{address: 127.0.0.1, port: 0, workers: 2}}\naccess-log: {{output: off}}\n\
         resilience4j:\n  circuitbreaker: {{instances: {{shop: {{failure-rate-threshold: {failure_rate}}}}}}}\n\
         \x20 timelimiter: {{configs: {{default: {{timeout-duration: 60s}}}}}}\n\
         upstreams: {{shop: {{endpoints: [{}]}}}}\n\
         routes:\n  - {{id: shop, uri: 'lb://shop', predicates: [Path=/**], filters: [{{name: CircuitBreaker, args: {{name: shop}}}}]}}\n",
        uris.join(", ")
    )
}

fn state(gateway: &Gateway, upstream: &Upstream) -> String {
    let upstreams = gateway.admin("/api/upstreams").json();
    let endpoints = upstreams[0]["endpoints"].as_array().unwrap().clone();
    let found = endpoints.iter().find(|endpoint| endpoint["endpoint"] == *upstream.uri()).unwrap();
    assert_eq!(found["state"] == "drained", found["drained-for-ms"].as_u64().is_some(), "{found}");
    found["state"].as_str().unwrap().to_owned()
}

/// Sends requests on several connections, which the workers share. Returns the statuses.
fn statuses(gateway: &Gateway, count: usize) -> Vec<u16> {
    let mut statuses: Vec<u16> = (0..count).map(|_| gateway.get("/x").status).collect();
    statuses.dedup();
    statuses
}

#[test]
fn a_drained_endpoint_ends_its_requests_and_gets_no_new_one_until_its_time_is_over() {
    let (go, gone) = channel::<()>();
    let gone = Mutex::new(gone);
    let old = Upstream::scripted(move |stream, seen| {
        while let Some(request) = read_request(stream) {
            let waits = request.target() == "/wait";
            seen(request);
            if waits {
                let _ = gone.lock().unwrap().recv_timeout(PATIENCE);
            }
            if stream.write_all(&response(200, &[], b"old")).is_err() {
                return;
            }
        }
    });
    let new = Upstream::ok("new");
    let gateway = Gateway::start(&yaml(&[&old, &new], 50));
    eventually("it is ready", || gateway.admin("/health/ready").status == 200);
    let mut waiting = Vec::new();
    while !old.targets().iter().any(|target| target == "/wait") {
        let mut client = gateway.connect();
        client.send("GET /wait HTTP/1.1\r\nHost: a\r\n\r\n");
        waiting.push(client);
        let sent = waiting.len();
        eventually("it has arrived", || {
            let count = |upstream: &Upstream| upstream.targets().iter().filter(|target| *target == "/wait").count();
            count(&old) + count(&new) == sent
        });
    }
    let path = format!("/api/upstreams/shop/drains/{}", old.uri());
    let (status, drained) = change(&gateway, "PUT", &path, "{\"expires-in\": \"1h\"}");
    assert_eq!((status, state(&gateway, &old).as_str()), (200, "drained"), "{drained}");
    let before = old.requests().len();
    assert_eq!(statuses(&gateway, 40), [200]);
    assert_eq!(old.requests().len(), before, "no new request");
    assert_eq!(gateway.metric("tollgate_upstream_endpoints{", &["state=\"drained\""]), 1.0);
    let (admin, uri) = (gateway.admin.to_string(), old.uri());
    std::thread::scope(|scope| {
        let (ended, ends) = channel();
        let command = ["drain", "shop", &uri, "--for", "1h", "--wait", &admin];
        scope.spawn(move || ended.send(run(&command)).unwrap());
        let of_command = || gateway.log().matches("drained for 1h").count() == 2;
        eventually("the command has drained it", of_command);
        assert!(ends.try_recv().is_err(), "a request is in flight");
        go.send(()).unwrap();
        let (code, out, err) = ends.recv_timeout(PATIENCE).unwrap();
        assert!(code == Some(0) && out.contains("drained") && out.contains("IN FLIGHT"), "{out}{err}");
    });
    let answer = waiting.last_mut().unwrap().response().unwrap();
    assert_eq!((answer.status, answer.text().as_str()), (200, "old"), "its request ends");
    let line = gateway.logged("change requested on the admin port");
    assert!(line.contains(&format!("endpoint {} of shop drained for 1h", old.uri())), "{line}");

    gateway.reload(&yaml(&[&new, &old], 70));
    assert!(gateway.log().contains("configuration reloaded"), "{}", gateway.log());
    assert_eq!(state(&gateway, &old), "drained", "a reload keeps it");
    assert_eq!(statuses(&gateway, 10), [200]);
    assert_eq!(old.requests().len(), before);

    let new_uri = new.uri();
    let (code, _, err) = run(&["drain", "shop", &new_uri, "--for", "1h", &admin]);
    assert!(code == Some(1) && err.contains("--allow-last drains the last one"), "{err}");
    let other = format!("/api/upstreams/shop/drains/{new_uri}");
    let (status, refused) = change(&gateway, "PUT", &other, "{\"expires-in\": \"1h\"}");
    assert_eq!((status, state(&gateway, &new).as_str()), (409, "up"), "{refused}");
    let (status, _) = change(&gateway, "PUT", &other, "{\"expires-in\": \"1h\", \"allow-last\": true}");
    assert_eq!((status, statuses(&gateway, 10)), (200, vec![503]));
    assert_eq!(change(&gateway, "DELETE", &other, "").0, 200);
    assert_eq!(change(&gateway, "DELETE", &other, "").0, 200, "it is not drained already");
    assert_eq!((state(&gateway, &new).as_str(), statuses(&gateway, 10)), ("up", vec![200]));

    assert_eq!(change(&gateway, "PUT", &path, "{\"expires-in\": \"1s\"}").0, 200, "sooner");
    eventually("the drain ends", || state(&gateway, &old) == "up");
    gateway.logged("endpoint drain ended");
    eventually("it gets requests", || gateway.get("/x").text() == "old");
}

#[test]
fn a_forced_breaker_takes_effect_at_once_and_returns_to_its_own_state() {
    let upstream = Upstream::ok("shop");
    let gateway = Gateway::start(&yaml(&[&upstream], 50));
    eventually("it is ready", || gateway.admin("/health/ready").status == 200);
    let force = |state: &str, time: &str| {
        let body = format!("{{\"state\": \"{state}\", \"expires-in\": \"{time}\"}}");
        change(&gateway, "PUT", "/api/breakers/shop", &body)
    };
    assert_eq!(statuses(&gateway, 10), [200]);
    let (status, forced) = force("open", "10m");
    assert_eq!((status, forced["state"].as_str()), (200, Some("open")), "{forced}");
    assert!((599_000..=600_000).contains(&forced["forced-for-ms"].as_u64().unwrap()), "{forced}");
    let refused = gateway.get("/x");
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("600")));
    let before = upstream.requests().len();
    assert_eq!(statuses(&gateway, 20), [503], "on every worker");
    assert_eq!(upstream.requests().len(), before);
    let forced = || gateway.metric("tollgate_circuit_breaker_forced{", &["name=\"shop\""]);
    let open = || gateway.metric("tollgate_circuit_breaker_state{", &["name=\"shop\"", "state=\"open\""]);
    assert_eq!((forced(), open()), (1.0, 1.0));
    let line = gateway.logged("change requested on the admin port");
    assert!(line.contains("circuit breaker shop forced open for 10m"), "{line}");
    let admin = gateway.admin.to_string();
    let (code, out, _) = run(&["breaker", "shop", "--end", &admin]);
    assert_eq!((code, out.as_str(), forced()), (Some(0), "shop: closed\n", 0.0));
    let (code, out, _) = run(&["breaker", "shop", "--force", "open", "--for", "10m", &admin]);
    assert_eq!((code, out.as_str(), forced()), (Some(0), "shop: open, forced for 10 min\n", 1.0));
    let (code, _, err) = run(&["breaker", "none", "--end", &admin]);
    assert!(
        code == Some(1) && err.contains("unknown circuit breaker `none`; breakers that were used: `shop`"),
        "{err}"
    );

    gateway.reload(&yaml(&[&upstream], 50));
    assert_eq!(statuses(&gateway, 10), [503], "a reload keeps it");
    gateway.reload(&yaml(&[&upstream], 70));
    assert!(!gateway.log().contains("not reloaded"), "{}", gateway.log());
    assert_eq!(statuses(&gateway, 10), [503], "so does one with other rules");
    assert_eq!(force("closed", "10m").1["state"], "closed");
    assert_eq!(statuses(&gateway, 10), [200]);
    let (status, released) = change(&gateway, "DELETE", "/api/breakers/shop", "");
    assert_eq!((status, &released["state"], &released["forced-for-ms"]), (200, &"closed".into(), &Value::Null));
    assert_eq!((forced(), open()), (0.0, 0.0));
    force("open", "1s");
    eventually("its own state returns", || gateway.get("/x").status == 200);
    assert_eq!(gateway.admin("/api/breakers").json()[0]["state"], "closed");
}

#[test]
fn a_wrong_change_is_a_problem_and_changes_nothing() {
    let (upstream, other) = (Upstream::ok("shop"), Upstream::ok("shop"));
    let gateway = Gateway::start(&yaml(&[&upstream, &other], 50));
    let drain = format!("/api/upstreams/shop/drains/{}", upstream.uri());
    let long = format!("{{\"expires-in\": \"1m\", \"x\": \"{}\"}}", "y".repeat(5000));
    for body in ["", "[]", "5", "{", "{}", "\u{0}", "{\"expires-in\": 60}", "{\"expires-in\": \"60\"}", &long] {
        assert_eq!(change(&gateway, "PUT", &drain, body).0, 400, "{body}");
        assert_eq!(change(&gateway, "PUT", "/api/breakers/shop", body).0, 400, "{body}");
    }
    for body in [
        "{\"expires-in\": \"0s\"}",
        "{\"expires-in\": \"31d\"}",
        "{\"expires-in\": \"1m\", \"allow-last\": 1}",
        "{\"expires-in\": \"1m\", \"more\": 1}",
    ] {
        let (status, problem) = change(&gateway, "PUT", &drain, body);
        let detail = problem["detail"].as_str().unwrap();
        assert!(status == 400 && detail.starts_with("the body must be {\"expires-in\": \"15m\"}"), "{detail}");
    }
    let half_open = "{\"state\": \"half_open\", \"expires-in\": \"1m\"}";
    assert_eq!(change(&gateway, "PUT", "/api/breakers/shop", half_open).0, 400);
    let (body, open) = ("{\"expires-in\": \"1m\"}", "{\"state\": \"open\", \"expires-in\": \"1m\"}");
    for (method, path, body) in [
        ("PUT", "/api/upstreams/none/drains/x", body),
        ("PUT", "/api/upstreams/shop/drains/http://127.0.0.1:2", body),
        ("DELETE", "/api/upstreams/shop/drains/x", ""),
        ("PUT", "/api/breakers/none", open),
        ("DELETE", "/api/breakers/none", ""),
        ("PUT", "/api/upstreams/shop", body),
    ] {
        assert_eq!(change(&gateway, method, path, body).0, 404, "{method} {path}");
    }
    assert_eq!(change(&gateway, "PUT", "/api/breakers/", open).0, 405);
    assert_eq!(state(&gateway, &upstream), "unknown", "nothing has asked it");
    eventually("one of the requests reaches it", || {
        assert_eq!(gateway.get("/x").status, 200);
        state(&gateway, &upstream) == "up"
    });
    for path in [
        "/api/upstreams?name=shop",
        "/api/breakers?x",
        "/api/config?a=b",
        "/api/overrides?route=shop",
        "/api/routes?id=a",
    ] {
        let problem = gateway.admin(path);
        assert_eq!((problem.status, problem.header("content-type")), (400, Some("application/problem+json")), "{path}");
    }
    assert_eq!((gateway.admin("/metrics?x=1").status, gateway.admin("/actuator/health?x=1").status), (200, 200));
    assert_eq!(gateway.admin("/api/breakers").json()[0]["state"], "closed");
    assert!(!gateway.log().contains("drained for"));
}
