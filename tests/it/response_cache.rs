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
            "bytes-private" => return with_field(b"Cache-Control: private, ext=\"caf\xe9\"", &body),
            "bytes-no-store" => return with_field(b"Cache-Control: no-store, x=\xff", &body),
            "bytes-alone" => return with_field(b"Cache-Control: \xe9,private", &body),
            "bytes-lines" => return with_field(b"Cache-Control: \xe9\r\nCache-Control: no-store", &body),
            "bytes-vary" => return with_field(b"Vary: \xe9\r\nVary: *", &body),
            "bytes-star" => return with_field(b"Vary: *, \xe9", &body),
            "https" if request.header("x-forwarded-proto").is_some_and(|proto| proto.starts_with("http,")) => {
                (301, &[("Location", "https://shop.example/")])
            }
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

/// Returns a response with this field line, which may have any bytes.
fn with_field(line: &[u8], body: &str) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n", body.len());
    [head.as_bytes(), line, b"\r\n\r\n", body.as_bytes()].concat()
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
    let asks_anew: [Case; 15] = [
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
        ("/a/plain", &[("Cache-Control", "max-age=0")], true),
        ("/a/plain", &[("Cache-Control", "max-age=100")], false),
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
    for path in [
        "/a/private",
        "/a/security",
        "/a/cookie",
        "/a/star",
        "/a/missing",
        "/a/bytes-private",
        "/a/bytes-no-store",
        "/a/bytes-star",
        "/a/bytes-alone",
        "/a/bytes-lines",
        "/a/bytes-vary",
    ] {
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

#[test]
fn responses_are_kept_apart_by_the_origin_that_a_trusted_proxy_reports() {
    let upstream = upstream();
    let route = format!(
        "routes: [{{id: a, uri: '{}', predicates: [Path=/**], filters: [LocalResponseCache=5m]}}]",
        upstream.uri()
    );
    for (form, trusted) in [
        (format!("trusted-proxies: [127.0.0.1]\n{route}"), true),
        (format!("spring.cloud.gateway:\n  trusted-proxies: 127\\.0\\.0\\.1\n  {route}"), true),
        (route, false),
    ] {
        let gateway = Gateway::start(&form);
        let get = |path: &str, headers: &[(&str, &str)]| ask(&gateway, "GET", path, headers);
        let statuses =
            ["http", "https", "http", "https"].map(|scheme| get("/https", &[("X-Forwarded-Proto", scheme)]).status);
        assert_eq!(statuses, if trusted { [301, 200, 301, 200] } else { [200; 4] }, "{form}");
        for (name, one, other) in [
            ("X-Forwarded-Proto", "http", "https"),
            ("X-Forwarded-Host", "a.example", "b.example"),
            ("X-Forwarded-Port", "80", "8443"),
            ("X-Forwarded-Prefix", "/a", "/b"),
            ("Forwarded", "for=127.0.0.1;host=a.example", "for=127.0.0.1;host=b.example"),
        ] {
            let path = format!("/{name}");
            let before = upstream.requests().len();
            [one, other, one, other].iter().for_each(|value| drop(get(&path, &[(name, value)])));
            assert_eq!(upstream.requests().len() - before, if trusted { 2 } else { 1 }, "{name} {form}");
        }
        // Clients share responses.
        let before = upstream.requests().len();
        for client in ["192.0.2.1", "192.0.2.2"] {
            let forwarded = format!("for={client}");
            get("/clients", &[("X-Forwarded-For", client), ("Forwarded", &forwarded)]);
        }
        assert_eq!(upstream.requests().len() - before, 1, "{form}");
    }
}

#[test]
fn a_reload_of_a_browser_asks_the_upstream_and_spring_files_follow_spring() {
    let upstream = upstream();
    let routes = format!(
        "routes: [{{id: a, uri: '{}', predicates: [Path=/**], filters: [LocalResponseCache=5m]}}]",
        upstream.uri()
    );
    let spring = format!("spring.cloud.gateway:\n  filter.local-response-cache.enabled: true\n  {routes}");
    let strategy = |strategy: &str| {
        format!("filter: {{local-response-cache: {{request: {{no-cache-strategy: {strategy}}}}}}}\n{routes}")
    };
    // Responses to `no-cache`, `max-age=0`, and no directive.
    for (number, (form, bodies)) in [
        (routes.clone(), ["2", "3", "3"]),
        (strategy("revalidate"), ["2", "3", "3"]),
        (strategy("skip-update-cache-entry"), ["2", "1", "1"]),
        (strategy("update-cache-entry"), ["2", "2", "2"]),
        (spring, ["2", "1", "1"]),
    ]
    .into_iter()
    .enumerate()
    {
        let gateway = Gateway::start(&form);
        let get =
            |directive: &str| ask(&gateway, "GET", &format!("/{number}/plain"), &[("Cache-Control", directive)]).text();
        assert_eq!(get("x"), "1");
        assert_eq!(["no-cache", "max-age=0", "x"].map(get), bodies, "{form}");
    }
    let gateway = Gateway::start(&routes);
    let tagged = |headers: &[(&str, &str)]| ask(&gateway, "GET", "/tag", headers);
    assert_eq!(tagged(&[]).text(), "1");
    let reloaded = tagged(&[("Cache-Control", "max-age=0"), ("If-None-Match", "\"v1\"")]);
    assert_eq!(reloaded.status, 304);
    assert_eq!(upstream.requests().last().unwrap().header("if-none-match"), Some("\"v1\""));
}
