//! Requests that are routed again: the second route sees the client that the first saw.

use crate::support::gateway::Gateway;
use crate::support::upstream::Upstream;

/// Targets that are reached by `forward:`, by a fallback and by `on-limit`. No first route reads the client itself.
fn routes(inner: &str) -> String {
    let closed = crate::support::free_address();
    format!(
        "trusted-proxies: ['127.0.0.1']\n\
         routes:\n\
         - {{id: forwarded, uri: 'forward:/inner', predicates: [Path=/forwarded]}}\n\
         - {{id: fallback, uri: 'http://{closed}', predicates: [Path=/fallback], filters: [{{name: CircuitBreaker, \
           args: {{fallbackUri: 'forward:/inner'}}}}]}}\n\
         - {{id: overflow, uri: 'echo:', predicates: [Path=/overflow], filters: [{{name: RequestRateLimiter, args: \
           {{replenish-rate: 1, burst-capacity: 0, key-resolver: method, on-limit: 'forward:/inner'}}}}]}}\n{inner}"
    )
}

const WAYS: [&str; 3] = ["/forwarded", "/fallback", "/overflow"];

fn status(gateway: &Gateway, path: &str, from: &str) -> u16 {
    gateway.connect().request("GET", path, &[("x-forwarded-for", from)], b"").status
}

#[test]
fn a_block_list_by_address_applies_behind_a_reroute() {
    let gateway = Gateway::start(&routes(
        "- {id: inner, uri: 'echo:', predicates: [Path=/inner], filters: [{name: RequestRateLimiter, args: \
         {replenish-rate: 1000, burst-capacity: 1000, key-resolver: ip, block: [192.0.2.0/24]}}]}\n",
    ));
    for path in WAYS {
        assert_eq!(status(&gateway, path, "192.0.2.7"), 403, "{path}: blocked");
        assert_eq!(status(&gateway, path, "198.51.100.7"), 200, "{path}: not blocked");
    }
}

#[test]
fn limits_by_address_apply_behind_a_reroute() {
    for (path, from) in WAYS.into_iter().zip(["192.0.2.1", "192.0.2.2", "192.0.2.3"]) {
        let gateway = Gateway::start(&routes(
            "- {id: inner, uri: 'echo:', predicates: [Path=/inner], filters: [{name: RequestRateLimiter, args: \
             {replenish-rate: 1, period: 1h, burst-capacity: 2, key-resolver: ip, deny-empty-key: false}}]}\n",
        ));
        assert_eq!([200, 200, 429].map(|_| status(&gateway, path, from)), [200, 200, 429], "{path}");
        assert_eq!(status(&gateway, path, "198.51.100.7"), 200, "{path}: another client");
    }
}

#[test]
fn concurrency_by_address_applies_behind_a_reroute() {
    let held = Upstream::scripted(|stream, seen| {
        while let Some(request) = crate::support::upstream::read_request(stream) {
            seen(request);
            // Answers once the gateway closes: the request stays in flight.
            let _ = std::io::Read::read(stream, &mut [0]);
        }
    });
    let gateway = Gateway::start(&routes(&format!(
        "- {{id: inner, uri: '{}', predicates: [Path=/inner], filters: [{{name: ConcurrencyLimiter, args: \
         {{limit: 1, key-resolver: ip, deny-empty-key: false}}}}]}}\n",
        held.uri()
    )));
    let mut first = gateway.connect();
    first.send(b"GET /forwarded HTTP/1.1\r\nhost: a\r\nx-forwarded-for: 192.0.2.7\r\n\r\n");
    crate::support::eventually("the first request is in flight", || !held.requests().is_empty());
    for path in WAYS {
        assert_eq!(status(&gateway, path, "192.0.2.7"), 429, "{path}");
    }
}

#[test]
fn predicates_on_addresses_see_the_received_address_behind_a_reroute() {
    let gateway = Gateway::start(&routes(
        "- {id: near, uri: 'no://op', predicates: [Path=/inner, 'XForwardedRemoteAddr=192.0.2.0/24'], filters: \
         [SetStatus=202]}\n- {id: inner, uri: 'no://op', predicates: [Path=/inner], filters: [SetStatus=203]}\n",
    ));
    for path in WAYS {
        assert_eq!(status(&gateway, path, "192.0.2.7"), 202, "{path}");
        assert_eq!(status(&gateway, path, "198.51.100.7"), 203, "{path}");
    }
}
#[test]
fn the_clients_tls_is_known_behind_a_reroute() {
    let gateway = Gateway::start(&routes(
        "- {id: inner, uri: 'echo:', predicates: [Path=/inner], metadata: {cors: {allowedOrigins: \
         'https://shop.example'}}}\n",
    ));
    for path in ["/forwarded", "/overflow"] {
        // An allowed origin is named, unless it is the request's own.
        let named = |scheme: &str| {
            let headers = [("host", "shop.example"), ("origin", "https://shop.example"), ("x-forwarded-proto", scheme)];
            let answer = gateway.connect().request("GET", path, &headers, b"");
            answer.header("access-control-allow-origin").is_some()
        };
        assert_eq!((named("https"), named("http")), (false, true), "{path}");
    }
}
