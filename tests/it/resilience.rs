//! `Retry`, `CircuitBreaker`, `FallbackHeaders`, `forward:` and `no://`, in front of an upstream that fails on demand.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::sync::Mutex;

use crate::support::client::Response;
use crate::support::gateway::Gateway;
use crate::support::upstream::{Request, Upstream, read_request, response};
use crate::support::{eventually, free_address};

/// `UP` is the address of the upstream; no server listens at `CLOSED`.
const RETRIES: &str = r#"
routes:
- {id: plain, uri: UP, predicates: [Path=/plain], filters: [Retry=2]}
- id: posts
  uri: UP
  predicates: [Path=/posts]
  filters: [{name: Retry, args: {retries: 1, methods: "POST,PUT", statuses: TOO_MANY_REQUESTS, maxBodySize: 8}}]
- {id: pauses, uri: UP, predicates: [Path=/pauses], filters: ["Retry=2,BAD_GATEWAY,GET,5ms,10ms,2,true,0.5"]}
- id: limited
  uri: UP
  predicates: [Path=/limited]
  filters:
  - Retry=2
  - SetResponseHeader=X-Set,one
  - AddResponseHeader=X-Add,each
  - {name: RequestRateLimiter, args: {replenish-rate: 1, burst-capacity: 10, key-resolver: "header:x-case"}}
- id: denied
  uri: UP
  predicates: [Path=/denied]
  filters:
  - Retry=2
  - {name: RequestRateLimiter, args: {replenish-rate: 1, period: 1h, burst-capacity: 1, key-resolver: "header:x-case"}}
- id: tight
  uri: UP
  predicates: [Path=/tight]
  filters: [{name: Retry, args: {budget.percent: 0, budget.minPerSecond: 0}}]
- {id: gone, uri: CLOSED, predicates: [Path=/gone], filters: [Retry=2]}
- {id: late, uri: UP, predicates: [Path=/late], filters: [Retry=1], metadata: {response-timeout: 100}}
- id: old
  uri: forward:/x/forwarded
  predicates: [Path=/old/**]
  filters: [StripPrefix=1, "AddRequestHeader=X-Old,yes"]
- {id: new, uri: UP, predicates: [Path=/forwarded, Header=X-Old]}
- {id: circle, uri: "forward:/circle", predicates: [Path=/circle]}
- {id: lost, uri: "forward:/nowhere", predicates: [Path=/lost]}
- {id: none, uri: "no://op", predicates: [Path=/none], filters: [SetStatus=401, "AddResponseHeader=X-Own,1"]}
- {id: empty, uri: "no://op", predicates: [Path=/empty]}
"#;

const BREAKERS: &str = r#"
resilience4j:
  circuitbreaker:
    configs:
      default:
        sliding-window-size: 2
        minimum-number-of-calls: 2
        wait-duration-in-open-state: 200ms
        permitted-number-of-calls-in-half-open-state: 1
    instances: {patient: {wait-duration-in-open-state: 1h}, early: {wait-duration-in-open-state: 1h}}
  timelimiter:
    configs: {default: {timeout-duration: 10s}}
    instances: {late: {timeout-duration: 100ms}, early: {timeout-duration: 100ms}}
routes:
- {id: cycle, uri: UP, predicates: [Path=/cycle], filters: [{name: CircuitBreaker, args: {statusCodes: [500]}}]}
- {id: patient, uri: UP, predicates: [Path=/patient], filters: [CircuitBreaker]}
- {id: late, uri: UP, predicates: [Path=/late], filters: [CircuitBreaker]}
- id: resumed
  uri: CLOSED
  predicates: [Path=/resumed]
  filters: [{name: CircuitBreaker, args: {resumeWithoutError: true}}]
- id: reason
  uri: UP
  predicates: ["Path=/reason/{case}"]
  filters:
  - AddRequestHeader=X-Before,1
  - {name: CircuitBreaker, args: {name: early, fallbackUri: "forward:/fallback/{case}", statusCodes: [BAD_REQUEST]}}
  - AddRequestHeader=X-After,1
  - AddResponseHeader=X-Own,1
- id: gone
  uri: CLOSED
  predicates: [Path=/gone]
  filters: [{name: CircuitBreaker, args: {fallbackUri: "forward:/fallback/gone?why=gone"}}]
- id: fallback
  uri: UP
  predicates: [Path=/fallback/**]
  filters:
  - {name: FallbackHeaders, args: {rootCauseExceptionTypeHeaderName: X-Root}}
  - StripPrefix=1
  - RemoveRequestHeader=X-Script
"#;

/// Upstream that runs the script in `X-Script`: one step for each request of the same `X-Case`. The last step repeats.
/// A step is a status, `reset` (closes the connection) or `never` (waits until the gateway closes). Without a script,
/// the upstream responds with 200.
fn scripted() -> Upstream {
    let turns: Mutex<HashMap<String, usize>> = Mutex::default();
    Upstream::scripted(move |stream, seen| {
        while let Some(request) = read_request(stream) {
            let (case, script) = (
                request.header("x-case").unwrap_or("").to_owned(),
                request.header("x-script").unwrap_or("200").to_owned(),
            );
            seen(request);
            let turn = {
                let mut turns = turns.lock().unwrap();
                let turn = turns.entry(case).or_default();
                *turn += 1;
                *turn
            };
            let steps: Vec<&str> = script.split(' ').collect();
            match steps[(turn - 1).min(steps.len() - 1)] {
                "reset" => return,
                "never" => {
                    let _ = stream.read(&mut [0]);
                    return;
                }
                status => {
                    let turn = turn.to_string();
                    let answer = response(status.parse().unwrap(), &[("X-Turn", &turn)], b"upstream");
                    if stream.write_all(&answer).is_err() {
                        return;
                    }
                }
            }
        }
    })
}

/// A request, and the script that the upstream runs for its case.
#[derive(Clone, Copy)]
struct Ask<'a> {
    case: &'a str,
    method: &'a str,
    target: &'a str,
    script: &'a str,
    more: &'a [(&'a str, &'a str)],
    body: &'a str,
}

impl<'a> Ask<'a> {
    fn get(case: &'a str, target: &'a str, script: &'a str) -> Self {
        Self { case, method: "GET", target, script, more: &[], body: "" }
    }

    /// Returns the response, and the requests of this case that the upstream received.
    fn send(self, gateway: &Gateway, upstream: &Upstream) -> (Response, Vec<Request>) {
        let headers = [&[("x-case", self.case), ("x-script", self.script)], self.more].concat();
        let answer = gateway.connect().request(self.method, self.target, &headers, self.body.as_bytes());
        let is_of_case = |request: &Request| request.header("x-case") == Some(self.case);
        (answer, upstream.requests().into_iter().filter(is_of_case).collect())
    }
}

fn start(yaml: &str, upstream: &Upstream) -> (Gateway, String) {
    let yaml = yaml.replace("UP", &upstream.uri()).replace("CLOSED", &format!("http://{}", free_address()));
    (Gateway::start(&yaml), yaml)
}

#[test]
fn failed_requests_are_retried_as_configured() {
    let upstream = scripted();
    let (gateway, _) = start(RETRIES, &upstream);
    // The pool repeats a GET on a broken connection before Retry sees the failure; it does not repeat a POST.
    for (number, (method, target, script, body, status, attempts)) in [
        ("GET", "/plain", "200", "", 200, 1),
        ("GET", "/plain", "503 reset 200", "", 200, 3),
        ("GET", "/plain", "500 502 504 200", "", 504, 3),
        ("GET", "/plain", "404", "", 404, 1),
        ("GET", "/plain", "599", "", 599, 1),
        ("POST", "/plain", "503", "", 503, 1),
        ("POST", "/posts", "429 503", "12345678", 503, 2),
        ("POST", "/posts", "reset 201", "12345678", 201, 2),
        ("POST", "/posts", "503 200", "123456789", 503, 1),
        ("GET", "/posts", "503", "", 503, 1),
        ("GET", "/pauses", "503 502 200", "", 200, 3),
        ("GET", "/denied", "200", "", 200, 1),
        ("GET", "/tight", "503 200", "", 503, 1),
        ("GET", "/late", "never 200", "", 200, 2),
        ("GET", "/gone", "200", "", 502, 0),
        ("GET", "/old/a?b=c", "200", "", 200, 1),
        ("GET", "/circle", "200", "", 508, 0),
        ("GET", "/lost", "200", "", 404, 0),
        ("GET", "/none", "200", "", 401, 0),
        ("GET", "/empty", "200", "", 200, 0),
    ]
    .into_iter()
    .enumerate()
    {
        let case = format!("row {number}");
        let what = format!("{case}: {method} {target} {script}");
        let ask = Ask { method, body, ..Ask::get(&case, target, script) };
        let (answer, seen) = ask.send(&gateway, &upstream);
        assert_eq!((answer.status, seen.len()), (status, attempts), "{what}");
        assert!(seen.iter().all(|request| request.body == body.as_bytes()), "{what}");
        assert!(answer.all("x-turn").len() <= 1, "{what}");
        match target {
            // The route's filters see the path after the forward.
            "/old/a?b=c" => assert_eq!(seen[0].target(), "/forwarded?b=c"),
            "/none" => assert_eq!((answer.header("x-own"), answer.body.len()), (Some("1"), 0)),
            _ => {}
        }
    }

    let (answer, seen) = Ask::get("limiter", "/limited", "503 503 200").send(&gateway, &upstream);
    assert_eq!((answer.status, seen.len()), (200, 3));
    // Every attempt takes a token and reports it, the latest first.
    assert_eq!(answer.all("x-ratelimit-remaining"), ["7", "8", "9"]);
    let others = (answer.all("x-set"), answer.all("x-add"), answer.all("x-turn"));
    assert_eq!(others, (vec!["one"], vec!["each"; 3], vec!["3"]));
    let (answer, seen) = Ask::get("row 11", "/denied", "200").send(&gateway, &upstream);
    assert_eq!((answer.status, seen.len()), (429, 1), "a denied request is not retried");
    assert_eq!(answer.all("x-ratelimit-remaining"), ["0"]);

    let more =
        &[("connection", "upgrade"), ("upgrade", "websocket"), ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==")];
    let (answer, seen) = Ask { more, ..Ask::get("upgrade", "/plain", "503 101") }.send(&gateway, &upstream);
    assert_eq!((answer.status, seen.len()), (503, 1), "an upgrade is sent once");
    let of = |outcome: &str| gateway.metric("tollgate_retries_total", &[&format!("outcome=\"{outcome}\"")]);
    assert_eq!((of("retried"), of("over_budget"), of("gave_up")), (12.0, 1.0, 3.0));
}

#[test]
fn circuit_breakers_change_state_and_fallbacks_receive_the_reason() {
    let upstream = scripted();
    let (gateway, yaml) = start(BREAKERS, &upstream);
    let cycle = || Ask::get("cycle", "/cycle", "200 500 500 reset 200").send(&gateway, &upstream);
    let is = |state: &str| {
        let labels = ["name=\"cycle\"", &format!("state=\"{state}\"")];
        gateway.metric("tollgate_circuit_breaker_state", &labels) == 1.0
    };
    // The breaker opens when half of the calls in the window failed.
    assert_eq!([cycle().0.status, cycle().0.status], [200, 500], "a failing status is still the response");
    assert!(is("open"), "{}", gateway.log());
    let (refused, seen) = cycle();
    assert_eq!(
        (refused.status, refused.header("retry-after"), seen.len()),
        (503, Some("1"), 2),
        "the upstream is not called"
    );
    eventually("the trial call is sent and fails", || cycle().0.status == 500);
    assert!(is("open"));
    // The connection breaks, and the pool replaces it.
    eventually("the next trial call succeeds", || cycle().0.status == 200);
    assert!(is("closed"));
    assert_eq!(cycle().0.status, 200);
    for said in ["circuit breaker opened", "circuit breaker half-open", "circuit breaker closed"] {
        gateway.logged(said);
    }
    let calls = |kind: &str| {
        gateway.metric("tollgate_circuit_breaker_calls_total", &["name=\"cycle\"", &format!("kind=\"{kind}\"")])
    };
    assert_eq!((calls("successful"), calls("failed")), (3.0, 2.0));
    assert!(calls("not_permitted") >= 1.0);

    for expected in [504, 504, 503] {
        assert_eq!(Ask::get("late", "/late", "never").send(&gateway, &upstream).0.status, expected);
    }
    let (resumed, _) = Ask::get("resumed", "/resumed", "200").send(&gateway, &upstream);
    assert_eq!((resumed.status, resumed.body.len()), (200, 0));

    // A status, then a timeout; then the breaker is open.
    let classes = [
        ("SpringCloudCircuitBreakerFilterFactory$CircuitBreakerStatusCodeException", "400 BAD_REQUEST"),
        ("java.util.concurrent.TimeoutException", "Did not observe any item or terminal signal within 100ms"),
        ("io.github.resilience4j.circuitbreaker.CallNotPermittedException", "CircuitBreaker 'early' is OPEN"),
    ];
    let more = &[("origin", "http://c")];
    // The fallback route removes the script, so that the upstream answers.
    let reason = Ask { method: "POST", more, body: "hello", ..Ask::get("reason", "/reason/b?q=1", "400 never") };
    for (turn, (class, message)) in classes.into_iter().enumerate() {
        let (answer, seen) = reason.send(&gateway, &upstream);
        let asked = seen.last().unwrap();
        assert_eq!((answer.status, answer.text().as_str()), (200, "upstream"));
        assert_eq!((asked.target(), asked.body.as_slice()), ("/b?q=1", b"hello".as_slice()));
        let added = (asked.header("x-before"), asked.header("x-after"), asked.header("origin"));
        assert_eq!(added, (Some("1"), None, None));
        assert!(asked.header("execution-exception-type").unwrap().ends_with(class), "{asked:?}");
        assert!(asked.header("execution-exception-message").unwrap().starts_with(message), "{asked:?}");
        assert_eq!(asked.header("x-root"), asked.header("execution-exception-type"));
        // Fields that a filter added to the dropped response stay; fields of the upstream do not.
        assert_eq!((answer.all("x-own").len(), answer.all("x-turn").len()), (usize::from(turn == 0), 1));
    }
    let (answer, seen) = Ask::get("gone", "/gone?q=1", "200").send(&gateway, &upstream);
    assert_eq!((answer.status, seen[0].target()), (200, "/gone?why=gone"));
    assert_eq!(seen[0].header("execution-exception-type"), Some("java.net.ConnectException"));

    // A breaker keeps its state across a reload that leaves it unchanged.
    let once = Ask { method: "POST", body: "once", ..Ask::get("patient", "/patient", "reset") };
    for expected in [502, 502, 503] {
        assert_eq!(once.send(&gateway, &upstream).0.status, expected);
    }
    gateway.reload(&yaml.replace("[Path=/resumed]", "[Path=/resumed/again]"));
    eventually("the new routes serve", || gateway.get("/resumed").status == 404);
    assert_eq!(Ask::get("patient", "/patient", "200").send(&gateway, &upstream).0.status, 503);
    gateway.reload(&yaml.replace("patient: {wait-duration-in-open-state: 1h}", "patient: {}"));
    let is_closed = || Ask::get("changed", "/patient", "200").send(&gateway, &upstream).0.status == 200;
    eventually("a breaker with changed settings starts closed", is_closed);
}
