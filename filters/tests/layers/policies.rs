//! `RequestRateLimiter` with several rules, plans and costs.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, Request, Response};
use http_body_util::{BodyExt, Full};
use tollgate_filters::context::Rerouted;
use tollgate_filters::key_resolver::KeyResolver;
use tollgate_filters::request_rate_limiter::{
    AccessList, Builder, Cost, CostSource, Enforcement, Limit, Metered, OnLimit, PlanResolver, Plans, RequestMeter,
    RequestRateLimiterLayer, ResponseMeter, RuleSets, Settings, VerdictEvent, VerdictKind,
};
use tollgate_limiter::plan::{PlanLookup, PlanSource};
use tollgate_limiter::rule::{Align, FixedWindow, Rule, TokenBucket};
use tollgate_limiter::store::memory::{ManualClock, MemoryStore};
use tollgate_limiter::store::{Check, Decision, Store};
use tower::{Layer, Service, ServiceExt};

use crate::support::{hello, text, upstream, values};

/// Memory store that records the number of checks per call, and optionally decides through a future.
struct Recording {
    memory: MemoryStore,
    calls_seen: Mutex<Vec<usize>>,
    deferred: bool,
}

/// Returns `decision`, if `deferred` through a future.
fn defer(decision: Decision, deferred: bool) -> Decision {
    match decision {
        Decision::Ready(verdict) if deferred => Decision::Pending(Box::pin(async move {
            tokio::task::yield_now().await;
            verdict
        })),
        decision => decision,
    }
}

impl Recording {
    fn new(deferred: bool) -> Arc<Self> {
        let memory =
            MemoryStore::with_clock(Arc::new(ManualClock::default())).with_max_keys(NonZeroUsize::new(1_000).unwrap());
        Arc::new(Self { memory, calls_seen: Mutex::default(), deferred })
    }
}

impl Store for Recording {
    fn decide(&self, enforced: &[Check<'_>], observed: &[Check<'_>]) -> Decision {
        self.calls_seen.lock().unwrap().push(enforced.len() + observed.len());
        defer(self.memory.decide(enforced, observed), self.deferred)
    }

    fn settle(&self, check: Check<'_>, more: i64, counted_at_us: u64) {
        self.memory.settle(check, more, counted_at_us);
    }
}

fn bucket(name: &str, burst: u64) -> Limit {
    Limit {
        name: name.into(),
        scope: format!("r#{name}").into(),
        rule: Rule::TokenBucket(TokenBucket::new(1, Duration::from_secs(3600), burst).unwrap()),
        key_resolver: KeyResolver::parse("header:X-User").unwrap(),
        cost: 1.into(),
        enforcement: Enforcement::FULL,
        condition: None,
    }
}

fn window(name: &str, limit: u64) -> Limit {
    let rule = Rule::FixedWindow(FixedWindow::new(limit, Duration::from_secs(60), Align::First).unwrap());
    Limit { rule, ..bucket(name, 1) }
}

fn by_user() -> Settings {
    Settings { key_resolver: KeyResolver::parse("header:X-User").unwrap(), ..Settings::default() }
}

fn layer(rules: RuleSets, settings: Settings, store: &Arc<Recording>) -> RequestRateLimiterLayer {
    builder(rules, settings, store).build().unwrap()
}

fn builder(rules: RuleSets, settings: Settings, store: &Arc<Recording>) -> Builder<RuleSets, KeyResolver> {
    RequestRateLimiterLayer::builder().rule_sets(rules).settings(settings).store("r", Arc::clone(store))
}

type Events = Vec<(Option<usize>, VerdictKind)>;

/// Returns the events that the hook has seen, and the hook. Every event of a rule has the name of the rule and the key.
fn recorder() -> (Arc<Mutex<Events>>, impl Fn(&VerdictEvent<'_>) + Send + Sync + 'static) {
    let seen: Arc<Mutex<Events>> = Arc::default();
    let events = Arc::clone(&seen);
    (seen, move |event| {
        assert_eq!(event.key, event.rule.map(|_| &b"ada"[..]));
        events.lock().unwrap().push((event.index, event.kind));
    })
}

fn from(user: &str) -> Request<()> {
    Request::builder().header("x-user", user).body(()).unwrap()
}

async fn statuses<S, B>(service: &S, user: &str, times: usize) -> Vec<u16>
where
    S: Service<Request<()>, Response = Response<B>> + Clone,
    S::Error: std::fmt::Debug,
{
    let mut statuses = Vec::new();
    for _ in 0..times {
        statuses.push(service.clone().oneshot(from(user)).await.unwrap().status().as_u16());
    }
    statuses
}

#[tokio::test]
async fn several_rules_are_one_call_and_a_denial_takes_nothing() {
    for deferred in [false, true] {
        let store = Recording::new(deferred);
        let rules = RuleSets { default: vec![bucket("wide", 9), window("narrow", 2)], plans: None };
        let (events, hook) = recorder();
        let layer = builder(rules, by_user(), &store).on_verdict(hook).build().unwrap();
        let service = layer.layer(hello(&Arc::default()));
        assert_eq!(statuses(&service, "ada", 4).await, [200, 200, 429, 429]);
        assert_eq!(*store.calls_seen.lock().unwrap(), [2; 4]);
        let key = tollgate_limiter::key::BucketKey { scope: "r#wide", id: b"ada" };
        let Decision::Ready(look) = store.memory.decide(&[Check { key, rule: &bucket("", 9).rule, cost: 0 }], &[])
        else {
            panic!("memory decides immediately")
        };
        assert_eq!(look.remaining, Some(7));
        let (both, narrow) =
            ([(Some(0), VerdictKind::Allowed), (Some(1), VerdictKind::Allowed)], [(Some(1), VerdictKind::Denied)]);
        let reported = events.lock().unwrap().clone();
        assert_eq!(reported, [&both[..], &both, &narrow, &narrow].concat());
    }
}

#[tokio::test]
async fn observed_rules_are_checked_after_enforced_rules() {
    for deferred in [false, true] {
        let store = Recording::new(deferred);
        let (events, hook) = recorder();
        let tried = Limit { enforcement: Enforcement::OBSERVE, ..bucket("tried", 1) };
        let off = Limit { enforcement: Enforcement::Off, ..bucket("off", 0) };
        let rules = RuleSets { default: vec![off, tried, bucket("held", 2)], plans: None };
        let settings = Settings { would_deny_header: true, ..by_user() };
        let layer = builder(rules, settings, &store).on_verdict(hook).build().unwrap();
        let service = layer.layer(hello(&Arc::default()));
        let mut would = Vec::new();
        for status in [200, 200, 429] {
            let response = service.clone().oneshot(from("ada")).await.unwrap();
            assert_eq!(response.status(), status);
            would.push(values(&response, "x-ratelimit-would-deny").join(""));
            assert_eq!(values(&response, "x-ratelimit-burst-capacity"), ["2"]);
        }
        assert_eq!(would, ["", "tried", ""]);
        assert_eq!(*store.calls_seen.lock().unwrap(), [2; 3], "one decision for each request");
        let reported: Vec<_> = events.lock().unwrap().iter().map(|(index, kind)| (index.unwrap(), *kind)).collect();
        let (both, observed) = ([(2, VerdictKind::Allowed), (1, VerdictKind::Allowed)], (1, VerdictKind::Observed));
        assert_eq!(reported, [both[0], both[1], both[0], observed, (2, VerdictKind::Denied)]);
    }
}

#[tokio::test]
async fn a_request_waits_for_its_plan() {
    struct Deferred;
    impl PlanSource for Deferred {
        fn plan(&self, id: &[u8]) -> PlanLookup {
            let plan = (id == b"ada").then(|| "gold".into());
            PlanLookup::Pending(Box::pin(async move {
                tokio::task::yield_now().await;
                plan
            }))
        }
    }
    for deferred in [false, true] {
        let store = Recording::new(deferred);
        let plans = Plans {
            resolver: PlanResolver::Source(Arc::new(Deferred)),
            sets: vec![("gold".into(), vec![bucket("all", 3)]), ("none".into(), Vec::new())],
            default: None,
        };
        let rules = RuleSets { default: vec![bucket("all", 1)], plans: Some(plans) };
        let service = layer(rules, by_user(), &store).layer(hello(&Arc::default()));
        assert_eq!(statuses(&service, "ada", 4).await, [200, 200, 200, 429]);
        assert_eq!(statuses(&service, "bob", 2).await, [200, 429]);
    }
}

#[tokio::test]
async fn a_plan_without_rules_limits_nothing() {
    let plans = Plans {
        resolver: PlanResolver::Table(HashMap::from([("ada".to_owned(), "none".to_owned())])),
        sets: vec![("none".into(), Vec::new())],
        default: None,
    };
    let store = Recording::new(false);
    let rules = RuleSets { default: vec![bucket("all", 0)], plans: Some(plans) };
    let service = layer(rules, by_user(), &store).layer(hello(&Arc::default()));
    assert_eq!([statuses(&service, "ada", 1).await, statuses(&service, "bob", 1).await], [[200], [429]]);
}

#[tokio::test]
async fn blocked_and_exempt_clients_need_no_store() {
    let store = Recording::new(false);
    let settings = Settings {
        exempt: AccessList::new(["ada".to_owned(), "eve".to_owned()], Vec::new()),
        block: AccessList::new(["eve".to_owned()], Vec::new()),
        ..by_user()
    };
    let calls: Arc<AtomicUsize> = Arc::default();
    let service = layer(RuleSets::single(bucket("all", 0)), settings, &store).layer(hello(&calls));
    assert_eq!([statuses(&service, "ada", 2).await, statuses(&service, "eve", 2).await], [[200; 2], [403; 2]]);
    assert_eq!((store.calls_seen.lock().unwrap().len(), calls.load(SeqCst)), (0, 2));
}

#[tokio::test]
async fn denied_requests_go_to_the_overflow_service_once() {
    for deferred in [false, true] {
        let store = Recording::new(deferred);
        let settings = Settings { on_limit: OnLimit::Forward("/busy".into()), ..by_user() };
        let layer = layer(RuleSets::single(bucket("all", 1)), settings, &store);
        let echo = upstream(&Arc::default(), |request: &Request<()>| {
            let marked = request.extensions().get::<Rerouted>().is_some();
            Response::new(Full::from(format!("{} {marked}", request.uri())))
        });
        let service = layer.wrap(echo.clone(), Some(echo));
        let send = |marked: bool| {
            let mut request = from("ada");
            *request.uri_mut() = "http://host/a?q=1".parse().unwrap();
            if marked {
                request.extensions_mut().insert(Rerouted);
            }
            service.clone().oneshot(request)
        };
        assert_eq!(text(send(false).await.unwrap()).await, "http://host/a?q=1 false");
        let rerouted = send(false).await.unwrap();
        assert_eq!(values(&rerouted, "x-ratelimit-remaining"), ["0"]);
        assert!(!rerouted.headers().contains_key("retry-after"));
        assert_eq!(text(rerouted).await, "http://host/busy?q=1 true");
        assert_eq!(send(true).await.unwrap().status(), 429);
    }
}

fn left(store: &Recording) -> u64 {
    let key = tollgate_limiter::key::BucketKey { scope: "r#all", id: b"ada" };
    let Decision::Ready(look) = store.memory.decide(&[Check { key, rule: &bucket("", 100).rule, cost: 0 }], &[]) else {
        panic!("memory decides immediately")
    };
    look.remaining.unwrap()
}

fn costing(source: CostSource) -> RuleSets {
    RuleSets::single(Limit { cost: Cost { source, tokens: 5, max: 50 }, ..bucket("all", 100) })
}

#[tokio::test]
async fn a_cost_in_the_response_header_is_settled() {
    for (field, expected) in [("20", 80), ("0", 100), ("51", 50), ("nonsense", 95)] {
        let store = Recording::new(false);
        let inner = upstream(&Arc::default(), move |_: &Request<()>| {
            Response::builder().header("x-cost", field).body(Full::default()).unwrap()
        });
        let rules = costing(CostSource::ResponseHeader(HeaderName::from_static("x-cost")));
        let response = layer(rules, by_user(), &store).layer(inner).oneshot(from("ada")).await.unwrap();
        assert_eq!((values(&response, "x-ratelimit-remaining"), left(&store)), (vec!["95"], expected), "{field}");
    }
}

#[tokio::test]
async fn body_costs_are_settled_at_the_end_and_only_if_metered() {
    let store = Recording::new(false);
    let response_body = layer(costing(CostSource::ResponseBody { unit: 2 }), by_user(), &store);
    let mut response = response_body.layer(hello(&Arc::default())).oneshot(from("ada")).await.unwrap();
    let meter = response.extensions_mut().remove::<ResponseMeter>().unwrap();
    let body = Metered::response(response.into_body(), meter);
    assert_eq!(left(&store), 95);
    assert_eq!(body.collect().await.unwrap().to_bytes(), "hello");
    assert_eq!(left(&store), 97, "five bytes are three tokens");
    let store = Recording::new(false);
    let request_body = layer(costing(CostSource::RequestBody { unit: 1 }), by_user(), &store);
    let meters: Arc<Mutex<Option<RequestMeter>>> = Arc::default();
    let seen = Arc::clone(&meters);
    let inner = upstream(&Arc::default(), move |request: &Request<()>| {
        *seen.lock().unwrap() = request.extensions().get::<RequestMeter>().cloned();
        Response::default()
    });
    let service = request_body.layer(inner);
    service.clone().oneshot(from("ada")).await.unwrap();
    assert_eq!(left(&store), 95, "not metered");
    service.oneshot(from("ada")).await.unwrap();
    let meter = meters.lock().unwrap().take().unwrap();
    drop(Metered::request(Full::<Bytes>::from("never read"), meter));
    assert_eq!(left(&store), 95, "the reservation is given back");
}
