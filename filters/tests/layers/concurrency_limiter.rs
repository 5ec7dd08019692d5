//! `ConcurrencyLimiter`: acquiring and freeing slots.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, Request, Response, StatusCode};
use http_body::{Body as HttpBody, Frame};
use http_body_util::BodyExt;
use tollgate_filters::concurrency_limiter::{
    Builder, ConcurrencyLimiterLayer, ErrorBody, HeaderNames, Settings, SlotBody,
};
use tollgate_filters::context::{LocalReply, Tunnel};
use tollgate_filters::key_resolver::KeyResolver;
use tollgate_limiter::concurrency::{
    Acquired, Acquisition, Concurrency, ConcurrencyError, MemorySlots, SlotStats, SlotStore, SlotTable,
};
use tollgate_limiter::key::BucketKey;
use tollgate_limiter::verdict::{Outcome, Source, Verdict};
use tower::{Layer, Service, ServiceExt, service_fn};

use crate::support::{Body, hello};

fn rule(limit: u64) -> Concurrency {
    Concurrency::new(limit).unwrap()
}

fn settings() -> Settings {
    Settings { key_resolver: KeyResolver::parse("header:x-user").unwrap(), ..Settings::default() }
}

fn builder(
    settings: Settings,
    store: impl SlotStore + 'static,
) -> Builder<Result<Concurrency, ConcurrencyError>, KeyResolver> {
    ConcurrencyLimiterLayer::builder().store("r", store).settings(settings)
}

fn layer(limit: u64, settings: Settings) -> (ConcurrencyLimiterLayer, Arc<SlotStats>) {
    let stats = Arc::<SlotStats>::default();
    let store = MemorySlots::new(Arc::new(SlotTable::default()), rule(limit), Arc::clone(&stats));
    (builder(settings, store).build().unwrap(), stats)
}

fn from(user: &str) -> Request<()> {
    Request::builder().header("x-user", user).body(()).unwrap()
}

fn header<'r, B>(response: &'r Response<B>, name: &str) -> Option<&'r str> {
    response.headers().get(name).map(|value| value.to_str().unwrap())
}

async fn send<S, B>(service: &S, request: Request<()>) -> Response<SlotBody<B>>
where
    S: Service<Request<()>, Response = Response<SlotBody<B>>, Error = Infallible> + Clone,
{
    service.clone().oneshot(request).await.unwrap()
}

/// Store that decides through a future.
struct Deferred(MemorySlots);

impl SlotStore for Deferred {
    fn rule(&self) -> Concurrency {
        self.0.rule()
    }

    fn acquire(&self, key: BucketKey<'_>) -> Acquisition {
        let Acquisition::Ready(acquired) = self.0.acquire(key) else { panic!() };
        Acquisition::Pending(Box::pin(async move {
            tokio::task::yield_now().await;
            acquired
        }))
    }
}

/// Store that always gives the same outcome.
struct Fixed(Outcome);

impl SlotStore for Fixed {
    fn rule(&self) -> Concurrency {
        rule(3)
    }

    fn acquire(&self, _: BucketKey<'_>) -> Acquisition {
        Acquisition::Ready(Acquired { verdict: Verdict::uncounted(self.0), slot: None })
    }
}

#[tokio::test]
async fn the_request_over_the_limit_is_denied_and_never_reaches_the_inner_service() {
    let calls = Arc::default();
    let (layer, stats) = layer(2, settings());
    let service = layer.layer(hello(&calls));
    let held = [send(&service, from("ada")).await, send(&service, from("ada")).await];
    for (response, left) in held.iter().zip(["1", "0"]) {
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(header(response, "x-concurrency-limit"), Some("2"));
        assert_eq!(header(response, "x-concurrency-remaining"), Some(left));
    }
    let denied = send(&service, from("ada")).await;
    assert_eq!(denied.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(header(&denied, "retry-after"), Some("1"));
    assert_eq!(header(&denied, "cache-control"), Some("no-store"));
    assert_eq!(header(&denied, "x-concurrency-remaining"), Some("0"));
    assert_eq!(denied.extensions().get::<LocalReply>().unwrap().reason, "concurrency-limited");
    assert_eq!(calls.load(Ordering::SeqCst), 2);
    assert_eq!(send(&service, from("bob")).await.status(), StatusCode::OK);
    assert_eq!(stats.in_flight(), 2, "bob's request has ended");
    drop(held);
    assert_eq!(stats.in_flight(), 0);
}

#[tokio::test]
async fn a_slot_is_free_when_the_body_has_ended_but_is_not_dropped() {
    let (layer, stats) = layer(1, settings());
    let service = layer.layer(hello(&Arc::default()));
    let mut response = send(&service, from("ada")).await;
    assert_eq!(stats.in_flight(), 1);
    assert_eq!(response.body_mut().frame().await.unwrap().unwrap().into_data().unwrap(), "hello");
    assert_eq!(stats.in_flight(), 0, "that was the last frame");
    assert_eq!(send(&service, from("ada")).await.status(), StatusCode::OK);
}

/// Body of prepared frames.
#[derive(Debug)]
struct Frames(VecDeque<Result<Bytes, &'static str>>);

impl From<Bytes> for Frames {
    fn from(bytes: Bytes) -> Self {
        Self([Ok(bytes)].into())
    }
}

impl HttpBody for Frames {
    type Data = Bytes;
    type Error = &'static str;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, &'static str>>> {
        Poll::Ready(self.0.pop_front().map(|piece| piece.map(Frame::data)))
    }
}

#[tokio::test]
async fn a_slot_is_held_between_frames_and_free_at_the_end_or_a_failure() {
    for (last, fails) in [(None, false), (Some(Err("connection closed")), true)] {
        let (layer, stats) = layer(1, settings());
        let service = layer.layer(service_fn(move |_: Request<()>| {
            let pieces = [Ok(Bytes::from("one")), Ok(Bytes::from("two"))].into_iter().chain(last.clone());
            std::future::ready(Ok::<_, Infallible>(Response::new(Frames(pieces.collect()))))
        }));
        let mut response = send(&service, from("ada")).await;
        for _ in 0..2 {
            assert!(response.body_mut().frame().await.unwrap().is_ok());
            assert_eq!(stats.in_flight(), 1);
        }
        assert_eq!(response.body_mut().frame().await.is_some_and(|frame| frame.is_err()), fails);
        assert_eq!(stats.in_flight(), 0);
    }
}

#[tokio::test]
async fn a_slot_is_free_when_the_request_is_cancelled_or_fails() {
    let (layer, stats) = layer(1, settings());
    let hangs = layer.layer(service_fn(|_: Request<()>| std::future::pending::<Result<Response<Body>, Infallible>>()));
    let mut response = Box::pin(hangs.oneshot(from("ada")));
    assert!(tokio::time::timeout(Duration::ZERO, &mut response).await.is_err());
    assert_eq!(stats.in_flight(), 1);
    drop(response);
    assert_eq!(stats.in_flight(), 0);
    let fails = layer.layer(service_fn(|_: Request<()>| async { Err::<Response<Body>, _>("no") }));
    assert_eq!(fails.oneshot(from("ada")).await.unwrap_err(), "no");
    assert_eq!(stats.in_flight(), 0);
}

#[tokio::test]
async fn a_tunnel_holds_the_slot_until_it_closes() {
    let (tunnel, open) = Tunnel::open();
    let (layer, stats) = layer(1, settings());
    let service = layer.layer(service_fn(move |_: Request<()>| {
        let mut response = Response::new(Body::default());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        response.extensions_mut().insert(tunnel.clone());
        std::future::ready(Ok::<_, Infallible>(response))
    }));
    drop(send(&service, from("ada")).await);
    assert_eq!(stats.in_flight(), 1, "the response is sent, the tunnel is open");
    assert_eq!(send(&service, from("ada")).await.status(), StatusCode::TOO_MANY_REQUESTS);
    drop(open);
    assert_eq!(stats.in_flight(), 0);
}

#[tokio::test]
async fn a_store_that_decides_through_a_future_limits_too() {
    let stats = Arc::<SlotStats>::default();
    let store = MemorySlots::new(Arc::new(SlotTable::default()), rule(1), Arc::clone(&stats));
    let layer = builder(settings(), Deferred(store)).build().unwrap();
    let calls = Arc::default();
    let service = layer.layer(hello(&calls));
    let held = send(&service, from("ada")).await;
    assert_eq!(header(&held, "x-concurrency-remaining"), Some("0"));
    assert_eq!(send(&service, from("ada")).await.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    drop(held);
    assert_eq!(send(&service, from("ada")).await.status(), StatusCode::OK);
}

#[tokio::test]
async fn a_request_without_a_key_is_refused_or_passes_unlimited() {
    let responses = |settings| async move {
        let (layer, stats) = layer(1, settings);
        let service = layer.layer(hello(&Arc::default()));
        let both = [send(&service, Request::new(())).await, send(&service, Request::new(())).await];
        assert_eq!(stats.in_flight(), 0);
        both
    };
    for response in responses(Settings { empty_key_status: StatusCode::UNAUTHORIZED, ..settings() }).await {
        assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
        assert_eq!(response.extensions().get::<LocalReply>().unwrap().reason, "empty-key");
    }
    for response in responses(Settings { deny_empty_key: false, ..settings() }).await {
        assert_eq!((response.status(), header(&response, "x-concurrency-limit")), (StatusCode::OK, None));
    }
}

#[tokio::test]
async fn status_headers_and_body_of_a_denial_are_settings() {
    let silent = HeaderNames { include: false, ..HeaderNames::default() };
    let custom = Settings {
        status: StatusCode::SERVICE_UNAVAILABLE,
        headers: silent,
        error_body: ErrorBody::Empty,
        ..settings()
    };
    let service = layer(1, custom).0.layer(hello(&Arc::default()));
    let _held = send(&service, from("ada")).await;
    let denied = send(&service, from("ada")).await;
    assert_eq!((denied.status(), header(&denied, "retry-after")), (StatusCode::SERVICE_UNAVAILABLE, Some("1")));
    assert_eq!(header(&denied, "x-concurrency-limit"), None);
    assert!(denied.into_body().collect().await.unwrap().to_bytes().is_empty());

    let names = HeaderNames {
        limit: HeaderName::from_static("x-slots"),
        remaining: HeaderName::from_static("x-free"),
        ..HeaderNames::default()
    };
    let service = layer(1, Settings { headers: names, ..settings() }).0.layer(hello(&Arc::default()));
    let held = send(&service, from("ada")).await;
    assert_eq!((header(&held, "x-slots"), header(&held, "x-free")), (Some("1"), Some("0")));
    let mut request = from("ada");
    request.headers_mut().insert("accept", "application/json".parse().unwrap());
    let denied = send(&service, request).await;
    assert_eq!(header(&denied, "content-type"), Some("application/problem+json"));
    let body = denied.into_body().collect().await.unwrap().to_bytes();
    let text = std::str::from_utf8(&body).unwrap();
    assert!(text.contains("quota-exceeded") && text.contains(r#""violated-policies":["r"]"#), "{text}");
}

#[tokio::test]
async fn an_unavailable_store_gives_503_or_allows_uncounted() {
    let service = |outcome| {
        let layer = builder(settings(), Fixed(outcome)).build().unwrap();
        layer.layer(hello(&Arc::<AtomicUsize>::default()))
    };
    let retry_after = Duration::from_secs(1);
    let refused = send(&service(Outcome::StoreUnavailable { retry_after }), from("ada")).await;
    assert_eq!((refused.status(), header(&refused, "retry-after")), (StatusCode::SERVICE_UNAVAILABLE, Some("1")));
    assert_eq!(refused.extensions().get::<LocalReply>().unwrap().reason, "limiter-unavailable");
    let passed = send(&service(Outcome::Allowed), from("ada")).await;
    assert_eq!((passed.status(), header(&passed, "x-concurrency-remaining")), (StatusCode::OK, Some("-1")));
    assert_eq!(header(&passed, "x-ratelimit-degraded"), Some("fallback"));
}

#[tokio::test]
async fn the_hook_sees_every_verdict() {
    let seen = Arc::<std::sync::Mutex<Vec<(bool, Source)>>>::default();
    let recorded = Arc::clone(&seen);
    let layer = ConcurrencyLimiterLayer::builder().limit(1).settings(settings()).on_verdict(move |event| {
        assert_eq!((event.name, event.key), ("default", Some(&b"ada"[..])));
        recorded.lock().unwrap().push((event.verdict.is_allowed(), event.verdict.source));
    });
    let service = layer.build().unwrap().layer(hello(&Arc::default()));
    let _held = send(&service, from("ada")).await;
    send(&service, from("ada")).await;
    send(&service, Request::new(())).await;
    assert_eq!(*seen.lock().unwrap(), [(true, Source::Memory), (false, Source::Memory)]);
}
