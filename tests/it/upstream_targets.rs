//! Dynamic targets and upstreams with several endpoints use the same TLS, HTTP/2 and pool settings.

use tollgate_test_support::Certificates;

use crate::support::gateway::Gateway;
use crate::support::secure::{Keys, Server, ServerProtocol};

#[test]
fn a_dynamic_target_replaces_the_whole_target_of_the_route() {
    let made = Certificates::new();
    let secure = Server::echoing(ServerProtocol::tls(Keys::of(&made), &["h2", "http/1.1"]));
    let plain = Server::echoing(ServerProtocol::plain());
    let gateway = Gateway::start(&format!(
        "httpclient: {{tls: {{ca: {}}}}}\nroutes:\n\
         - id: set\n  uri: http://unused.invalid\n  predicates: ['Path=/set/{{item}}']\n  \
           filters: ['SetRequestUri={}/items/{{item}}?a=b']\n\
         - id: named\n  uri: http://unused.invalid\n  predicates: [Path=/named/**]\n  \
           filters: [RequestHeaderToRequestUri=X-Target]\n",
        made.ca().display(),
        secure.uri("https"),
    ));
    let (secure_host, plain_host) =
        (format!("localhost:{}", secure.address.port()), format!("localhost:{}", plain.address.port()));
    for _ in 0..3 {
        let answer = gateway.get("/set/7?c=d");
        assert_eq!(
            answer.text(),
            format!("HTTP/2.0 GET https://{secure_host}/items/7?a=b host=-"),
            "{}",
            gateway.log()
        );
    }
    assert_eq!(secure.connections(), 1);
    let target = |uri: String| gateway.connect().request("GET", "/named/x", &[("X-Target", &uri)], b"");
    assert_eq!(target(format!("http://{plain_host}/y?z")).text(), format!("HTTP/1.1 GET /y?z host={plain_host}"));
    assert_eq!(target(format!("http://{plain_host}")).text(), format!("HTTP/1.1 GET / host={plain_host}"));
    assert_eq!(
        target(format!("{}/s", secure.uri("https"))).text(),
        format!("HTTP/2.0 GET https://{secure_host}/s host=-")
    );
    assert_eq!((plain.connections(), secure.connections()), (1, 1));
    assert_eq!(target("http://127.0.0.1:1/refused".to_owned()).status, 502);
}

#[test]
fn a_route_without_an_upstream_sends_requests_whose_filters_name_one() {
    let plain = Server::echoing(ServerProtocol::plain());
    let gateway = Gateway::start(&format!(
        "routes:\n- {{id: set, uri: 'no://op', predicates: ['Path=/set/{{item}}'], filters: ['SetRequestUri={}/items/{{item}}']}}\n\
         - {{id: named, uri: 'no://op', predicates: [Path=/named], filters: [RequestHeaderToRequestUri=X-Target]}}\n",
        plain.uri("http"),
    ));
    let host = format!("localhost:{}", plain.address.port());
    assert_eq!(gateway.get("/set/7").text(), format!("HTTP/1.1 GET /items/7 host={host}"), "{}", gateway.log());
    let named = |value: &str| gateway.connect().request("GET", "/named", &[("X-Target", value)], b"");
    assert_eq!(named(&format!("http://{host}/y")).text(), format!("HTTP/1.1 GET /y host={host}"));
    let empty = gateway.get("/named");
    assert_eq!((empty.status, empty.text().as_str()), (200, ""), "no target, no upstream");
    assert_eq!(named("http://127.0.0.1:1/refused").status, 502);
}

#[test]
fn upstream_endpoints_are_reached_over_tls() {
    let made = Certificates::new();
    let tls = format!("tls: {{ca: {}}}", made.ca().display());
    // Trust is configured globally or on the route; health checks use the same.
    for (client, route) in [(format!("httpclient: {{{tls}}}\n"), String::new()), (String::new(), format!(", {tls}"))] {
        let servers = [
            Server::echoing(ServerProtocol::tls(Keys::of(&made), &["h2"])),
            Server::echoing(ServerProtocol::tls(Keys::of(&made), &["http/1.1"])),
        ];
        let gateway = Gateway::start(&format!(
            "{client}upstreams:\n  orders:\n    endpoints: ['{}', '{}']\n    balance: round-robin\n    \
             health: {{path: /health}}\nroutes: [{{id: a, uri: 'lb://orders', predicates: [Path=/**]{route}}}]\n",
            servers[0].uri("https"),
            servers[1].uri("https"),
        ));
        let mut versions: Vec<String> = (0..4).map(|_| gateway.get("/x").text()[..8].to_owned()).collect();
        versions.sort();
        assert_eq!(versions, ["HTTP/1.1", "HTTP/1.1", "HTTP/2.0", "HTTP/2.0"], "{}", gateway.log());
        crate::support::eventually("both were found well", || {
            gateway.metric("tollgate_upstream", &["health"]) >= 0.0
                && servers.iter().all(|server| server.connections() >= 2)
        });
        assert!(!gateway.log().contains("health check"), "{}", gateway.log());
    }
}
