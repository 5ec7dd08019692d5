#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::convert::Infallible;
use std::num::NonZeroU32;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use http::HeaderValue;
use http_body_util::{BodyExt, Full};
use tower::util::BoxCloneService;
use tower::{ServiceExt, service_fn};

use super::*;
use crate::context::LocalReply;
use crate::fault::{FallbackCause, Fault};
use crate::replay::ReceivedHeadersLayer;

type Inner = BoxCloneService<Request<ReplayBody<Full<Bytes>>>, Response<Full<Bytes>>, Infallible>;

/// A step of an upstream.
#[derive(Clone, Copy)]
enum Step {
    Responds(u16),
    Fails(Fault),
    Rejects(u16),
    Waits(u64),
}
use Step::*;

/// Creates an upstream that runs `script` and repeats its last step. A filter before it adds `x-own` to each response.
fn upstream(script: &'static [Step], calls: &Arc<AtomicUsize>) -> Inner {
    let calls = Arc::clone(calls);
    let upstream = service_fn(move |request: Request<ReplayBody<Full<Bytes>>>| {
        let step = script[calls.fetch_add(1, Relaxed).min(script.len() - 1)];
        async move {
            request.into_body().collect().await.unwrap();
            let mut response = Response::new(Full::from("upstream"));
            response.headers_mut().insert("x-up", HeaderValue::from_static("1"));
            let status = match step {
                Responds(status) => status,
                Waits(millis) => {
                    tokio::time::sleep(Duration::from_millis(millis)).await;
                    200
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
            *response.status_mut() = StatusCode::from_u16(status).unwrap();
            Ok::<_, Infallible>(response)
        }
    });
    let owned = tower::util::MapResponse::new(
        ReceivedHeadersLayer::default().layer(upstream),
        |mut response: Response<Full<Bytes>>| {
            response.headers_mut().append("x-own", HeaderValue::from_static("1"));
            response
        },
    );
    BoxCloneService::new(owned)
}

/// Creates a fallback that responds with 203, the body and the class of the exception.
fn fallback(seen: &Arc<Mutex<Vec<FallbackCause>>>) -> Inner {
    let seen = Arc::clone(seen);
    BoxCloneService::new(service_fn(move |request: Request<ReplayBody<Full<Bytes>>>| {
        seen.lock().unwrap().push(request.extensions().get::<FallbackCause>().unwrap().clone());
        async move {
            let mut response = Response::new(Full::from(request.into_body().collect().await.unwrap().to_bytes()));
            *response.status_mut() = StatusCode::NON_AUTHORITATIVE_INFORMATION;
            Ok::<_, Infallible>(response)
        }
    }))
}

fn rules() -> Rules {
    let two = NonZeroU32::new(2).unwrap();
    Rules { window: WindowSize::Calls(two), minimum_calls: 2, trial_calls: 1, ..Rules::default() }
}

fn layer(settings: Settings) -> (CircuitBreakerLayer, Arc<Breaker>) {
    let breaker = Arc::new(Breaker::new("test".into(), rules()));
    (CircuitBreakerLayer::new(Arc::clone(&breaker), settings), breaker)
}

fn request(body: &'static str) -> Request<Full<Bytes>> {
    Request::builder().method("POST").body(Full::from(body)).unwrap()
}

#[tokio::test(start_paused = true)]
async fn responses_without_a_fallback_and_the_counted_outcomes() {
    let plain = Settings::default();
    let statuses = Settings { failure_statuses: vec![StatusCode::BAD_REQUEST], ..plain.clone() };
    let resumes = Settings { resume_without_error: true, ..statuses.clone() };
    let only_timeouts = Settings { recorded: FaultSet::of_class("TimeoutException"), ..plain.clone() };
    let no_io = Settings { ignored: FaultSet::of_class("IOException"), ..plain.clone() };
    let unlimited = Settings { time_limit: None, ..plain.clone() };
    let (good, bad, none) = (CallKind::Successful, CallKind::Failed, CallKind::Ignored);
    for (case, settings, step, status, body, kind) in [
        ("a success", plain.clone(), Responds(200), 200, "upstream", good),
        ("a 500 that is not listed", plain.clone(), Responds(500), 500, "upstream", good),
        ("a listed status", statuses.clone(), Responds(400), 400, "upstream", bad),
        ("a listed status of a filter", statuses, Rejects(400), 400, "upstream", bad),
        ("another status of a filter", plain.clone(), Rejects(429), 429, "upstream", none),
        ("no connection", plain.clone(), Fails(Fault::Unreachable), 502, "upstream", bad),
        ("resumed without error", resumes.clone(), Fails(Fault::Unreachable), 200, "", bad),
        ("a status is not resumed", resumes.clone(), Responds(400), 400, "upstream", bad),
        ("past the time limit", plain.clone(), Waits(1_001), 504, "Gateway Timeout\n", bad),
        ("within the time limit", plain, Waits(999), 200, "upstream", good),
        ("a timeout is not resumed", resumes, Waits(1_001), 504, "Gateway Timeout\n", bad),
        ("without a time limit", unlimited, Waits(3_600_000), 200, "upstream", good),
        ("a fault that is not recorded", only_timeouts.clone(), Fails(Fault::ConnectionClosed), 502, "upstream", good),
        ("a recorded fault", only_timeouts, Waits(1_001), 504, "Gateway Timeout\n", bad),
        ("an ignored fault", no_io, Fails(Fault::ConnectionClosed), 502, "upstream", none),
    ] {
        let (layer, breaker) = layer(settings);
        let calls = Arc::default();
        let script: &'static [Step] = Box::leak(Box::new([step]));
        let response = layer.layer(upstream(script, &calls)).oneshot(request("")).await.unwrap();
        assert_eq!(response.status(), status, "{case}");
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), body, "{case}");
        let counted = [good, bad, none].map(|kind| breaker.calls(kind));
        assert_eq!(counted, [good, bad, none].map(|other| u64::from(other == kind)), "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_open_breaker_makes_no_calls_until_a_trial_closes_it() {
    let (layer, breaker) = layer(Settings::default());
    let calls = Arc::default();
    let script = &[Fails(Fault::ConnectionClosed), Fails(Fault::ConnectionClosed), Responds(200)];
    let service = layer.layer(upstream(script, &calls));
    for _ in 0..2 {
        assert_eq!(service.clone().oneshot(request("")).await.unwrap().status(), 502);
    }
    assert_eq!(breaker.state(), State::Open);
    tokio::time::advance(Duration::from_millis(500)).await;
    let refused = service.clone().oneshot(request("")).await.unwrap();
    assert_eq!((refused.status().as_u16(), &refused.headers()["retry-after"]), (503, &HeaderValue::from(60)));
    assert_eq!(refused.extensions().get::<Fault>(), Some(&Fault::CircuitOpen));
    assert_eq!((calls.load(Relaxed), breaker.calls(CallKind::NotPermitted)), (2, 1));
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!(service.clone().oneshot(request("")).await.unwrap().status(), 200);
    assert_eq!(breaker.state(), State::Closed);
    assert_eq!(service.oneshot(request("")).await.unwrap().status(), 200);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_trial_permits_another() {
    let (layer, breaker) = layer(Settings::default());
    let calls = Arc::default();
    let service =
        layer.layer(upstream(&[Fails(Fault::ConnectionClosed), Fails(Fault::ConnectionClosed), Waits(500)], &calls));
    for _ in 0..2 {
        service.clone().oneshot(request("")).await.unwrap();
    }
    tokio::time::advance(Duration::from_secs(60)).await;
    let given_up = tokio::time::timeout(Duration::from_millis(10), service.clone().oneshot(request(""))).await;
    assert!(given_up.is_err());
    assert_eq!((breaker.state(), breaker.calls(CallKind::Ignored)), (State::HalfOpen, 1));
    assert_eq!(service.oneshot(request("")).await.unwrap().status(), 200);
}

#[tokio::test(start_paused = true)]
async fn the_fallback_gets_the_cause_and_the_body() {
    let (seen, calls) = (Arc::default(), Arc::default());
    let settings = Settings { failure_statuses: vec![StatusCode::INTERNAL_SERVER_ERROR], ..Settings::default() };
    let (layer, _) = layer(settings);
    let script = &[Responds(500), Waits(2_000)];
    let service = layer.layer_with_fallback(upstream(script, &calls), fallback(&seen));
    for _ in 0..3 {
        let response = service.clone().oneshot(request("hello")).await.unwrap();
        assert_eq!(response.status(), 203);
        assert!(!response.headers().contains_key("x-up"));
        // Headers that a filter added to the discarded response are kept, if there was one.
        assert_eq!(response.headers().contains_key("x-own"), seen.lock().unwrap().len() == 1);
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "hello");
    }
    assert_eq!(calls.load(Relaxed), 2);
    let causes: Vec<_> = seen.lock().unwrap().iter().map(|cause: &FallbackCause| cause.execution.clone()).collect();
    let class = causes[0].class.rsplit('.').next().unwrap();
    assert_eq!(class, "SpringCloudCircuitBreakerFilterFactory$CircuitBreakerStatusCodeException");
    assert_eq!(causes[0].message, "500 INTERNAL_SERVER_ERROR");
    assert_eq!(causes[1].class, "java.util.concurrent.TimeoutException");
    assert!(causes[1].message.starts_with("Did not observe any item or terminal signal within 1000ms"));
    assert_eq!(causes[2].class, "io.github.resilience4j.circuitbreaker.CallNotPermittedException");
    assert_eq!(causes[2].message, "CircuitBreaker 'test' is OPEN and does not permit further calls");
}

#[tokio::test]
async fn a_body_that_cannot_be_replayed_has_a_fallback_only_if_the_upstream_was_not_called() {
    let (seen, calls) = (Arc::default(), Arc::default());
    let (layer, _) = layer(Settings { max_body_bytes: 4, ..Settings::default() });
    let service = layer.layer_with_fallback(upstream(&[Fails(Fault::ConnectionClosed)], &calls), fallback(&seen));
    let statuses = [502, 502, 203];
    for status in statuses {
        assert_eq!(service.clone().oneshot(request("hello")).await.unwrap().status(), status);
    }
}

/// A request body that arrives after a time.
struct Late(std::pin::Pin<Box<tokio::time::Sleep>>, Full<Bytes>);

impl Body for Late {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Infallible>>> {
        std::task::ready!(self.0.as_mut().poll(cx));
        std::pin::Pin::new(&mut self.1).poll_frame(cx)
    }
}

#[tokio::test(start_paused = true)]
async fn the_time_in_which_a_call_waits_for_the_client_is_not_the_upstreams() {
    let rules = Rules { slow_after: Duration::from_millis(500), ..rules() };
    for (body_ms, response_ms, status, kind, slow) in [
        (30_000, 400, 200, CallKind::Successful, 0),
        (300, 900, 200, CallKind::Successful, 1),
        (30_000, 1_001, 504, CallKind::Failed, 1),
        (1_500, 1_001, 504, CallKind::Failed, 1),
        (0, 1_001, 504, CallKind::Failed, 1),
    ] {
        let breaker = Arc::new(Breaker::new("test".into(), rules.clone()));
        let layer = CircuitBreakerLayer::new(Arc::clone(&breaker), Settings::default());
        let upstream = service_fn(async |request: Request<ReplayBody<Late>>| {
            request.into_body().collect().await.unwrap();
            tokio::time::sleep(Duration::from_millis(response_ms)).await;
            Ok::<_, Infallible>(Response::new(Full::<Bytes>::from("upstream")))
        });
        let body = Late(Box::pin(tokio::time::sleep(Duration::from_millis(body_ms))), Full::from("body"));
        let (start, request) = (tokio::time::Instant::now(), Request::post("/").body(body).unwrap());
        let response = layer.layer(upstream).oneshot(request).await.unwrap();
        let case = format!("body after {body_ms} ms, response after {response_ms} ms");
        assert_eq!((response.status().as_u16(), breaker.calls(kind)), (status, 1), "{case}");
        assert_eq!(breaker.calls(CallKind::Slow), slow, "{case}");
        let time = start.elapsed().as_millis();
        assert!(time <= u128::from(body_ms + response_ms.min(1_000)) + 1_000, "{time} ms: {case}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_trial_call_that_waits_for_its_client_permits_another() {
    use tokio::time::{advance, sleep, timeout};

    let (layer, breaker) = layer(Settings::default());
    let service = layer.layer(service_fn(async |request: Request<ReplayBody<Late>>| {
        let fails = request.method() == "PUT";
        request.into_body().collect().await.unwrap();
        let mut response = Response::new(Full::<Bytes>::from("upstream"));
        if fails {
            response.extensions_mut().insert(Fault::ConnectionClosed);
        }
        Ok::<_, Infallible>(response)
    }));
    let call = |method: &str, body_after: u64| {
        let body = Late(Box::pin(sleep(Duration::from_secs(body_after))), Full::from("body"));
        Box::pin(service.clone().oneshot(Request::builder().method(method).body(body).unwrap()))
    };
    let open = async || {
        for _ in 0..2 {
            call("PUT", 0).await.unwrap();
        }
        assert_eq!(breaker.state(), State::Open);
        advance(Duration::from_secs(60)).await;
    };
    open().await;
    let mut silent = call("POST", 3_600);
    assert!(timeout(Duration::from_millis(900), &mut silent).await.is_err());
    assert_eq!(call("POST", 0).await.unwrap().status(), 503);
    assert!(timeout(Duration::from_millis(200), &mut silent).await.is_err());
    assert_eq!((call("POST", 0).await.unwrap().status(), breaker.state()), (StatusCode::OK, State::Closed));
    drop(silent);
    assert_eq!((breaker.calls(CallKind::Failed), breaker.calls(CallKind::Ignored)), (2, 1));
    // The outcome of such a call counts.
    open().await;
    assert_eq!(call("PUT", 5).await.unwrap().status(), 200);
    assert_eq!((breaker.calls(CallKind::Failed), breaker.state()), (5, State::Open));
}
