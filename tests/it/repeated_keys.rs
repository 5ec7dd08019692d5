//! Requests that repeat the field, the parameter or the cookie of a key.

use crate::support::client::Response;
use crate::support::gateway::Gateway;
use crate::support::upstream::Upstream;

const KINDS: [&str; 3] = ["header:x-key", "query:key", "cookie:key"];

fn yaml(upstream: &Upstream, resolver: &str, repeated: &str, arguments: &str) -> String {
    format!(
        "{repeated}routes: [{{id: a, uri: '{}', predicates: [Path=/**], filters: [{{name: RequestRateLimiter, args: \
         {{replenish-rate: 1, period: 1h, burst-capacity: 2, key-resolver: '{resolver}', {arguments}}}}}]}}]",
        upstream.uri()
    )
}

/// Sends the keys in each of their places.
fn ask(gateway: &Gateway, keys: [&str; 2]) -> Response {
    let [one, other] = keys;
    let cookie = format!("key={one}; a=b; key={other}");
    let headers = [("x-key", one), ("x-key", other), ("cookie", cookie.as_str())];
    gateway.connect().request("GET", &format!("/x?key={one}&a=b&key={other}"), &headers, b"")
}

#[test]
fn differing_keys_are_refused_and_equal_ones_count_once() {
    let upstream = Upstream::ok("reached");
    for resolver in KINDS {
        for arguments in ["empty-key-status: 401", "empty-key-status: 401, deny-empty-key: false"] {
            let gateway = Gateway::start(&yaml(&upstream, resolver, "", arguments));
            let before = upstream.requests().len();
            assert_eq!(ask(&gateway, ["one", "two"]).status, 401, "{resolver} {arguments}");
            assert_eq!(upstream.requests().len(), before, "{resolver}: the upstream sees none of them");
            let statuses = [(); 3].map(|()| ask(&gateway, ["one", "one"]).status);
            assert_eq!(statuses, [200, 200, 429], "{resolver} {arguments}");
            assert_eq!(ask(&gateway, ["two", "one"]).status, 401, "{resolver}: no fresh bucket");
        }
    }
}

#[test]
fn space_around_a_cookie_makes_no_other_key() {
    let gateway = Gateway::start(
        "routes: [{id: a, uri: 'echo:', predicates: [Path=/**], filters: [{name: RequestRateLimiter, args: \
         {replenish-rate: 1, period: 1h, burst-capacity: 1, key-resolver: 'cookie:sid'}}]}]",
    );
    let status = |cookie: &str| gateway.connect().request("GET", "/", &[("cookie", cookie)], b"").status;
    assert_eq!(status("sid=cc"), 200);
    for spelling in
        ["sid=cc", "sid= cc", "sid=\tcc", "sid =cc", "sid=cc ; a=b", "sid=\"cc\"", "sid=\" cc\"", "a=b;sid=cc"]
    {
        assert_eq!(status(spelling), 429, "{spelling:?}");
    }
    assert_eq!(status("sid=%63c"), 200, "percent-encoding is not decoded");
}

#[test]
fn differing_keys_are_refused_by_a_concurrency_limiter() {
    let upstream = Upstream::ok("reached");
    let gateway = Gateway::start(&format!(
        "routes: [{{id: a, uri: '{}', predicates: [Path=/**], filters: [{{name: ConcurrencyLimiter, args: {{limit: 5, \
         key-resolver: 'header:x-key', deny-empty-key: false}}}}]}}]",
        upstream.uri()
    ));
    assert_eq!([ask(&gateway, ["one", "two"]).status, ask(&gateway, ["one", "one"]).status], [403, 200]);
    assert_eq!(gateway.get("/x").status, 200, "no key");
}

#[test]
fn only_the_key_that_counted_is_forwarded_if_configured() {
    let upstream = Upstream::ok("reached");
    for resolver in KINDS {
        let gateway = Gateway::start(&yaml(&upstream, resolver, "repeated-keys: first\n", "empty-key-status: 401"));
        let statuses = [["one", "two"], ["one", "three"], ["one", "four"]].map(|keys| ask(&gateway, keys).status);
        assert_eq!(statuses, [200, 200, 429], "{resolver}: the first one counts");
        let request = upstream.requests().pop().unwrap();
        let seen = (request.all("x-key"), request.target().to_owned(), request.header("cookie").unwrap().to_owned());
        match resolver {
            "header:x-key" => assert_eq!(seen.0, ["one"]),
            "query:key" => assert_eq!(seen.1, "/x?key=one&a=b"),
            _ => assert_eq!(seen.2, "key=one; a=b"),
        }
    }
}
