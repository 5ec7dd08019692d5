//! Redis over TLS with the certificates of key stores.

use tollgate_test_support::{Certificates, RedisServer};

use crate::support::eventually;
use crate::support::gateway::Gateway;

/// A limiter of one request in Redis on `port`, as an `application.yml` with the bundle `cache`.
fn yaml(port: u16, bundle: &str) -> String {
    format!(
        "spring:\n  ssl.bundle.jks.cache: {{{bundle}}}\n  data.redis: {{host: localhost, port: {port}, timeout: 5s, ssl.bundle: cache}}\n  \
         cloud.gateway.routes: [{{id: a, uri: 'echo:', predicates: [Path=/a], filters: [{{name: RequestRateLimiter, args: \
         {{key-resolver: 'header:x-key', redis-rate-limiter.replenishRate: 1, redis-rate-limiter.burstCapacity: 60, \
         redis-rate-limiter.requestedTokens: 60}}}}]}}]\n"
    )
}

#[test]
fn redis_is_reached_with_the_certificates_of_a_key_store() {
    let made = Certificates::new();
    let server = RedisServer::start_tls(&made, true, &[]);
    let port: u16 = server.tls_url().rsplit(':').next().unwrap().trim_end_matches('/').parse().unwrap();
    let (keys, trust) = made.stores("s3cret");
    let keystore = format!("keystore: {{location: 'file:{}', password: s3cret, type: PKCS12}}", keys.display());
    let truststore = format!("truststore: {{location: 'file:{}', password: s3cret}}", trust.display());
    let both = yaml(port, &format!("{keystore}, {truststore}"));
    let gateways = [Gateway::start(&both), Gateway::start(&both)];
    let ask = |gateway: &Gateway| gateway.connect().request("GET", "/a", &[("x-key", "k")], b"").status;
    assert_eq!(gateways.each_ref().map(ask), [200, 429], "one bucket for both");
    for gateway in &gateways {
        assert_eq!(gateway.metric("tollgate_limiter_decisions_total", &["source=\"redis\""]), 1.0);
    }
    assert!(!gateways[0].log().contains("s3cret"), "{}", gateways[0].log());

    let elsewhere = Certificates::new();
    let (_, other) = elsewhere.stores("s3cret");
    let untrusted = format!("{keystore}, truststore: {{location: '{}', password: s3cret}}", other.display());
    for bundle in [&truststore, &untrusted] {
        let refused = Gateway::start(&yaml(port, bundle));
        eventually("without its certificates, memory decides", || {
            ask(&refused);
            refused.metric("tollgate_limiter_decisions_total", &["source=\"fallback\""]) >= 1.0
        });
        assert_eq!(refused.metric("tollgate_limiter_decisions_total", &["source=\"redis\""]), 0.0);
    }
}
