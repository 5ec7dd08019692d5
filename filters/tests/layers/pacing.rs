//! Pacing rules, on tokio's paused time.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response, StatusCode};
use http_body_util::Full;
use tokio::time::Instant;
use tollgate_filters::key_resolver::KeyResolver;
use tollgate_filters::refusal_body::RefusalBody;
use tollgate_filters::request_rate_limiter::{RequestRateLimiterLayer, Settings};
use tollgate_limiter::key::BucketKey;
use tollgate_limiter::rule::{LeakyBucket, Rule};
use tollgate_limiter::store::memory::{Clock, MemoryStore};
use tollgate_limiter::store::{Check, Decision, Store};
use tower::{Layer, Service, ServiceExt, service_fn};

use crate::support::Body;

/// Clock of tokio's paused time.
struct TokioClock(Instant);

impl Clock for TokioClock {
    fn now_us(&self) -> u64 {
        self.0.elapsed().as_micros() as u64
    }

    fn wall_us(&self) -> u64 {
        self.now_us()
    }
}

/// Store that decides through a future, as a store over a network does.
struct Deferred(Arc<MemoryStore>);

impl Store for Deferred {
    fn decide(&self, checks: &[Check<'_>], observed: &[Check<'_>]) -> Decision {
        let Decision::Ready(verdict) = self.0.decide(checks, observed) else { panic!("memory decides immediately") };
        Decision::Pending(Box::pin(async move {
            tokio::task::yield_now().await;
            verdict
        }))
    }

    fn settle(&self, check: Check<'_>, more: i64, counted_at_us: u64) {
        self.0.settle(check, more, counted_at_us);
    }
}

/// Times of the upstream calls, in ms.
type Calls = Arc<Mutex<Vec<u64>>>;

fn rule() -> Rule {
    Rule::LeakyBucket(
        LeakyBucket::new(10, Duration::from_secs(1))
            .unwrap()
            .with_max_wait(Duration::from_secs(1))
            .unwrap()
            .with_max_queue(3)
            .unwrap(),
    )
}

fn stores() -> [(Arc<dyn Store>, Arc<MemoryStore>); 2] {
    let memory = || {
        Arc::new(MemoryStore::with_clock(Arc::new(TokioClock(Instant::now()))).with_max_keys(100.try_into().unwrap()))
    };
    let (immediate, deferred) = (memory(), memory());
    [(immediate.clone(), immediate), (Arc::new(Deferred(deferred.clone())), deferred)]
}

fn paced(
    store: Arc<dyn Store>,
    calls: &Calls,
) -> impl Service<Request<()>, Response = Response<RefusalBody<Body>>, Error = Infallible, Future: Send> + Clone + use<>
{
    let (calls, start) = (Arc::clone(calls), Instant::now());
    let settings = Settings { key_resolver: KeyResolver::parse("header:x-user").unwrap(), ..Settings::default() };
    let layer = RequestRateLimiterLayer::builder().rule(rule()).settings(settings).store("r", store).build().unwrap();
    layer.layer(service_fn(move |_: Request<()>| {
        calls.lock().unwrap().push(start.elapsed().as_millis() as u64);
        std::future::ready(Ok(Response::new(Full::default())))
    }))
}

fn request() -> Request<()> {
    Request::builder().header("x-user", "ada").body(()).unwrap()
}

fn free_slots(store: &MemoryStore) -> u64 {
    let check = Check { key: BucketKey { scope: "r", id: b"ada" }, rule: &rule(), cost: 0 };
    let Decision::Ready(verdict) = store.decide(&[check], &[]) else { panic!("memory decides immediately") };
    verdict.remaining.unwrap()
}

#[tokio::test(start_paused = true)]
async fn requests_reach_the_upstream_an_interval_apart_and_the_rest_is_denied() {
    for (store, _) in stores() {
        let calls = Calls::default();
        let service = paced(store, &calls);
        let requests: Vec<_> = (0..6).map(|_| tokio::spawn(service.clone().oneshot(request()))).collect();
        let mut responses = Vec::new();
        for request in requests {
            let response = request.await.unwrap().unwrap();
            responses.push((response.status().as_u16(), response.headers()["x-ratelimit-remaining"].clone()));
        }
        let responses: Vec<_> = responses.iter().map(|(status, left)| (*status, left.to_str().unwrap())).collect();
        assert_eq!(responses, [(200, "3"), (200, "2"), (200, "1"), (200, "0"), (429, "0"), (429, "0")]);
        // The timer counts whole milliseconds, and fires up to one late.
        let calls = calls.lock().unwrap();
        assert!(calls.len() == 4 && (0..4).all(|n| (n * 100..=n * 100 + 1).contains(&calls[n as usize])), "{calls:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_request_gives_its_slot_to_the_next() {
    for (store, memory) in stores() {
        let calls = Calls::default();
        let service = paced(store, &calls);
        let send = || tokio::spawn(service.clone().oneshot(request()));
        let requests = [send(), send(), send(), send()];
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(free_slots(&memory), 0);
        requests[1].abort();
        while !requests[1].is_finished() {
            tokio::task::yield_now().await;
        }
        assert_eq!(free_slots(&memory), 1);
        let late = send();
        assert_eq!(late.await.unwrap().unwrap().status(), StatusCode::OK);
        assert!((100..=102).contains(calls.lock().unwrap().last().unwrap()), "it took the second slot: {calls:?}");
        for (n, request) in requests.into_iter().enumerate() {
            assert_eq!(request.await.is_ok(), n != 1);
        }
        assert_eq!(calls.lock().unwrap().len(), 4);
    }
}

#[tokio::test(start_paused = true)]
async fn a_forwarded_request_gives_no_slot_back() {
    for (store, memory) in stores() {
        let service = paced(store, &Calls::default());
        for _ in 0..2 {
            assert_eq!(service.clone().oneshot(request()).await.unwrap().status(), StatusCode::OK);
        }
        assert_eq!(
            free_slots(&memory),
            3,
            "two were forwarded 100 ms apart; the interval of the second has just begun"
        );
    }
}
