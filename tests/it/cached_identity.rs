//! `LocalResponseCache` in front of limiters: a stored response is only for requests that they could admit.

#[cfg(feature = "jwt")]
use serde_json::json;

use crate::support::gateway::Gateway;
use crate::support::upstream::{Upstream, response};

/// Answers with a sequence number: a repeated number is a cached response.
fn counting() -> Upstream {
    let count = std::sync::atomic::AtomicUsize::new(0);
    Upstream::start(move |_| {
        let number = count.fetch_add(1, std::sync::atomic::Ordering::SeqCst) + 1;
        response(200, &[], number.to_string().as_bytes())
    })
}

/// Returns status and body of `GET path`.
fn ask(gateway: &Gateway, path: &str, headers: &[(&str, &str)]) -> (u16, String) {
    let answer = gateway.connect().request("GET", path, headers, b"");
    let text = if answer.status == 200 { answer.text() } else { String::new() };
    (answer.status, text)
}

fn ok(number: u32) -> (u16, String) {
    (200, number.to_string())
}

fn refused(status: u16) -> (u16, String) {
    (status, String::new())
}

const LIMITER: &str = "{name: RequestRateLimiter, args: {replenish-rate: 1, period: 1h, burst-capacity: 2, key-resolver: \
                       'header:x-key', empty-key-status: 401, block: [foe]}}";
/// The same in Spring's form.
const SPRING_LIMITER: &str = "{name: RequestRateLimiter, args: {redis-rate-limiter.replenishRate: 1, \
                              redis-rate-limiter.burstCapacity: 2, key-resolver: '#{@key}', empty-key-status: 401}}";

fn route(upstream: &Upstream, filters: &str) -> String {
    format!("routes: [{{id: a, uri: '{}', predicates: [Path=/**], filters: [{filters}]}}]", upstream.uri())
}

#[test]
fn refusals_of_identity_precede_cached_responses() {
    let upstream = counting();
    let spring = format!(
        "key-resolvers: {{key: 'header:x-key'}}\nspring.cloud.gateway:\n  {}",
        route(&upstream, &format!("{SPRING_LIMITER}, LocalResponseCache=5m"))
    );
    for (place, yaml) in [
        ("first", route(&upstream, &format!("LocalResponseCache=5m, {LIMITER}"))),
        ("spring", spring),
        ("edited", route(&upstream, &format!("LocalResponseCache=5m, 'MapRequestHeader=X-Id,X-Key', {LIMITER}"))),
    ] {
        let gateway = Gateway::start(&yaml);
        let name = if place == "edited" { "x-id" } else { "x-key" };
        let first = ask(&gateway, "/x", &[(name, "ada")]);
        assert_eq!(first.0, 200, "{place}");
        assert_eq!(ask(&gateway, "/x", &[(name, "ada")]), first, "{place}: cached");
        assert_eq!(ask(&gateway, "/x", &[]), refused(401), "{place}: no key");
        let other = ask(&gateway, "/x", &[(name, "bob")]);
        assert!(other.0 == 200 && other != first, "{place}: another client has its own response");
        if place != "spring" {
            assert_eq!(ask(&gateway, "/x", &[(name, "foe")]), refused(403), "{place}: blocked");
        }
        // Hits pass uncounted in front of the limiter.
        for _ in 0..4 {
            assert_eq!(ask(&gateway, "/x", &[(name, "ada")]), first, "{place}");
        }
    }
}

#[test]
fn a_client_that_is_blocked_later_gets_no_cached_response() {
    let upstream = counting();
    let yaml =
        |block: &str| route(&upstream, &format!("LocalResponseCache=5m, {}", LIMITER.replace("block: [foe]", block)));
    let gateway = Gateway::start(&yaml("block: [foe]"));
    assert_eq!(ask(&gateway, "/x", &[("x-key", "ada")]), ok(1));
    assert_eq!(ask(&gateway, "/x", &[("x-key", "ada")]), ok(1));
    gateway.reload(&yaml("block: [ada]"));
    assert_eq!(ask(&gateway, "/x", &[("x-key", "ada")]), refused(403));
    gateway.reload(&yaml("block: [127.0.0.0/8]"));
    assert_eq!(ask(&gateway, "/x", &[("x-key", "ada")]), refused(403));
}

#[test]
fn a_limiter_before_the_cache_counts_cached_responses() {
    let upstream = counting();
    let gateway = Gateway::start(&route(&upstream, &format!("{LIMITER}, LocalResponseCache=5m")));
    let statuses = [(); 3].map(|()| ask(&gateway, "/x", &[("x-key", "ada")]));
    assert_eq!(statuses, [ok(1), ok(1), refused(429)]);
    // Edits before the cache: variables of the received path still distinguish responses.
    let yaml = format!(
        "routes: [{{id: a, uri: '{}', predicates: ['Path=/{{tenant}}/**'], filters: [StripPrefix=1, \
         LocalResponseCache=5m, 'AddRequestHeader=X-Tenant,{{tenant}}']}}]",
        upstream.uri()
    );
    let gateway = Gateway::start(&yaml);
    let [one, other, again] = ["/one/x", "/other/x", "/one/x"].map(|path| ask(&gateway, path, &[]));
    assert!(one != other && one == again, "{one:?} {other:?} {again:?}");
}

#[test]
fn a_reroute_is_not_cached_past_the_filters_of_its_route() {
    let upstream = counting();
    let gateway = Gateway::start(&format!(
        "routes:\n- {{id: a, uri: 'forward:/inner', predicates: [Path=/a], filters: [LocalResponseCache=5m]}}\n\
         - {{id: inner, uri: '{}', predicates: [Path=/inner], filters: [{LIMITER}]}}\n",
        upstream.uri()
    ));
    assert_eq!(ask(&gateway, "/a", &[("x-key", "ada")]), ok(1));
    assert_eq!(ask(&gateway, "/a", &[]), refused(401));
    assert_eq!(ask(&gateway, "/a", &[("x-key", "foe")]), refused(403));
}

#[cfg(feature = "jwt")]
#[test]
fn tokens_have_their_own_responses_until_they_expire() {
    use crate::support::tokens::{Signer, jwks, now};
    let (signer, forger) = (Signer::es256("e"), Signer::es256("e"));
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("keys.json");
    std::fs::write(&keys, jwks(&[&signer])).unwrap();
    let upstream = counting();
    let yaml = |arguments: &str| {
        format!(
            "jwt: {{jwks: '{}', header: X-Token, leeway: 0s}}\n{}",
            keys.display(),
            route(
                &upstream,
                &format!(
                    "LocalResponseCache=1h, {{name: RequestRateLimiter, args: {{replenish-rate: 100, burst-capacity: \
                     100, key-resolver: 'jwt:sub', {arguments}}}}}, RemoveRequestHeader=X-Token"
                )
            )
        )
    };
    let token = |signer: &Signer, sub: &str, life: u64| signer.token(&json!({"sub": sub, "exp": now() + life}));
    let (ada, bob, forged) = (token(&signer, "ada", 600), token(&signer, "bob", 6000), token(&forger, "ada", 600));
    for arguments in ["empty-key-status: 401", "deny-empty-key: false"] {
        let gateway = Gateway::start(&yaml(arguments));
        let ask = |token: &str| ask(&gateway, "/x", &[("x-token", token)]);
        let first = ask(&ada);
        assert_eq!((first.0, ask(&ada) == first), (200, true), "{arguments}: cached");
        assert_ne!(ask(&bob), first, "{arguments}: another token");
        for without in [forged.as_str(), "", "x"] {
            let answer = ask(without);
            match arguments {
                "deny-empty-key: false" => assert!(answer.0 == 200 && answer != first, "{without}"),
                _ => assert_eq!(answer, refused(401), "{without}"),
            }
        }
        // The response of a token is reused until its `exp` at most.
        let reused = |token: &str| {
            let answer = gateway.connect().request("GET", "/y", &[("x-token", token)], b"");
            let text = answer.header("cache-control").unwrap_or_default().to_owned();
            text.strip_prefix("max-age=").unwrap().parse::<u64>().unwrap()
        };
        assert!((500..=600).contains(&reused(&ada)), "{arguments}");
        assert_eq!(reused(&bob), 3600, "{arguments}: bounded by `timeToLive`");
    }
}
