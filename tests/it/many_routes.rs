//! Configurations with many routes.

use std::fmt::Write as _;

use serde_json::Value;
use tollgate_test_support::registry::ConsulServer;

use crate::support::eventually;
use crate::support::gateway::Gateway;

/// A file with `count` limited routes, whose ids begin with `prefix`.
fn routes(prefix: &str, count: usize, workers: usize) -> String {
    let limiter = "{name: RequestRateLimiter, args: {key-resolver: ip, replenish-rate: 100, burst-capacity: 100}}";
    (0..count).fold(format!("server: {{workers: {workers}}}\nroutes:\n"), |mut text, at| {
        let predicates = format!("predicates: [Path=/s{at}/**, Method=GET]");
        let _ = writeln!(text, "  - {{id: {prefix}{at}, uri: 'echo:', {predicates}, filters: [{limiter}]}}");
        text
    })
}

#[test]
fn a_reload_of_many_routes_delays_no_probe() {
    let gateway = Gateway::start(&routes("a", 1_500, 2));
    let text = std::fs::read_to_string(gateway.config()).unwrap();
    std::fs::write(gateway.config(), text.replace("id: a", "id: b")).unwrap();
    gateway.signal("HUP");
    let mut probes = 0;
    while !gateway.log().contains("configuration reloaded") {
        assert_eq!(gateway.admin("/actuator/health/readiness").status, 200);
        probes += 1;
    }
    // While the thread of the admin port reads the file, it serves two at most.
    assert!(probes >= 20, "{probes} probes during a reload");
    eventually("the new routes are served", || gateway.admin("/actuator/gateway/routes/b7").status == 200);
    assert_eq!(gateway.get("/s1499/x").status, 200);
}

#[test]
fn an_idle_route_takes_no_memory_on_a_worker() {
    const ROUTES: usize = 1_500;
    let [few, many] = [1, 8].map(|workers| Gateway::start(&routes("a", ROUTES, workers)));
    let each = many.allocated().saturating_sub(few.allocated()) / ROUTES / 7;
    assert!(each < 1_000, "{each} bytes for each route and worker");
    assert_eq!(many.get("/s7/x").status, 200);
}

#[test]
fn memory_returns_after_a_reload() {
    let gateway = Gateway::start(&routes("a", 1_500, 2));
    let text = std::fs::read_to_string(gateway.config()).unwrap();
    let at_start = gateway.allocated();
    // Six configurations that stay in use would take more than four times as much. The allocator lays the blocks of later ones
    // less densely: the last one was seen to take 1.2 to 2 times as much.
    for id in ["id: a", "id: a", "id: a", "id: b", "id: c", "id: d"] {
        std::fs::write(gateway.config(), text.replace("id: a", id)).unwrap();
        let reloads = gateway.log().matches("configuration reloaded").count();
        gateway.signal("HUP");
        eventually("the configuration is reloaded", || {
            gateway.log().matches("configuration reloaded").count() > reloads
        });
        eventually("the memory of the configurations before is returned", || gateway.allocated() < at_start * 3);
    }
}

#[test]
fn metrics_of_removed_routes_end_after_the_next_scrape() {
    let route = |round: usize| {
        let limiter = "{name: RequestRateLimiter, args: {key-resolver: ip, replenish-rate: 9, burst-capacity: 9}}";
        let concurrency = "{name: ConcurrencyLimiter, args: {key-resolver: ip, limit: 9}}";
        let filters = format!("[Retry=1, {concurrency}, {limiter}]");
        let uri = format!("http://127.0.0.{}:9", round + 1);
        format!("routes: [{{id: r{round}-, uri: '{uri}', predicates: [Path=/**], filters: {filters}}}]\n")
    };
    let gateway = Gateway::start(&route(0));
    let lines_of = |round: usize| {
        let (id, host) = (format!("\"r{round}-\""), format!("127.0.0.{}:9\"", round + 1));
        let page = gateway.admin("/metrics").text();
        page.lines().filter(|line| line.contains(&id) || line.contains(&host)).count()
    };
    for round in 1..10 {
        assert_ne!(gateway.get("/").status, 404);
        gateway.reload(&route(round));
    }
    assert!(lines_of(9) > 10, "series of the running configuration");
    for round in 0..9 {
        eventually("the workers drop the routes before, and a scrape has shown their last values", || {
            lines_of(round) == 0
        });
    }
    assert!(lines_of(9) > 10);
}

#[test]
fn metrics_of_removed_upstreams_and_services_end_after_the_next_scrape() {
    let consul = ConsulServer::start();
    let yaml = |round: usize| {
        consul.register(&format!("s{round}-"), &format!("i{round}"), ([127, 0, 0, 1], 9).into(), Value::Null);
        format!(
            "consul: {{host: 127.0.0.1, port: {}}}\nupstreams: {{u{round}-: {{endpoints: ['http://127.0.0.{}:9']}}}}\nroutes:\n\
             - {{id: listed, uri: 'lb://u{round}-', predicates: [Path=/listed]}}\n\
             - {{id: found, uri: 'lb://s{round}-', predicates: [Path=/found]}}\n",
            consul.address.port(),
            round + 1
        )
    };
    let gateway = Gateway::start(&yaml(0));
    let lines_of = |round: usize| {
        let page = gateway.admin("/metrics").text();
        ["\"u", "\"s"].map(|start| {
            let name = format!("{start}{round}-\"");
            page.lines().filter(|line| line.contains(&name) || line.contains(&name.replacen('"', "lb://", 1))).count()
        })
    };
    for round in 1..6 {
        for path in ["/listed", "/found"] {
            eventually("the endpoint refuses the connection", || gateway.get(path).status == 502);
        }
        gateway.reload(&yaml(round));
    }
    eventually("series of the running configuration", || lines_of(5).iter().all(|lines| *lines > 3));
    for round in 0..5 {
        eventually("the upstreams before are dropped, and a scrape has shown their last values", || {
            lines_of(round) == [0, 0]
        });
    }
}
