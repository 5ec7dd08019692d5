//! Whole application.yml files, as written for Spring Cloud Gateway, each with a transcript that is replayed.
//!
//! `NAME.transcript` accompanies `NAME.yml`: shell commands after `$ `, each with its output. Placeholders that end in
//! `_URL` lead to upstreams with that name, which answer with the request that they received.

use std::path::PathBuf;
use std::process::Command;

use crate::support::gateway::{Gateway, TOLLGATE};
use crate::support::redis::Redis;
use crate::support::upstream::{Request, Upstream, response};

fn folder() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "data", "spring"].iter().collect()
}

/// Returns the names of placeholders for upstreams: `ORDERS_URL` of `${ORDERS_URL:http://orders:8080}`.
fn placeholders(yaml: &str) -> Vec<String> {
    let mut names: Vec<String> = yaml
        .split("${")
        .skip(1)
        .filter_map(|rest| rest.split([':', '}']).next())
        .filter(|name| name.ends_with("_URL"))
        .map(str::to_owned)
        .collect();
    names.sort();
    names.dedup();
    names
}

/// Starts an upstream that answers with its name, the request line, and the fields that a filter may have changed. The
/// query or path of the request selects other behaviour.
fn upstream(name: &str) -> Upstream {
    let name = name.to_owned();
    let answer = move |request: &Request| -> Vec<u8> {
        let (method, target) = (request.line.split(' ').next().unwrap_or_default(), request.target());
        let mut body = format!("{name}: {method} {target}\n");
        let mut fields: Vec<(String, &str)> =
            request.headers.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.as_str())).collect();
        fields.sort();
        for (field, value) in fields {
            let mine = field.starts_with("x-") && !value.contains("127.0.0.1");
            if mine || field == "host" && !value.starts_with("127.0.0.1") {
                body.push_str(&format!("  {field}: {value}\n"));
            }
        }
        if target.contains("fail") {
            return response(503, &[], body.as_bytes());
        }
        if target.contains("json") {
            let json = br#"{"id":7,"password":"p","keys":[{"secret":"s","kind":"api"}]}"#;
            return response(200, &[("Content-Type", "application/json")], json);
        }
        if request.header("upgrade").is_some() {
            let head = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
            return format!("{head}{name}: tunnel to {target}\n").into_bytes();
        }
        let fields = [
            ("Content-Type", "text/plain"),
            ("Access-Control-Allow-Origin", "*"),
            ("X-Powered-By", "PHP/5.6"),
            ("X-Trace", "user=ann&password=sesam&n=1"),
            ("Location", "http://backend:8080/v1/files/7"),
        ];
        response(200, &fields, body.as_bytes())
    };
    // The tunnel closes as soon as the upstream has sent everything.
    Upstream::scripted(move |stream, seen| {
        use std::io::Write;
        while let Some(request) = crate::support::upstream::read_request(stream) {
            let (bytes, upgraded) = (answer(&request), request.header("upgrade").is_some());
            seen(request);
            if stream.write_all(&bytes).is_err() || upgraded {
                return;
            }
        }
    })
}

fn replay(name: &str) {
    let yaml = std::fs::read_to_string(folder().join(format!("{name}.yml"))).unwrap();
    let transcript = std::fs::read_to_string(folder().join(format!("{name}.transcript"))).unwrap();
    let redis = yaml.contains("REDIS_PORT").then(Redis::start);
    let mut environment: Vec<(String, String)> = Vec::new();
    if let Some(redis) = &redis {
        environment.push(("REDIS_HOST".to_owned(), "127.0.0.1".to_owned()));
        environment.push(("REDIS_PORT".to_owned(), redis.address.port().to_string()));
    }
    let names = placeholders(&yaml);
    let upstreams: Vec<Upstream> =
        names.iter().map(|name| upstream(&name.trim_end_matches("_URL").to_ascii_lowercase())).collect();
    for (name, upstream) in names.iter().zip(&upstreams) {
        let scheme = if name.contains("_WS_") { "ws" } else { "http" };
        environment.push((name.clone(), format!("{scheme}://{}", upstream.address)));
    }
    let environment: Vec<(&str, &str)> = environment.iter().map(|(name, value)| (&**name, &**value)).collect();
    let gateway = Gateway::start_with(&yaml, &environment);

    let mut replayed = String::new();
    for line in transcript.lines().filter(|line| line.starts_with(['$', '#'])) {
        replayed.push_str(&format!("{line}\n"));
        if let Some(command) = line.strip_prefix("$ ") {
            let command = command.replace("localhost:8080", &gateway.address.to_string());
            let output = Command::new("bash").args(["-c", &command]).output().unwrap();
            let printed = String::from_utf8_lossy(&output.stdout).replace('\r', "");
            replayed.push_str(&printed.replace(&gateway.address.to_string(), "localhost:8080"));
            if !replayed.ends_with('\n') {
                replayed.push('\n');
            }
        }
    }
    // Review it before committing: a transcript states the expected output.
    if std::env::var_os("TOLLGATE_TRANSCRIPTS").is_some() {
        std::fs::write(folder().join(format!("{name}.transcript")), &replayed).unwrap();
    }
    assert!(replayed == transcript, "{name}: it was\n{replayed}\n{}", gateway.log());
}

#[test]
fn a_shop_with_a_cache_a_breaker_retries_limits_and_cors() {
    replay("e-commerce");
}

#[test]
fn a_backend_for_frontends_with_a_websocket_under_the_old_root() {
    replay("bff");
}

#[test]
fn limits_for_each_tenant_in_dotted_and_indexed_keys() {
    replay("tenants");
}

#[test]
fn a_canary_by_weight() {
    replay("canary");
}

#[test]
fn old_addresses_before_new_services() {
    replay("legacy");
}

#[test]
fn a_route_to_a_name_without_a_registry_gets_503() {
    let routes = "spring.cloud.gateway.routes:\n\
                  - {id: orders, uri: 'lb://orders', predicates: [Path=/orders/**]}\n\
                  - {id: own, uri: 'no://op', predicates: [Path=/own], filters: [SetStatus=204]}\n";
    for (more, status) in [
        ("", 503),
        ("eureka.client.enabled: false\n", 503),
        ("eureka.client.fetch-registry: false\n", 503),
        ("spring.cloud.gateway.discovery.locator.enabled: true\n", 503),
        ("spring.cloud.gateway.loadbalancer.use404: true\n", 404),
    ] {
        let gateway = Gateway::start(&format!("{routes}{more}"));
        assert_eq!(gateway.get("/orders/1").status, status, "{more}");
        assert_eq!(gateway.get("/own").status, 204, "{more}");
        assert_eq!(gateway.admin("/health/ready").status, 200, "{more}");
        let warning =
            if more.contains("locator") { "needs a registry" } else { "unknown upstream `orders` and no registry" };
        assert!(gateway.log().contains(warning), "{more}: {}", gateway.log());
    }
}

#[test]
fn routes_of_one_id_count_apart() {
    let upstreams = ["one", "two"].map(upstream);
    let limiter = "filters: [{name: RequestRateLimiter, args: {key-resolver: ip, replenish-rate: 1, burst-capacity: 1, requested-tokens: 1}}]";
    let route =
        |at: usize| format!("- {{id: a, uri: '{}', predicates: [Path=/{at}/**], {limiter}}}\n", upstreams[at].uri());
    let gateway = Gateway::start(&format!("spring.cloud.gateway.routes:\n{}{}", route(0), route(1)));
    for (path, name, id) in [("/0/x", "one", "a"), ("/1/x", "two", "a@1")] {
        let response = gateway.get(path);
        assert_eq!(response.status, 200, "{path}");
        assert!(response.text().starts_with(name), "{path}: {}", response.text());
        let labels = [&*format!("routeId=\"{id}\"")];
        assert!(gateway.metric("spring_cloud_gateway_requests_seconds_count", &labels) >= 1.0, "{path}");
    }
}

#[test]
fn every_file_passes_check() {
    for entry in std::fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "yml") {
            let output = Command::new(TOLLGATE).args(["check", "--offline"]).arg(&path).output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
    }
}
