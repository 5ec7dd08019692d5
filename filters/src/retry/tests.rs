#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::convert::Infallible;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use http::HeaderValue;
use http_body_util::{BodyExt, Full};
use tower::{Layer, ServiceExt, service_fn};

use super::*;
use crate::context::Attempts;
use crate::replay::ReceivedHeadersLayer;

/// A step of an upstream: a response, or a fault.
#[derive(Clone, Copy)]
enum Step {
    Responds(u16),
    Fails(Fault),
    Rejects(u16),
    /// Responds with `Retry-After`.
    Later(u16, &'static str),
}
use Step::*;

struct Outcome {
    status: u16,
    bodies: Vec<String>,
    headers: http::HeaderMap,
    events: Vec<RetryEvent>,
}

/// Sends `request` to an upstream that runs `script` and repeats its last step.
async fn run(settings: Settings, request: Request<Full<Bytes>>, script: &'static [Step]) -> Outcome {
    let (attempts, bodies, events) =
        (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
    let seen = Arc::clone(&bodies);
    let upstream = service_fn(move |request: Request<ReplayBody<Full<Bytes>>>| {
        let (attempts, seen) = (Arc::clone(&attempts), Arc::clone(&seen));
        async move {
            let attempt = attempts.fetch_add(1, Relaxed);
            let body = request.into_body().collect().await.unwrap().to_bytes();
            seen.lock().unwrap().push(String::from_utf8(body.to_vec()).unwrap());
            let mut response = Response::new(());
            let status = match script[attempt.min(script.len() - 1)] {
                Responds(status) => status,
                Later(status, retry_after) => {
                    response.headers_mut().insert("retry-after", HeaderValue::from_static(retry_after));
                    status
                }
                Rejects(status) => {
                    response.extensions_mut().insert(LocalReply { reason: "test" });
                    status
                }
                Fails(fault) => {
                    response.extensions_mut().insert(LocalReply { reason: "test" });
                    response.extensions_mut().insert(fault);
                    502
                }
            };
            response.headers_mut().insert("x-up", HeaderValue::from(attempt));
            *response.status_mut() = StatusCode::from_u16(status).unwrap();
            Ok::<_, Infallible>(response)
        }
    });
    let tokens = Arc::new(AtomicUsize::new(9));
    // Like a limiter, adds the remaining tokens to each response.
    let limited = tower::util::MapResponse::new(
        ReceivedHeadersLayer::default().layer(upstream),
        move |mut response: Response<()>| {
            response.headers_mut().append("x-left", HeaderValue::from(tokens.fetch_sub(1, Relaxed)));
            response
        },
    );
    let noted = Arc::clone(&events);
    let layer = RetryLayer::new(settings).on_event(Arc::new(move |event| noted.lock().unwrap().push(event)));
    let response = layer.layer(limited).oneshot(request).await.unwrap();
    let bodies = std::mem::take(&mut *bodies.lock().unwrap());
    let events = std::mem::take(&mut *events.lock().unwrap());
    Outcome { status: response.status().as_u16(), bodies, headers: response.headers().clone(), events }
}

fn request(method: Method, body: &'static str) -> Request<Full<Bytes>> {
    Request::builder().method(method).body(Full::from(body)).unwrap()
}

#[tokio::test]
async fn only_listed_methods_statuses_and_faults_are_retried() {
    let settings = Settings::default;
    let only = |status| Settings { statuses: vec![status], series: Vec::new(), ..settings() };
    let client_errors = Settings { series: vec![4], ..settings() };
    let too_many = StatusCode::TOO_MANY_REQUESTS;
    let posts = Settings { methods: vec![Method::POST], ..settings() };
    let connects = Settings { faults: FaultSet::of_class("ConnectException"), ..settings() };
    for (case, settings, method, script, status, attempts) in [
        ("a success", settings(), Method::GET, &[Responds(200)][..], 200, 1),
        ("no retries left", settings(), Method::GET, &[Responds(503)], 503, 4),
        ("the second attempt succeeds", settings(), Method::GET, &[Responds(500), Responds(200)], 200, 2),
        ("another method", settings(), Method::POST, &[Responds(503)], 503, 1),
        ("a listed method", posts.clone(), Method::POST, &[Responds(503), Responds(201)], 201, 2),
        ("GET is not listed", posts, Method::GET, &[Responds(503)], 503, 1),
        (
            "statuses do not remove the series",
            Settings { series: vec![5], ..only(too_many) },
            Method::GET,
            &[Responds(502), Responds(429), Responds(200)],
            200,
            3,
        ),
        ("only a status", only(too_many), Method::GET, &[Responds(429), Responds(503)], 503, 2),
        ("an unregistered status belongs to no series", settings(), Method::GET, &[Responds(599)], 599, 1),
        ("Spring knows 509", settings(), Method::GET, &[Responds(509), Responds(200)], 200, 2),
        ("480 is not registered", client_errors.clone(), Method::GET, &[Responds(480)], 480, 1),
        ("a local 429 belongs to its series", client_errors, Method::GET, &[Rejects(429), Responds(200)], 200, 2),
        ("a local 429 is not a 5xx", settings(), Method::GET, &[Rejects(429)], 429, 1),
        ("a local 500 is not retried", settings(), Method::GET, &[Rejects(500)], 500, 1),
        ("a broken connection", settings(), Method::GET, &[Fails(Fault::ConnectionClosed), Responds(200)], 200, 2),
        ("a response timeout", settings(), Method::GET, &[Fails(Fault::ResponseTimeout), Responds(200)], 200, 2),
        ("faults belong to no series", connects.clone(), Method::GET, &[Fails(Fault::ConnectionClosed)], 502, 1),
        ("a listed fault", connects, Method::GET, &[Fails(Fault::Unreachable), Responds(200)], 200, 2),
        ("an open breaker", settings(), Method::GET, &[Fails(Fault::CircuitOpen)], 502, 1),
        ("switching protocols", Settings { series: vec![1, 5], ..settings() }, Method::GET, &[Responds(101)], 101, 1),
    ] {
        let ran = run(settings, request(method, ""), script).await;
        assert_eq!((ran.status, ran.bodies.len()), (status, attempts), "{case}");
    }
}

#[tokio::test]
async fn bodies_up_to_the_limit_are_replayed_and_larger_ones_are_sent_once() {
    let settings = Settings { methods: vec![Method::PUT], max_body_bytes: 5, ..Settings::default() };
    let ran = run(settings.clone(), request(Method::PUT, "hello"), &[Responds(503), Responds(200)]).await;
    assert_eq!((ran.status, ran.bodies), (200, vec!["hello".to_owned(), "hello".to_owned()]));
    let ran = run(settings, request(Method::PUT, "hello!"), &[Responds(503), Responds(200)]).await;
    assert_eq!((ran.status, ran.bodies), (503, vec!["hello!".to_owned()]));
}

#[tokio::test]
async fn discarded_responses_lose_upstream_headers_and_keep_those_of_filters() {
    let ran = run(
        Settings::default(),
        request(Method::GET, ""),
        &[Responds(503), Fails(Fault::ConnectionClosed), Responds(200)],
    )
    .await;
    assert_eq!(ran.headers.get_all("x-left").iter().collect::<Vec<_>>(), ["9", "8", "7"]);
    assert_eq!(ran.headers.get_all("x-up").iter().collect::<Vec<_>>(), ["2"]);
    let ran = run(Settings::default(), request(Method::GET, ""), &[Responds(503)]).await;
    assert_eq!(ran.headers.get_all("x-left").iter().count(), 4);
}

#[tokio::test]
async fn upgrades_are_sent_once() {
    let upgrade = Request::builder().header("upgrade", "websocket").body(Full::default()).unwrap();
    assert_eq!(run(Settings::default(), upgrade, &[Responds(503)]).await.bodies.len(), 1);
    let mut marked = request(Method::GET, "");
    marked.extensions_mut().insert(UpgradeRequested);
    assert_eq!(run(Settings::default(), marked, &[Responds(503)]).await.bodies.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn retries_are_delayed_and_none_starts_after_the_timeout() {
    let backoff = Backoff { first: Duration::from_millis(100), ..Backoff::default() };
    let settings = Settings { backoff: Some(backoff), ..Settings::default() };
    let started = Instant::now();
    let ran = run(settings.clone(), request(Method::GET, ""), &[Responds(503)]).await;
    assert_eq!((ran.bodies.len(), started.elapsed()), (4, Duration::from_millis(700)));
    let settings = Settings { timeout: Some(Duration::from_millis(350)), ..settings };
    let started = Instant::now();
    let ran = run(settings, request(Method::GET, ""), &[Responds(503)]).await;
    assert_eq!((ran.bodies.len(), started.elapsed()), (3, Duration::from_millis(300)), "100 + 200, and not 400 more");
    assert_eq!(ran.events, [RetryEvent::Retried, RetryEvent::Retried, RetryEvent::LimitReached]);
}

#[tokio::test(start_paused = true)]
async fn a_retry_waits_as_long_as_the_response_says_within_the_bound_of_the_backoff() {
    let obeying = Settings { obeys_retry_after: true, ..Settings::default() };
    let millis = Duration::from_millis;
    let backoff = |first, max| Some(Backoff { first: millis(first), max, ..Backoff::default() });
    for (case, settings, script, status, attempts, waited) in [
        ("as told", obeying.clone(), &[Later(503, "2"), Responds(200)][..], 200, 2, millis(2_000)),
        ("up to ten seconds", obeying.clone(), &[Later(503, "10"), Responds(200)], 200, 2, millis(10_000)),
        ("not longer", obeying.clone(), &[Later(503, "11"), Responds(200)], 503, 1, millis(0)),
        ("ignored", Settings::default(), &[Later(503, "11"), Responds(200)], 200, 2, millis(0)),
        ("unreadable", obeying.clone(), &[Later(503, "soon"), Responds(200)], 200, 2, millis(0)),
        (
            "at least the backoff, which grows from itself",
            Settings { backoff: backoff(1_500, None), ..obeying.clone() },
            &[Later(503, "1"), Later(503, "4"), Responds(503), Responds(200)],
            200,
            4,
            millis(1_500 + 4_000 + 6_000),
        ),
        (
            "above the longest pause",
            Settings { backoff: backoff(5, Some(millis(500))), ..obeying.clone() },
            &[Later(503, "1"), Responds(200)],
            503,
            1,
            millis(0),
        ),
        (
            "within the timeout",
            Settings { timeout: Some(millis(1_500)), ..obeying },
            &[Later(503, "2"), Responds(200)],
            503,
            1,
            millis(0),
        ),
    ] {
        let started = Instant::now();
        let ran = run(settings, request(Method::GET, ""), script).await;
        assert_eq!((ran.status, ran.bodies.len(), started.elapsed()), (status, attempts, waited), "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_budget_limits_retries_in_an_outage() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let upstream = service_fn(move |_: Request<ReplayBody<Full<Bytes>>>| {
        counted.fetch_add(1, Relaxed);
        let mut response = Response::new(());
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        async { Ok::<_, Infallible>(response) }
    });
    let settings = Settings { budget: Budget::new(20.0, 1), ..Settings::default() };
    let layer = RetryLayer::new(settings);
    for _ in 0..1_000 {
        layer.layer(upstream.clone()).oneshot(request(Method::GET, "")).await.unwrap();
    }
    // 20 % of 1,000 requests, and one a second for ten seconds.
    assert_eq!(calls.load(Relaxed), 1_000 + 200 + 10);
    assert_eq!(Budget::new(-1.0, 1), None);
    assert_eq!(Budget::new(f32::NAN, 1), None);
}

#[tokio::test]
async fn each_attempt_knows_the_endpoints_of_earlier_ones() {
    let known = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&known);
    let upstream = service_fn(move |request: Request<ReplayBody<Full<Bytes>>>| {
        let attempts = request.extensions().get::<Attempts>().unwrap().clone();
        let free = (1..).find(|endpoint| !attempts.tried(*endpoint)).unwrap();
        attempts.note(free);
        noted.lock().unwrap().push(free);
        let mut response = Response::new(());
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        async { Ok::<_, Infallible>(response) }
    });
    RetryLayer::new(Settings::default()).layer(upstream).oneshot(request(Method::GET, "")).await.unwrap();
    assert_eq!(*known.lock().unwrap(), [1, 2, 3, 4]);
}

#[tokio::test]
async fn several_layers_share_one_count_of_retries() {
    for (outer, inner, attempts) in [(2, 2, 3), (1, 3, 4), (3, 1, 4)] {
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&calls);
        let upstream = service_fn(move |_: Request<ReplayBody<ReplayBody<Full<Bytes>>>>| {
            counted.fetch_add(1, Relaxed);
            let mut response = Response::new(());
            *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
            async { Ok::<_, Infallible>(response) }
        });
        let [outer_layer, inner_layer] =
            [outer, inner].map(|retries| RetryLayer::new(Settings { retries, ..Settings::default() }));
        outer_layer.layer(inner_layer.layer(upstream)).oneshot(request(Method::GET, "")).await.unwrap();
        assert_eq!(calls.load(Relaxed), attempts, "{outer} outside, {inner} inside");
    }
}
