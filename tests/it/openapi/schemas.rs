//! The schemas of the document, compared with responses of a running gateway: no response has a member that is not
//! documented, none lacks a required one, and every documented member occurs.

use serde_json::{Value, json};
use tollgate_test_support::registry::ConsulServer;

use super::checker::Checker;
use super::{TOKEN, admin};
use crate::api_keys::hash;
use crate::support::client::Connection;
use crate::support::eventually;
use crate::support::gateway::Gateway;
use crate::support::redis::Redis;
use crate::support::upstream::Upstream;

/// Gateway whose responses have all members, with the document to compare them with.
struct Scenario {
    gateway: Gateway,
    checker: Checker,
}

impl Scenario {
    fn new(gateway: Gateway) -> Self {
        let document = Connection::open(admin(&gateway)).request("GET", "/openapi.json", &[AUTHORIZATION], b"").json();
        Self { gateway, checker: Checker::new(document) }
    }

    /// Sends a request to `target`, which has the form of `path` in the document, and compares the response.
    fn send(&mut self, method: &str, path: &str, target: &str, body: &Value, status: u16) -> Value {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let mut connection = Connection::open(admin(&self.gateway));
        let response = connection.request(method, target, &[AUTHORIZATION], body.as_bytes());
        assert_eq!(response.status, status, "{method} {target}: {}", response.text());
        let body = response.json();
        self.checker.check(method, path, status, &body);
        body
    }

    fn shown(&self, path: &str) -> String {
        Connection::open(admin(&self.gateway)).request("GET", path, &[AUTHORIZATION], b"").text()
    }

    fn get(&mut self, path: &str) {
        self.send("GET", path, path, &Value::Null, 200);
    }
}

/// Documented members that no response of the scenario has. A running gateway knows the routes of its locator.
const UNSEEN: [&str; 1] = ["explain 200.lacks-locator-routes"];

const AUTHORIZATION: (&str, &str) = ("Authorization", TOKEN);

/// Paths of reads without variables that return JSON.
const READS: [&str; 22] = [
    "/health/live",
    "/health/ready",
    "/api/limits",
    "/api/overrides",
    "/api/top",
    "/api/explain",
    "/api/routes",
    "/api/upstreams",
    "/api/breakers",
    "/api/config",
    "/api/log",
    "/openapi.json",
    "/actuator",
    "/actuator/health",
    "/actuator/health/liveness",
    "/actuator/health/readiness",
    "/actuator/gateway",
    "/actuator/gateway/routes",
    "/actuator/gateway/routedefinitions",
    "/actuator/gateway/routefilters",
    "/actuator/gateway/routepredicates",
    "/actuator/gateway/globalfilters",
];

fn yaml(redis: &Redis, consul: &ConsulServer) -> String {
    format!(
        "spring.cloud:
  consul: {{host: 127.0.0.1, port: {}}}
tollgate:
  server: {{address: 127.0.0.1, workers: 1}}
  access-log: {{output: off}}
  redis: {{url: '{}', timeout: 5s}}
  api-keys: {{redis-hash: keys}}
  management:
    server: {{address: 0.0.0.0}}
    tokens: [{{name: ops, role: write, token: write-token-of-16-bytes}}]
    endpoint: {{gateway: {{access: unrestricted}}}}
    endpoints: {{web: {{exposure: {{include: '*'}}}}}}
    readiness: {{redis: true}}
    on-traffic-port: true
  globalcors: {{corsConfigurations: {{'[/orders/**]': {{allowedOrigins: 'https://shop'}}}}}}
  upstreams:
    pool: {{endpoints: ['http://127.0.0.1:1', 'http://127.0.0.1:2']}}
    checked: {{endpoints: ['http://127.0.0.1:1'], health: {{path: /}}}}
  routes:
    - {{id: pool, uri: 'lb://pool', predicates: [Path=/pool], filters: [{{name: CircuitBreaker, args: {{name: pool}}}}]}}
    - {{id: checked, uri: 'lb://checked', predicates: [Path=/checked]}}
    - {{id: keyed, uri: 'echo:', predicates: [Path=/keyed], filters: [ApiKey]}}
    - {{id: listed, uri: 'lb://listed', predicates: [Path=/listed]}}
    - {{id: status, uri: 'lb://pool', predicates: [Path=/status], filters: [{{name: RequestSize, args: {{maxSize: 1}}}}]}}
    - id: leased
      uri: 'echo:'
      predicates: [Path=/leased]
      filters: [{{name: RequestRateLimiter, args: {{key-resolver: ip, replenish-rate: 1, burst-capacity: 2, lease: 1s}}}}]
    - id: orders
      uri: 'echo:'
      predicates: ['Path=/orders/{{id}}']
      metadata: {{owner: shop}}
      filters:
        - name: RequestRateLimiter
          args:
            key-resolver: 'header:x-key'
            plan-resolver: {{table: {{alice: gold}}}}
            plans:
              gold: {{algorithm: fixed-window, limit: 1, window: 1h, when: [{{not: Method=PUT}}]}}
              silver: {{algorithm: fixed-window, limit: 1, window: 1h, when: [Method=PUT]}}
            limits:
              - {{name: second, replenish-rate: 1, burst-capacity: 2, when: [{{not: Method=PUT}}]}}
              - {{name: sold, algorithm: quota, allowance: 100, enforce-percent: 50, when: [{{not: Method=PUT}}]}}
              - {{name: paced, algorithm: leaky-bucket, rate: 1, max-wait: 1s, mode: observe}}
",
        consul.address.port(),
        redis.url()
    )
}

const EXPLAIN: &str = "/api/explain";
const LIMIT: &str = "/api/limits/{route}/{key}";
const OVERRIDE: &str = "/api/overrides/{route}/{key}";

#[test]
fn every_response_has_the_members_of_its_schema() {
    let redis = Redis::start();
    let listed = Upstream::ok("listed");
    let consul = ConsulServer::start();
    consul.register("listed", "a", listed.address, json!({"Meta": {"zone": "eu"}}));
    let mut all = Scenario::new(Gateway::start(&yaml(&redis, &consul)));
    eventually("it is ready", || all.gateway.admin("/health/ready").status == 200);
    for key in ["alice", "bob", &"long".repeat(50)] {
        for _ in 0..5 {
            all.gateway.connect().request("GET", "/orders/1", &[("x-key", key)], b"");
        }
    }
    (0..5).for_each(|_| drop(all.gateway.get("/pool")));
    all.gateway.get("/listed");
    all.keys(&redis);
    all.limits();
    all.states();
    all.dry_runs();
    for path in READS {
        all.get(path);
    }
    for (path, target) in [
        ("/api/routes/{id}", "/api/routes/orders"),
        ("/actuator/gateway/routes/{id}", "/actuator/gateway/routes/orders"),
        ("/actuator/gateway/routes/{id}/combinedfilters", "/actuator/gateway/routes/orders/combinedfilters"),
        ("/api/top", "/api/top?verdict=all"),
    ] {
        all.send("GET", path, target, &Value::Null, 200);
    }
    all.send("PUT", "/api/log", "/api/log", &json!({"level": "info"}), 200);
    all.reloads();
    drop(redis);
    all.without_redis();
    assert_eq!(all.checker.finish(), UNSEEN, "documented, but in no response");
}

impl Scenario {
    /// Lists API keys, more than one page of them, and changes some.
    fn keys(&mut self, redis: &Redis) {
        let alice = hash("test");
        let entry = json!({"id": "alice", "plan": "gold", "expires": "2099-01-01T00:00:00Z", "routes": ["keyed"]});
        let mut fields = vec![alice, entry.to_string()];
        fields.extend((0..3_000).flat_map(|n| [format!("{n:064x}"), json!({"id": format!("k{n}")}).to_string()]));
        let command: Vec<&str> = ["HSET", "keys"].into_iter().chain(fields.iter().map(String::as_str)).collect();
        redis.query::<i64>(&command).unwrap();
        self.gateway.connect().request("GET", "/keyed", &[("x-api-key", "test")], b"");
        self.get("/api/keys");
        self.send("GET", "/api/keys", "/api/keys?id=alice", &Value::Null, 200);
        for change in ["disable", "enable"] {
            self.send(
                "POST",
                &format!("/api/keys/{{id}}/{change}"),
                &format!("/api/keys/alice/{change}"),
                &Value::Null,
                200,
            );
        }
    }

    /// Reads and changes limits and their overrides.
    fn limits(&mut self) {
        self.send("GET", LIMIT, "/api/limits/orders/alice", &Value::Null, 200);
        self.send("PUT", LIMIT, "/api/limits/orders/bob", &json!({"rule": "sold", "grant": 5}), 200);
        self.send("PUT", LIMIT, "/api/limits/leased/bob", &json!({"remaining": 1}), 200);
        let numbers =
            json!({"rule": "second", "replenish-rate": 2, "burst-capacity": 3, "period": "1s", "expires-in": "1h"});
        let paced =
            json!({"rule": "paced", "rate": 2, "period": "2s", "max-wait": "3s", "max-queue": 4, "expires-in": "1h"});
        for (target, body) in [
            ("/api/overrides/orders/alice", numbers),
            ("/api/overrides/orders/bob", json!({"rule": "second", "unlimited": true, "expires-in": "1h"})),
            ("/api/overrides/orders/eve", json!({"rule": "second", "block": true, "expires-in": "1h"})),
            ("/api/overrides/orders/eve", json!({"rule": "sold", "allowance": 9, "expires-in": "1h"})),
            ("/api/overrides/orders/alice", json!({"plan": "gold", "limit": 9, "expires-in": "1h"})),
            ("/api/overrides/orders/alice", paced),
        ] {
            self.send("PUT", OVERRIDE, target, &body, 200);
        }
        let every = json!({"rule": "sold", "unlimited": true, "expires-in": "1h"});
        self.send("PUT", "/api/overrides/{route}", "/api/overrides/orders", &every, 200);
        for key in ["alice", "bob", "eve"] {
            self.send("GET", LIMIT, &format!("/api/limits/orders/{key}"), &Value::Null, 200);
            let batch = json!({"rule": "second", "keys": [{"key": key}, {"key": "carol"}]});
            self.send("POST", "/api/limits/{route}", "/api/limits/orders", &batch, 200);
        }
        let sold = json!({"rule": "sold", "keys": [{"key": "alice", "grant": 1}]});
        self.send("POST", "/api/limits/{route}", "/api/limits/orders", &sold, 200);
        let gold = json!({"plan": "gold", "keys": [{"key": "alice"}]});
        self.send("POST", "/api/limits/{route}", "/api/limits/orders", &gold, 200);
        self.get("/api/overrides");
        self.explain("/orders/1");
        self.send("DELETE", LIMIT, "/api/limits/orders/bob", &Value::Null, 200);
        self.send("DELETE", OVERRIDE, "/api/overrides/orders/alice?plan=gold", &Value::Null, 200);
        self.send("DELETE", OVERRIDE, "/api/overrides/orders/bob?rule=second", &Value::Null, 200);
        self.send("DELETE", "/api/overrides/{route}", "/api/overrides/orders?rule=sold", &Value::Null, 200);
    }

    /// Drains an endpoint, and forces a breaker open.
    fn states(&mut self) {
        let (drain, target) =
            ("/api/upstreams/{upstream}/drains/{endpoint}", "/api/upstreams/pool/drains/http://127.0.0.1:1");
        let (breaker, pool) = ("/api/breakers/{name}", "/api/breakers/pool");
        self.send("PUT", drain, target, &json!({"expires-in": "1h"}), 200);
        self.send("PUT", breaker, pool, &json!({"state": "open", "expires-in": "1h"}), 200);
        eventually("a health check fails", || self.shown("/api/upstreams").contains("check-error"));
        self.get("/api/upstreams");
        self.get("/api/breakers");
        self.explain("/pool");
        self.explain("/checked");
        self.send("DELETE", drain, target, &Value::Null, 200);
        self.send("DELETE", breaker, pool, &Value::Null, 200);
    }

    fn explain(&mut self, url: &str) {
        let target = format!("{EXPLAIN}?url={url}&header=x-key:alice&header=origin:https://shop");
        self.send("GET", EXPLAIN, &target, &Value::Null, 200);
    }

    /// Requests that are refused, that the gateway answers, that match no route, and that hit a limit.
    fn dry_runs(&mut self) {
        for url in ["/../x", "/actuator/health", "/status", "/nowhere", "/orders/1", "/listed"] {
            self.explain(url);
        }
        let large = format!("{EXPLAIN}?url=/status&method=POST&header=content-length:9");
        self.send("GET", EXPLAIN, &large, &Value::Null, 200);
    }

    fn reloads(&mut self) {
        let reload = "/api/reload";
        let file = self.gateway.config().to_owned();
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, text.replace("allowance: 100", "allowance: many")).unwrap();
        self.send("POST", reload, reload, &Value::Null, 422);
        self.get("/api/config");
        std::fs::write(&file, text.replace("workers: 1", "workers: 2")).unwrap();
        self.send("POST", reload, reload, &Value::Null, 200);
        self.get("/api/config");
    }

    fn without_redis(&mut self) {
        let ready = "/health/ready";
        eventually("Redis is lost", || self.gateway.admin(ready).status == 503);
        self.send("GET", ready, ready, &Value::Null, 503);
        self.send("GET", "/actuator/health", "/actuator/health", &Value::Null, 503);
        self.send("GET", "/actuator/health/readiness", "/actuator/health/readiness", &Value::Null, 503);
        self.get("/api/config");
        self.explain("/orders/1");
        self.send("GET", LIMIT, "/api/limits/orders/alice", &Value::Null, 503);
        let batch = json!({"rule": "second", "keys": [{"key": "alice"}]});
        self.send("POST", "/api/limits/{route}", "/api/limits/orders", &batch, 503);
    }
}
