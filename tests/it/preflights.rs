//! Preflights of browsers at filters that need a key, which preflights do not carry.

use crate::http2::raw::{END_STREAM, HEADERS, OK, ORDINARY, Raw};
use crate::support::client::Connection;
use crate::support::gateway::{Gateway, run};
use crate::support::upstream::Upstream;

const ASKS: [(&str, &str); 2] = [("Origin", "https://shop.example"), ("Access-Control-Request-Method", "POST")];

const LIMIT: &str = "algorithm: fixed-window, limit: 2, window: 1h";

fn yaml(upstream: &Upstream, filters: &str) -> String {
    let uri = upstream.uri();
    format!(
        "jwt: {{jwks: JWKS, algorithms: [HS256], audience: a}}\nroutes: [{{id: a, uri: '{uri}', predicates: [Path=/**], filters: [{filters}]}}]\n"
    )
}

/// Starts a gateway with these filters on the only route.
fn gateway(upstream: &Upstream, filters: &str) -> Gateway {
    let keys = tempfile::NamedTempFile::new().unwrap();
    let secret = "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2U";
    std::fs::write(keys.path(), format!("{{\"keys\":[{{\"kty\":\"oct\",\"k\":\"{secret}\"}}]}}")).unwrap();
    Gateway::start(&yaml(upstream, filters).replace("JWKS", keys.path().to_str().unwrap()))
}

/// The fields of a preflight over HTTP/2.
fn preflight_fields() -> Vec<(&'static str, &'static str)> {
    let asks = [("origin", "https://shop.example"), ("access-control-request-method", "POST")];
    [&[(":method", "OPTIONS")], &ORDINARY[1..], &asks].concat()
}

fn preflight(client: &mut Connection) -> u16 {
    client.request("OPTIONS", "/x", &ASKS, b"").status
}

#[test]
fn a_preflight_without_a_key_is_counted_by_address_under_the_same_numbers() {
    for key in ["'header:X-Key'", "'header:Authorization'", "'cookie:sid'", "'jwt:sub'", "[ip, 'header:X-Key']"] {
        for more in ["", ", deny-empty-key: false", ", enforce-percent: 100"] {
            let upstream = Upstream::ok("allowed");
            let limiter = format!("{{name: RequestRateLimiter, args: {{key-resolver: {key}, {LIMIT}{more}}}}}");
            let gateway = gateway(&upstream, &limiter);
            let mut client = gateway.connect();
            let statuses = [(); 3].map(|()| preflight(&mut client));
            assert_eq!(statuses, [200, 200, 429], "{key}{more}");
            assert_eq!(upstream.requests().len(), 2, "{key}{more}");
        }
    }
}

#[test]
fn preflights_leave_the_buckets_of_keys_alone() {
    let upstream = Upstream::ok("allowed");
    let limiter = format!(
        "{{name: RequestRateLimiter, args: {{key-resolver: 'header:X-Key', plan-resolver: 'header:X-Plan', default-plan: free, \
         plans: {{free: {{{LIMIT}}}, gold: {{algorithm: fixed-window, limit: 5, window: 1h}}}}}}}}"
    );
    let gateway = gateway(&upstream, &limiter);
    let mut client = gateway.connect();
    assert_eq!([(); 3].map(|()| preflight(&mut client)), [200, 200, 429]);
    for key in ["127.0.0.1", "preflight 127.0.0.1", " preflight 127.0.0.1"] {
        assert_eq!(client.request("GET", "/x", &[("X-Key", key)], b"").status, 200, "{key:?}");
    }
    let mut raw = Raw::open(&gateway);
    raw.headers(1, END_STREAM, &preflight_fields());
    let (kind, status) = raw.outcome();
    assert!(kind == HEADERS && status != OK, "the same address over HTTP/2");
}

#[test]
fn only_preflights_need_no_key() {
    let upstream = Upstream::ok("allowed");
    let limiter = format!("{{name: RequestRateLimiter, args: {{key-resolver: 'header:X-Key', {LIMIT}}}}}");
    let limited = gateway(&upstream, &limiter);
    let guarded = gateway(&upstream, "RequireToken");
    for (gateway, refusal) in [(&limited, 403), (&guarded, 401)] {
        let mut client = gateway.connect();
        for (method, headers) in
            [("GET", &ASKS[..]), ("POST", &ASKS), ("OPTIONS", &ASKS[..1]), ("OPTIONS", &ASKS[1..]), ("OPTIONS", &[])]
        {
            assert_eq!(client.request(method, "/x", headers, b"").status, refusal, "{method} {headers:?}");
        }
        assert_eq!(preflight(&mut client), 200);
    }
    for (gateway, refusal) in [(&limited, 403), (&guarded, 401)] {
        for field in [
            ("Authorization", "Bearer x.y.z"),
            ("Cookie", "sid=a"),
            ("X-HTTP-Method-Override", "DELETE"),
            ("X-HTTP-Method", "DELETE"),
            ("X-Method-Override", "DELETE"),
        ] {
            let headers = [&ASKS[..], &[field]].concat();
            assert_eq!(gateway.connect().request("OPTIONS", "/x", &headers, b"").status, refusal, "{field:?}");
        }
        assert_eq!(gateway.connect().request("OPTIONS", "/x", &ASKS, b"body").status, refusal);
        let chunked = [&ASKS[..], &[("Transfer-Encoding", "chunked")]].concat();
        let mut client = gateway.connect();
        let head: String = chunked.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        client.send(format!("OPTIONS /x HTTP/1.1\r\nHost: localhost\r\n{head}\r\n4\r\nbody\r\n0\r\n\r\n"));
        assert_eq!(client.response().map(|response| response.status), Some(refusal));
        for (flags, is_refused) in [(END_STREAM, false), (0, true)] {
            let mut raw = Raw::open(gateway);
            raw.headers(1, flags, &preflight_fields());
            let (kind, status) = raw.outcome();
            assert_eq!((kind, status != OK), (HEADERS, is_refused), "a body over HTTP/2");
        }
    }
    let two = [&ASKS[..], &[("X-Key", "a"), ("X-Key", "b")]].concat();
    assert_eq!(limited.connect().request("OPTIONS", "/x", &two, b"").status, 403, "two keys are none");
    assert!(upstream.requests().iter().all(|request| request.line.starts_with("OPTIONS")));
}

#[test]
fn preflights_pass_all_filters_that_need_a_key_and_their_slots_are_by_address() {
    let upstream = Upstream::ok("allowed");
    let filters = format!(
        "RequireToken, {{name: ConcurrencyLimiter, args: {{key-resolver: 'header:X-Key', limit: 1}}}}, \
         {{name: RequestRateLimiter, args: {{key-resolver: 'header:X-Key', limits: [{{name: one, {LIMIT}}}, \
         {{name: two, key-resolver: 'jwt:sub', {LIMIT}}}]}}}}"
    );
    let gateway = gateway(&upstream, &filters);
    let mut client = gateway.connect();
    let first = client.request("OPTIONS", "/x", &ASKS, b"");
    assert_eq!((first.status, first.header("x-concurrency-remaining")), (200, Some("0")));
    assert_eq!([preflight(&mut client), preflight(&mut client)], [200, 429]);
}

#[test]
fn a_spring_file_refuses_preflights_as_spring_does_and_check_advises_a_policy() {
    let upstream = Upstream::ok("allowed");
    let route = |more: &str, predicates: &str| {
        format!(
            "spring.cloud.gateway:\n{more}  routes:\n  - id: orders\n    uri: {}\n    predicates: [{predicates}]\n    filters:\n    \
             - name: RequestRateLimiter\n      args: {{redis-rate-limiter.replenish-rate: 1, redis-rate-limiter.burst-capacity: 1, \
             key-resolver: \"#{{@perKey}}\"}}\ntollgate.key-resolvers: {{perKey: 'header:X-Key'}}\n",
            upstream.uri()
        )
    };
    let gateway =
        Gateway::start(&format!("server: {{address: 127.0.0.1, workers: 1}}\n{}", route("", "Path=/orders/**")));
    assert_eq!(gateway.connect().request("OPTIONS", "/orders/1", &ASKS, b"").status, 403);
    let policy = |path: &str| {
        format!(
            "  globalcors: {{cors-configurations: {{'[{path}]': {{allowed-origins: 'https://shop.example', allowed-methods: '*'}}}}}}\n"
        )
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("application.yml");
    for (more, predicates, is_noted) in [
        (String::new(), "Path=/orders/**", true),
        (policy("/other/**"), "Path=/orders/**", true),
        (policy("/orders/1"), "Path=/orders/**", true),
        (policy("/orders/**"), "Path=/orders/**", false),
        (policy("/**"), "Path=/orders/**", false),
        (String::new(), "Path=/orders/**, Method=GET", false),
    ] {
        std::fs::write(&path, route(&more, predicates)).unwrap();
        let (code, out, err) = run(&["check", "--offline", path.to_str().unwrap()]);
        assert_eq!(code, Some(0), "{out}{err}");
        let has_note = format!("{out}{err}").contains("refused on routes that need one: `orders`");
        assert_eq!(has_note, is_noted, "{more} {predicates}: {out}{err}");
    }
}
