//! Keys from `Authorization`, whose scheme ignores case: each spelling of one credential is one key.

use crate::support::client::Connection;
use crate::support::gateway::Gateway;
use crate::support::redis::Redis;

use crate::concurrency::Holding;

const ROUTE: &str = "routes: [{id: a, uri: 'echo:', predicates: [Path=/a], filters: [{name: FILTER, args: {ARGS}}]}]\n";

/// Returns the 64 ways to write the letters of `bearer` in front of `token`, with one or two spaces.
fn spellings(token: &str) -> Vec<String> {
    let letters = |mask: usize| {
        let cased =
            |(at, letter): (usize, char)| if mask >> at & 1 == 1 { letter.to_ascii_uppercase() } else { letter };
        "bearer".chars().enumerate().map(cased).collect::<String>()
    };
    (0..64).map(|mask| format!("{}{}{token}", letters(mask), if mask % 3 == 0 { "  " } else { " " })).collect()
}

fn yaml(filter: &str, arguments: &str) -> String {
    ROUTE.replace("FILTER", filter).replace("ARGS", &format!("key-resolver: 'header:Authorization', {arguments}"))
}

fn ask(client: &mut Connection, credentials: &str) -> u16 {
    client.request("GET", "/a", &[("authorization", credentials)], b"").status
}

/// Sends each spelling of `token`; returns the number admitted.
fn admitted(gateway: &Gateway, token: &str) -> usize {
    let mut client = gateway.connect();
    spellings(token).iter().filter(|credentials| ask(&mut client, credentials) == 200).count()
}

#[test]
fn every_spelling_of_one_credential_is_one_key_in_memory_and_in_redis() {
    let redis = Redis::start();
    let in_memory = yaml("RequestRateLimiter", "algorithm: fixed-window, limit: 3, window: 1h");
    let in_redis = format!("redis: {{url: '{}', timeout: 5s}}\n{in_memory}", redis.url());
    for yaml in [in_memory, in_redis] {
        let gateway = Gateway::start(&yaml);
        assert_eq!(admitted(&gateway, "k"), 3, "{yaml}");
        let mut client = gateway.connect();
        assert_eq!([ask(&mut client, "Bearer K"), ask(&mut client, "Basic k")], [200, 200], "other credentials");
        assert_eq!(ask(&mut client, "Bearer\tk"), 429);
        for key in ["bearer%20k", "Bearer%20k", "BEARER%20%20k"] {
            let state = gateway.admin(&format!("/api/limits/a/{key}")).json();
            assert_eq!(state["limits"][0]["remaining"], 0, "{key}");
        }
    }
}

#[test]
fn composite_keys_have_the_normal_form_too() {
    let limiter = "{name: RequestRateLimiter, args: {key-resolver: ['header:Authorization', method], \
                   algorithm: fixed-window, limit: 3, window: 1h}}";
    let gateway =
        Gateway::start(&format!("routes: [{{id: a, uri: 'echo:', predicates: [Path=/a], filters: [{limiter}]}}]"));
    assert_eq!(admitted(&gateway, "k"), 3);
}

#[test]
fn lists_and_plans_apply_to_every_spelling() {
    let limit = "algorithm: fixed-window, limit: 3, window: 1h";
    for listed in ["Bearer k", "bearer k", "BEARER  k"] {
        let gateway = Gateway::start(&yaml("RequestRateLimiter", &format!("{limit}, block: ['{listed}']")));
        assert_eq!(admitted(&gateway, "k"), 0, "{listed} is blocked");
        let gateway = Gateway::start(&yaml("RequestRateLimiter", &format!("{limit}, exempt: ['{listed}']")));
        assert_eq!(admitted(&gateway, "k"), 64, "{listed} is exempt");
        let plans = format!(
            "plans: {{free: {{{limit}}}, gold: {{algorithm: fixed-window, limit: 5, window: 1h}}}}, default-plan: free, \
             plan-resolver: {{table: {{'{listed}': gold}}}}"
        );
        let gateway = Gateway::start(&yaml("RequestRateLimiter", &plans));
        assert_eq!([admitted(&gateway, "k"), admitted(&gateway, "other")], [5, 3], "{listed} has a plan");
        assert_eq!(gateway.admin("/api/limits/a/bearer%20k").json()["plan"], "gold");
    }
}

#[test]
fn a_concurrency_limiter_counts_every_spelling_as_one_key() {
    let holding = Holding::start();
    let gateway = Gateway::start(
        &yaml("ConcurrencyLimiter", "limit: 1")
            .replace("echo:", &holding.upstream.uri())
            .replace("Path=/a", "Path=/**"),
    );
    let mut first = gateway.connect();
    first.send("GET /hold HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer k\r\n\r\n");
    assert!(first.until(b"\r\n\r\n").starts_with(b"HTTP/1.1 200"), "the first request is in flight");
    assert_eq!([admitted(&gateway, "k"), admitted(&gateway, "other")], [0, 64]);
    holding.let_go();
}
