//! Fields that tell responses of the gateway from those of upstreams: `Proxy-Status`, `Cache-Status`, and rate limit headers of
//! upstreams.

use crate::support::free_address;
use crate::support::gateway::Gateway;
use crate::support::upstream::{Upstream, response};

#[test]
fn proxy_status_names_the_error_of_each_response_of_the_gateway() {
    let upstream = Upstream::start(|_| response(502, &[], b"of the upstream"));
    let dead = free_address();
    let gateway = Gateway::start(&format!(
        "server: {{proxy-status: edge-1}}\n\
         routes:\n\
         - {{id: dead, uri: 'http://{dead}', predicates: [Path=/dead]}}\n\
         - {{id: unknown, uri: 'http://name.invalid', predicates: [Path=/unknown]}}\n\
         - {{id: limited, uri: '{}', predicates: [Path=/limited], filters: [{{name: RequestRateLimiter, args: {{key-resolver: route, \
           limits: [{{name: total, algorithm: quota, allowance: 1}}, {{name: second, replenish-rate: 9, burst-capacity: 9}}]}}}}]}}\n",
        upstream.uri()
    ));
    let seen = |path: &str| {
        let answer = gateway.get(path);
        (answer.status, answer.header("proxy-status").map(str::to_owned))
    };
    let of = |status, field: &str| (status, Some(format!("edge-1; error={field}")));
    assert_eq!(seen("/none"), of(404, "destination_not_found; details=\"no-route\""));
    assert_eq!(seen("/dead"), of(502, "connection_refused; details=\"upstream-unreachable\""));
    assert_eq!(seen("/unknown"), of(502, "dns_error; details=\"upstream-unreachable\""));
    assert_eq!(seen("/limited"), (502, None));
    assert_eq!(seen("/limited"), of(429, "http_request_denied; details=\"rule total\""));
    assert_eq!(seen("/../x"), of(400, "http_request_error; details=\"bad-request\""));
}

#[test]
fn proxy_status_has_the_status_of_the_response_that_an_error_replaces() {
    let upstream = Upstream::start(|request| match request.target() {
        "/coding" => response(203, &[("Transfer-Encoding", "gzip, chunked")], b""),
        "/switch" => b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n".to_vec(),
        "/invalid" => b"HTTP/1.1 abc\r\n\r\n".to_vec(),
        target => {
            let coding = if target == "/json/coded" { "gzip" } else { "identity" };
            response(201, &[("Content-Type", "application/json"), ("Content-Encoding", coding)], b"{no json")
        }
    });
    let gateway = Gateway::start(&format!(
        "server: {{proxy-status: edge}}\n\
         routes:\n\
         - {{id: json, uri: '{uri}', predicates: [Path=/json/**], filters: [RemoveJsonAttributesResponseBody=a]}}\n\
         - {{id: all, uri: '{uri}', predicates: [Path=/**]}}\n",
        uri = upstream.uri()
    ));
    let broken = "http_protocol_error; received-status=";
    for (path, status, expected) in [
        ("/json/text", 500, "proxy_internal_error; received-status=201; details=\"response-body\"".to_owned()),
        ("/json/coded", 500, "proxy_internal_error; received-status=201; details=\"response-body\"".to_owned()),
        ("/coding", 502, format!("{broken}203; details=\"upstream-broken\"")),
        ("/switch", 502, format!("{broken}101; details=\"upstream-broken\"")),
        ("/invalid", 502, "http_protocol_error; details=\"upstream-broken\"".to_owned()),
    ] {
        let answer = gateway.get(path);
        let field = answer.header("proxy-status").unwrap_or_default();
        assert_eq!((answer.status, field), (status, format!("edge; error={expected}").as_str()), "{path}");
    }
}

#[test]
fn proxy_status_is_off_by_default_and_its_name_is_checked() {
    let upstream = Upstream::ok("ok");
    assert_eq!(Gateway::to(&upstream.uri()).get("/../x").header("proxy-status"), None);
    let (code, _, errors) = crate::support::gateway::run(&["check", "--tollgate.server.proxy-status=an edge"]);
    assert_eq!(code, Some(1), "{errors}");
    assert!(errors.contains("`an edge` is no name for `Proxy-Status`"), "{errors}");
}

#[test]
fn cache_status_says_how_the_cache_handled_a_request() {
    let upstream = Upstream::start(|request| match request.header("if-none-match") {
        Some(_) => response(304, &[], b""),
        None => response(
            200,
            &[("Cache-Control", "max-age=60"), ("ETag", "\"a\""), ("Cache-Status", "Origin; hit")],
            b"page",
        ),
    });
    let gateway = Gateway::start(&format!(
        "server: {{proxy-status: edge}}\nroutes: [{{id: a, uri: '{}', predicates: [Path=/**], filters: [LocalResponseCache=1m]}}]",
        upstream.uri()
    ));
    let seen = |method: &str, fields: &[(&str, &str)]| {
        let answer = gateway.connect().request(method, "/a", fields, b"");
        answer.all("cache-status").last().map(|value| (*value).to_owned()).unwrap_or_default()
    };
    assert_eq!(seen("GET", &[]), "edge; fwd=uri-miss; stored");
    let hit = seen("GET", &[]);
    assert!(hit.starts_with("edge; hit; ttl=") && !hit.ends_with('0'), "{hit}");
    assert_eq!(seen("GET", &[("Cache-Control", "no-cache")]), "edge; fwd=request");
    assert_eq!(seen("GET", &[("Cache-Control", "no-store")]), "edge; fwd=bypass");
    assert_eq!(seen("POST", &[]), "edge; fwd=method");
    assert_eq!(gateway.get("/a").all("cache-status").len(), 2, "the one of the cache before stays");
}

#[test]
fn rate_limit_headers_of_upstreams_stay_or_are_replaced() {
    let fields = [
        ("X-RateLimit-Remaining", "7"),
        ("X-Rate-Limit-Left", "7"),
        ("RateLimit", "7"),
        ("RateLimit-Policy", "7"),
        ("X-Left", "7"),
        ("X-Kept", "1"),
    ];
    let upstream = Upstream::start(move |_| response(200, &fields, b"ok"));
    let answer = |argument: &str| {
        let filters = format!(
            "[{{name: RequestRateLimiter, args: {{key-resolver: route, replenish-rate: 1, burst-capacity: 5, remaining-header: X-Left, \
             requested-tokens-header: X-RateLimit-Cost{argument}}}}}]"
        );
        Gateway::filtering(&upstream.uri(), &filters).get("/")
    };
    let kept = answer("");
    assert_eq!(kept.all("x-left"), ["4", "7"]);
    assert_eq!(kept.all("ratelimit"), ["7"]);
    let replaced = answer(", upstream-headers: replace");
    assert_eq!((replaced.all("x-left"), replaced.all("x-ratelimit-cost")), (vec!["4"], vec!["1"]));
    assert_eq!(replaced.all("x-kept"), ["1"]);
    for (name, _) in &fields[..4] {
        assert_eq!(replaced.header(name), None, "{name}");
    }
}

#[test]
fn rate_limit_fields_in_trailers_of_upstreams_are_removed_too() {
    let upstream = Upstream::start(|_| {
        b"HTTP/1.1 200 OK\r\nTrailer: X-RateLimit-Remaining, X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-RateLimit-Remaining: 7\r\nX-Sum: 42\r\n\r\n".to_vec()
    });
    let trailers = |argument: &str| {
        let filters = format!(
            "[{{name: RequestRateLimiter, args: {{key-resolver: route, replenish-rate: 1, burst-capacity: 5{argument}}}}}]"
        );
        let gateway = Gateway::filtering(&upstream.uri(), &filters);
        let answer = gateway.connect().request("GET", "/", &[("TE", "trailers")], b"");
        answer.trailers.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
    };
    assert_eq!(trailers(""), ["x-ratelimit-remaining", "x-sum"]);
    assert_eq!(trailers(", upstream-headers: replace"), ["x-sum"]);
}

#[test]
fn a_limiter_that_replaces_headers_of_upstreams_keeps_those_of_other_limiters() {
    let upstream = Upstream::start(|_| response(200, &[("X-RateLimit-Remaining", "7")], b"ok"));
    let limiter = |argument: &str| {
        format!(
            "{{name: RequestRateLimiter, args: {{key-resolver: route, replenish-rate: 1, burst-capacity: 5{argument}}}}}"
        )
    };
    let filters = format!("[{}, {}]", limiter(", upstream-headers: replace"), limiter(""));
    assert_eq!(Gateway::filtering(&upstream.uri(), &filters).get("/").all("x-ratelimit-remaining"), ["4", "4"]);
}
