//! `Retry` beside other filters of its route: further `Retry`, and a `CircuitBreaker` with a fallback.

use crate::support::gateway::Gateway;
use crate::support::upstream::{Upstream, response};

#[test]
fn retry_filters_of_a_request_share_one_count() {
    for nested in
        ["Retry=2", "Retry=1", "{name: Retry, args: {retries: 2, methods: GET, statuses: SERVICE_UNAVAILABLE}}"]
    {
        let upstream = Upstream::start(|_| response(503, &[], b""));
        let lists = format!(
            "  default-filters: [Retry=2]\n  routes: [{{id: a, uri: '{}', predicates: [Path=/a], filters: [{nested}]}}]\n",
            upstream.uri()
        );
        for (form, yaml) in [
            ("Spring", format!("spring:\n cloud:\n  gateway:\n{}", lists.replace("  ", "   "))),
            ("own", lists.replace("  default", "default").replace("  routes", "routes")),
        ] {
            let before = upstream.requests().len();
            let gateway = Gateway::start(&yaml);
            assert_eq!(gateway.connect().request("GET", "/a", &[], b"").status, 503);
            assert_eq!(upstream.requests().len() - before, 3, "{form} form with {nested}");
        }
    }
}

/// Both forms; `OUT` responds with 503, and so does the fallback at `SORRY`.
const OPEN_BREAKER: &str = r#"
resilience4j:
  circuitbreaker:
    configs: {default: {sliding-window-size: 2, minimum-number-of-calls: 2, wait-duration-in-open-state: 1h}}
  timelimiter: {configs: {default: {timeout-duration: 30s}}}
routes:
- id: a
  uri: OUT
  predicates: [Path=/a]
  filters: [Retry=3, {name: CircuitBreaker, args: {name: a, fallbackUri: "forward:/sorry", statusCodes: [503]}}]
- id: named
  uri: OUT
  predicates: [Path=/named]
  filters:
  - {name: Retry, args: {retries: 3, exceptions: CallNotPermittedException}}
  - {name: CircuitBreaker, args: {name: a, fallbackUri: "forward:/sorry", statusCodes: [503]}}
- {id: sorry, uri: SORRY, predicates: [Path=/sorry]}
"#;

#[test]
fn an_open_breaker_ends_the_retries_whatever_its_fallback_responds() {
    let (out, sorry) =
        (Upstream::start(|_| response(503, &[], b"")), Upstream::start(|_| response(503, &[], b"sorry")));
    let yaml = OPEN_BREAKER.replace("OUT", &out.uri()).replace("SORRY", &sorry.uri());
    let (breakers, routes) = yaml.split_once("routes:\n").unwrap();
    let indented: String = routes.lines().map(|line| format!("   {line}\n")).collect();
    let spring = format!("{breakers}spring:\n cloud:\n  gateway:\n   routes:\n{indented}");
    for yaml in [yaml.clone(), spring] {
        let gateway = Gateway::start(&yaml);
        let calls = || [out.requests().len(), sorry.requests().len()];
        let get = |path: &str| {
            let before = calls();
            let answer = gateway.connect().request("GET", path, &[], b"");
            assert_eq!((answer.status, answer.text().as_str()), (503, "sorry"));
            let after = calls();
            [after[0] - before[0], after[1] - before[1]]
        };
        assert_eq!(get("/a"), [2, 3], "the second failure opens the breaker, and the next attempt is the last");
        assert_eq!(get("/a"), [0, 1], "open: one call of the fallback");
        assert_eq!(get("/named"), [0, 4], "retried, since the exception of an open breaker is listed");
    }
}

#[test]
fn retries_obey_retry_after_in_our_own_form_and_ignore_it_in_a_spring_file() {
    let upstream = Upstream::start(|_| response(503, &[("Retry-After", "11")], b"later"));
    let route = format!("routes: [{{id: a, uri: '{}', predicates: [Path=/**], filters: [", upstream.uri());
    for (yaml, attempts) in [
        (format!("{route}Retry=2]}}]"), 1),
        (format!("{route}{{name: Retry, args: {{retries: 2, retry-after: ignore}}}}]}}]"), 3),
        (format!("filter.retry.retry-after: ignore\n{route}Retry=2]}}]"), 3),
        (format!("spring.cloud.gateway.{route}Retry=2]}}]"), 3),
    ] {
        let before = upstream.requests().len();
        let answer = Gateway::start(&yaml).get("/");
        assert_eq!((answer.status, answer.header("retry-after")), (503, Some("11")), "{yaml}");
        assert_eq!(upstream.requests().len() - before, attempts, "{yaml}");
    }
}

#[test]
fn a_retry_waits_for_the_time_that_the_upstream_names() {
    let upstream = Upstream::start({
        let seen = std::sync::atomic::AtomicBool::new(false);
        move |_| match seen.swap(true, std::sync::atomic::Ordering::Relaxed) {
            false => response(503, &[("Retry-After", "1")], b"later"),
            true => response(200, &[], b"now"),
        }
    });
    let gateway = Gateway::filtering(&upstream.uri(), "[Retry=2]");
    let started = std::time::Instant::now();
    assert_eq!(gateway.get("/").text(), "now");
    assert!(started.elapsed() >= std::time::Duration::from_secs(1), "{:?}", started.elapsed());
}
