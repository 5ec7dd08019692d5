//! `LocalResponseCache` in front of an upstream that counts requests.

use crate::support::client::Response;
use crate::support::gateway::Gateway;
use crate::support::upstream::{Upstream, response};

/// Answers with a sequence number per target; the path selects the response.
fn upstream() -> Upstream {
    let counts = std::sync::Mutex::new(std::collections::HashMap::<String, usize>::new());
    Upstream::start(move |request| {
        let mut counts = counts.lock().unwrap();
        let count = counts.entry(request.target().to_owned()).or_default();
        *count += 1;
        let body = count.to_string();
        let known = request.header("if-none-match") == Some("\"v1\"");
        let target = request.target().rsplit('/').next().unwrap();
        let (status, headers): (_, &[(&str, &str)]) = match target {
            "tag" if known => return b"HTTP/1.1 304 Not Modified\r\nETag: \"v1\"\r\nX-New: 1\r\n\r\n".to_vec(),
            "tag" => (200, &[("ETag", "\"v1\""), ("Cache-Control", "no-cache")]),
            "private" => (200, &[("Cache-Control", "private")]),
            "security" => (200, &[("Cache-Control", "no-cache, no-store, max-age=0, must-revalidate")]),
            "cookie" => (200, &[("Set-Cookie", "session=1")]),
            "vary" => (200, &[("Vary", "Accept-Language")]),
            "star" => (200, &[("Vary", "*")]),
            "moved" => (301, &[("Location", "/elsewhere")]),
            "missing" => (404, &[]),
            "chunked" => {
                let body = format!("{}{body}", "x".repeat(100_000));
                let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
                return format!("{head}{:x}\r\n{body}\r\n0\r\n\r\n", body.len()).into_bytes();
            }
            _ => (200, &[("Pragma", "no-cache"), ("Expires", "0"), ("Cache-Control", "max-age=3600")]),
        };
        response(status, headers, body.as_bytes())
    })
}

fn ask(gateway: &Gateway, method: &str, path: &str, headers: &[(&str, &str)]) -> Response {
    gateway.connect().request(method, path, headers, b"")
}

/// A path, fields, and true if the upstream is called.
type Case = (&'static str, &'static [(&'static str, &'static str)], bool);

#[test]
fn responses_are_cached_as_in_spring() {
    let upstream = upstream();
    let uri = upstream.uri();
    let limiter =
        "{name: RequestRateLimiter, args: {replenish-rate: 1, burst-capacity: 1, period: 1h, key-resolver: ip}}";
    let gateway = Gateway::start(&format!(
        r#"
server: {{address: 127.0.0.1, workers: 2}}
routes:
  - {{id: a, uri: '{uri}', predicates: [Path=/a/**], filters: ['LocalResponseCache=5m,1MB', 'AddResponseHeader=X-Late,yes']}}
  - {{id: limited, uri: '{uri}', predicates: [Path=/limited/**], filters: [{limiter}, LocalResponseCache=5m]}}
"#
    ));

    // Responses to two equal requests, and to a third that differs.
    let asks_anew: [Case; 14] = [
        ("/a/plain", &[], false),
        ("/a/chunked", &[], false),
        ("/a/moved", &[], false),
        ("/a/vary", &[("Accept-Language", "de")], true),
        ("/a/plain", &[("Accept-Language", "de")], false),
        ("/a/plain", &[("Authorization", "Basic x")], true),
        ("/a/plain", &[("Cookie", "a=1")], true),
        ("/a/plain", &[("Host", "other")], true),
        ("/a/plain", &[("Cache-Control", "no-cache")], true),
        ("/a/plain", &[("Cache-Control", "no-store")], true),
        ("/a/plain?q", &[], true),
        ("/a/plain", &[("Connection", "Upgrade"), ("Upgrade", "websocket")], true),
        ("/a/plain", &[("Range", "bytes=0-")], true),
        ("/a/plain", &[("Cache-Control", "max-age=0")], false),
    ];
    for path in ["/a/plain", "/a/chunked", "/a/moved", "/a/vary"] {
        let (first, second) = (ask(&gateway, "GET", path, &[]), ask(&gateway, "GET", path, &[]));
        assert_eq!((first.status, &first.body), (second.status, &second.body), "{path}");
    }
    for (path, headers, anew) in asks_anew {
        let before = upstream.requests().len();
        ask(&gateway, "GET", path, headers);
        assert_eq!(upstream.requests().len() - before, usize::from(anew), "{path} {headers:?}");
    }
    for path in ["/a/private", "/a/security", "/a/cookie", "/a/star", "/a/missing"] {
        let answers = [(); 2].map(|()| ask(&gateway, "GET", path, &[]).text());
        assert_eq!(answers, ["1", "2"], "{path}");
    }

    let kept = ask(&gateway, "GET", "/a/plain", &[]);
    let left: u64 = kept.header("cache-control").unwrap().strip_prefix("max-age=").unwrap().parse().unwrap();
    assert!((1..=300).contains(&left) && left + kept.header("age").unwrap().parse::<u64>().unwrap() <= 300);
    assert_eq!((kept.header("pragma"), kept.header("expires"), kept.header("x-late")), (None, None, Some("yes")));
    let head = ask(&gateway, "HEAD", "/a/plain", &[]);
    assert_eq!((head.status, head.header("content-length")), (200, Some("1")));

    // Cached, but revalidated for each request; a client with a current copy gets no body.
    let first = ask(&gateway, "GET", "/a/tag", &[]);
    assert_eq!(
        (first.text().as_str(), first.header("cache-control")),
        ("1", Some("no-cache,max-age=0,must-revalidate"))
    );
    let checked = ask(&gateway, "GET", "/a/tag", &[("If-None-Match", "\"old\"")]);
    assert_eq!((checked.status, checked.text().as_str(), checked.header("x-new")), (200, "1", Some("1")));
    assert_eq!(ask(&gateway, "GET", "/a/tag", &[("If-None-Match", "\"v1\"")]).status, 304);

    // A request that changes the resource removes the cached response.
    assert_eq!(ask(&gateway, "POST", "/a/plain", &[]).status, 200);
    assert_ne!(ask(&gateway, "GET", "/a/plain", &[]).text(), kept.text());

    // A limiter that is listed before the cache counts hits; see `cached_identity.rs`.
    assert_eq!([(); 2].map(|()| ask(&gateway, "GET", "/limited/x", &[]).status), [200, 429]);

    assert!(gateway.metric("tollgate_response_cache_requests_total", &["route=\"a\"", "outcome=\"hit\""]) >= 6.0);
    assert_eq!(gateway.metric("tollgate_response_cache_requests_total", &["outcome=\"revalidated\""]), 2.0);
    assert!(gateway.metric("tollgate_response_cache_bytes", &["route=\"a\""]) > 100_000.0);
}

#[test]
fn the_shared_cache_survives_reloads_that_leave_a_route_unchanged() {
    let upstream = upstream();
    let uri = upstream.uri();
    let yaml = |filters: &str, more: &str| {
        format!(
            "spring.cloud.gateway:\n  filter.local-response-cache: {{enabled: true, time-to-live: 10m, request: \
             {{no-cache-strategy: update-cache-entry}}}}\n{more}  routes:\n    - {{id: a, uri: '{uri}', predicates: \
             [Path=/a/**], filters: [{filters}]}}\n    - {{id: b, uri: '{uri}', predicates: [Path=/b/**], metadata: \
             {{cors: {{allowedOrigins: ['https://x', 'https://y']}}}}}}\n"
        )
    };
    let gateway = Gateway::start(&yaml("", ""));
    let text = |path: &str, headers: &[(&str, &str)]| ask(&gateway, "GET", path, headers).text();
    assert_eq!([text("/a/x", &[]), text("/a/x", &[])], ["1", "1"]);
    assert_eq!(
        ask(&gateway, "GET", "/a/x", &[]).header("cache-control").map(|value| value.len()),
        Some("max-age=600".len())
    );
    assert_eq!([text("/a/x", &[("Cache-Control", "no-cache")]), text("/a/x", &[])], ["2", "2"], "renewed for all");

    // A cached response has the headers of one origin, and serves that origin only.
    for _ in 0..2 {
        for origin in ["https://x", "https://y"] {
            let answer = ask(&gateway, "GET", "/b/x", &[("Origin", origin)]);
            assert_eq!(answer.all("access-control-allow-origin"), [origin]);
            assert_eq!(answer.all("vary").len(), 3);
        }
    }
    assert_eq!(upstream.requests().iter().filter(|request| request.target() == "/b/x").count(), 2);

    gateway.reload(&yaml("", ""));
    assert_eq!(text("/a/x", &[]), "2");
    gateway.reload(&yaml("'AddResponseHeader=X-New,1'", ""));
    assert_eq!(text("/a/x", &[]), "3", "another route in the same place");
    gateway.reload(&yaml("'AddResponseHeader=X-New,1'", "  global-filter.local-response-cache.enabled: false\n"));
    assert_eq!([text("/a/x", &[]), text("/a/x", &[])], ["4", "5"]);
}
