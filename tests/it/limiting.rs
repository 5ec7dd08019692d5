//! What a client sees of a limit.

use crate::support::gateway::Gateway;
use crate::support::upstream::Upstream;

#[test]
fn a_burst_is_admitted_then_denied_with_the_wait() {
    let upstream = Upstream::ok("hello");
    let gateway = Gateway::start(&format!(
        "routes: [{{id: a, uri: '{}', predicates: [Path=/a], filters: [{{name: RequestRateLimiter, \
         args: {{replenish-rate: 1, burst-capacity: 3, key-resolver: 'header:x-key'}}}}]}}]",
        upstream.uri()
    ));
    let mut client = gateway.connect();
    for remaining in ["2", "1", "0"] {
        let response = client.request("GET", "/a", &[("x-key", "k")], b"");
        assert_eq!((response.status, response.text().as_str()), (200, "hello"));
        assert_eq!(response.header("x-ratelimit-remaining"), Some(remaining));
    }
    let denied = client.request("GET", "/a", &[("x-key", "k")], b"");
    assert_eq!(denied.status, 429);
    assert_eq!(denied.header("x-ratelimit-remaining"), Some("0"));
    assert_eq!(denied.header("x-ratelimit-replenish-rate"), Some("1"));
    assert_eq!(denied.header("x-ratelimit-burst-capacity"), Some("3"));
    assert_eq!(denied.header("x-ratelimit-requested-tokens"), Some("1"));
    assert_eq!(denied.header("retry-after"), Some("1"));
    assert_eq!(denied.header("cache-control"), Some("no-store"));
    assert_eq!(client.request("GET", "/a", &[("x-key", "other")], b"").status, 200);
    assert_eq!(upstream.requests().len(), 4, "the upstream never saw the denied request");
}
