//! Context of the layers in a dry run: allows every request, and records their calls.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{HOST, HeaderValue};
use http::{Request, Response};
use parking_lot::Mutex;
use tollgate_filters::context::{ReceivedPath, RequestContext, TargetUri};
use tollgate_filters::request_rate_limiter::Enforcement;
use tollgate_limiter::concurrency::redis::key_name;
use tollgate_limiter::concurrency::{Acquired, Acquisition, Concurrency, HeldSlot, SlotStats, SlotStore};
use tollgate_limiter::key::BucketKey;
use tollgate_limiter::metering::{Ledger, Meter};
use tollgate_limiter::plan::PlanSource;
use tollgate_limiter::rule::Rule;
use tollgate_limiter::store::redis::key_names;
use tollgate_limiter::store::{Check, Decision, Store};
use tollgate_limiter::verdict::{Outcome, RuleVerdict, Source, Verdict};
use tower::service_fn;

use crate::explain::model::{Bucket, CountedKey, ForwardedRequest, REQUEST_COUNTER};
use crate::explain::text::describe;
use crate::explain::{KeysOf, PlansOf, by_name};
use tollgate_config::{
    Atomicity, ConcurrencyLimiter, Config, Http2, Naming, RateLimiter, RequestCounter, Route, StoreKind, Target,
};
use tollgate_proxy::gateway::layer_context::{LayerContext, Position};
use tollgate_proxy::gateway::stack::route_service;
use tollgate_proxy::http::body::Body;
use tollgate_proxy::http::service::SharedService;
use tollgate_proxy::instrumentation::metrics::Metrics;
use tollgate_proxy::state::api_keys::ApiKeyState;
use tollgate_proxy::state::stores::meter_settings;
use tollgate_proxy::upstream::origin::Origin;

/// Records one request on one route.
pub(super) struct Recorder<'r> {
    config: &'r Config,
    route: &'r Route,
    plans: PlansOf<'r>,
    keys: KeysOf<'r>,
    metrics: Metrics,
    records: Arc<Mutex<Records>>,
}

/// Recorded calls of the layers.
#[derive(Default)]
struct Records {
    forwarded: Option<ForwardedRequest>,
    /// Counted keys, with the position of the filter.
    counted: Vec<(usize, CountedKey)>,
    /// Ledgers of counters, with the position of the filter and the scope.
    ledgers: Vec<(usize, Arc<str>, Arc<Ledger>)>,
}

/// Form of a limiter's keys in Redis.
#[derive(Clone)]
struct RedisKeys {
    /// Text before each name.
    prefix: Arc<str>,
    /// Key ids are hashed.
    hash_ids: bool,
    /// Decisions are taken under a lock (`atomicity: lock`).
    is_locked: bool,
}

/// Store of one filter, with what it counts. Allows every request, and records the keys.
struct RecordingStore<C> {
    /// Position of the filter.
    position: usize,
    /// Form of the keys in Redis; `None` if counts are kept in memory.
    redis: Option<RedisKeys>,
    counted: C,
    records: Arc<Mutex<Records>>,
}

/// Buckets of a rate limiter.
struct Buckets {
    store: Option<StoreKind>,
    is_locked: bool,
    /// Scope, rule and enforcement of each limit.
    limits: Vec<(Arc<str>, Rule, Enforcement)>,
}

impl RedisKeys {
    /// Returns the complete names of keys.
    fn named(&self, names: Vec<String>) -> Vec<String> {
        names.into_iter().map(|name| format!("{}{name}", self.prefix)).collect()
    }
}

impl<'r> Recorder<'r> {
    pub(super) fn new(config: &'r Config, route: &'r Route, (plans, keys): (PlansOf<'r>, KeysOf<'r>)) -> Self {
        Self { config, route, plans, keys, metrics: Metrics::default(), records: Arc::default() }
    }

    /// Returns the response of the layers; `None` after `timeout`.
    pub(super) async fn run(&self, request: Request<Body>, timeout: Duration) -> Option<Response<Body>> {
        let (records, target) = (Arc::clone(&self.records), self.route.uri.clone());
        let upstream = SharedService::new(service_fn(move |mut request: Request<Body>| {
            ReceivedPath::restore(&mut request);
            records.lock().forwarded = Some(forwarded(&request, &target));
            std::future::ready(Ok::<_, std::convert::Infallible>(Response::new(Body::from(Bytes::new()))))
        }));
        let max_body = self.config.server.max_body_size.map(|size| size.0);
        let identify = self.config.api_keys.as_ref().map(|keys| ApiKeyState::default().layer(keys, self.keys));
        let service = route_service(self.route, self.config.repeated_keys, (max_body, identify), upstream, self);
        tokio::time::timeout(timeout, service.respond(request)).await.ok()?.ok()
    }

    /// Returns the request to the upstream, and the keys that each filter counted.
    pub(super) fn finish(&self) -> (Option<ForwardedRequest>, Vec<Vec<CountedKey>>) {
        let mut records = self.records.lock();
        for (position, scope, ledger) in std::mem::take(&mut records.ledgers) {
            for usage in ledger.usage() {
                // `request_counter.{<scope>.<key id>}.<period>`; a scope contains no dot.
                let id = usage.name.split_once('{').and_then(|(_, rest)| rest.split_once('.'));
                let key_id = id.and_then(|(_, rest)| rest.rsplit_once('}')).map_or("", |(id, _)| id).to_owned();
                let redis = self.config.redis.iter();
                let redis_keys = redis.map(|redis| format!("{}{}", redis.settings.key_prefix, usage.name)).collect();
                let counted = CountedKey {
                    rule: REQUEST_COUNTER.to_owned(),
                    scope: scope.to_string(),
                    key_id,
                    cost: 1,
                    observed: false,
                    redis_keys,
                    live: None,
                    bucket: None,
                };
                records.counted.push((position, counted));
            }
        }
        let mut counted = vec![Vec::new(); self.route.filters.len()];
        for (position, key) in std::mem::take(&mut records.counted) {
            if let Some(of_filter) = counted.get_mut(position) {
                of_filter.push(key);
            }
        }
        (records.forwarded.take(), counted)
    }

    /// Returns the form of keys in Redis, if a filter with `store` keeps its counts there.
    fn redis_keys(&self, store: Option<StoreKind>, is_locked: bool) -> Option<RedisKeys> {
        let redis = self.config.redis.as_ref().filter(|_| store != Some(StoreKind::Memory))?;
        Some(RedisKeys {
            prefix: Arc::clone(&redis.settings.key_prefix),
            hash_ids: redis.limiters.hash_keys.get(),
            is_locked,
        })
    }

    fn recording_store<C>(&self, position: &Position<'_>, redis: Option<RedisKeys>, counted: C) -> RecordingStore<C> {
        RecordingStore { position: position.index, redis, counted, records: Arc::clone(&self.records) }
    }
}

impl LayerContext for Recorder<'_> {
    fn store(&self, position: &Position<'_>, limiter: &RateLimiter) -> Arc<dyn Store> {
        let is_locked = limiter.atomicity != Atomicity::Script;
        let naming = Naming { route: position.route_id, number: position.number(), limiter };
        let limits = naming.all().into_iter().map(|rule| {
            let enforcement = rule.enforcement();
            (rule.scope, rule.limit.rule.clone(), enforcement)
        });
        let buckets = Buckets { store: limiter.store, is_locked, limits: limits.collect() };
        Arc::new(self.recording_store(position, self.redis_keys(limiter.store, is_locked), buckets))
    }

    fn slots(&self, position: &Position<'_>, limiter: &ConcurrencyLimiter, _: Arc<SlotStats>) -> Arc<dyn SlotStore> {
        Arc::new(self.recording_store(position, self.redis_keys(limiter.store, false), limiter.rule))
    }

    fn meter(&self, position: &Position<'_>, counter: &RequestCounter, scope: Arc<str>) -> Meter {
        let ledger = Arc::new(Ledger::new(16));
        self.records.lock().ledgers.push((position.index, Arc::clone(&scope), Arc::clone(&ledger)));
        let hashes_ids = self.config.redis.as_ref().is_some_and(|redis| redis.limiters.hash_keys.get());
        Meter::new(ledger, &meter_settings(counter, position.route_id, scope, hashes_ids))
    }

    fn plans(&self, hash: &str, cache: Duration) -> Option<Arc<dyn PlanSource>> {
        (self.plans)(hash, cache)
    }

    fn metrics(&self) -> (&Metrics, usize) {
        (&self.metrics, 0)
    }
}

/// Returns the request as an upstream at `target` receives it.
fn forwarded(request: &Request<Body>, target: &Target) -> ForwardedRequest {
    let mut headers = request.headers().clone();
    let keeps_host = request.extensions().get::<RequestContext>().is_some_and(|context| context.preserve_host);
    if let Some(TargetUri(uri)) = request.extensions().get() {
        if let Some(authority) = uri.authority().and_then(|authority| HeaderValue::from_str(authority.as_str()).ok())
            && (!keeps_host || !headers.contains_key(HOST))
        {
            headers.insert(HOST, authority);
        }
        let (method, url) = (request.method().to_string(), uri.to_string());
        return ForwardedRequest { method, url, headers: by_name(&headers) };
    }
    let base = match target {
        Target::Echo => "echo:".to_owned(),
        Target::Forward(_) => "forward:".to_owned(),
        Target::Nowhere => "no:".to_owned(),
        Target::Http { scheme, host, port } => {
            let origin = Origin::new(*scheme, host, *port, &Arc::default(), Http2::Auto);
            let shown = format!("{}://{}", origin.scheme(), String::from_utf8_lossy(origin.authority.as_bytes()));
            if !keeps_host || !headers.contains_key(HOST) {
                headers.insert(HOST, origin.authority);
            }
            shown
        }
        // The endpoint is chosen per request: the URL has the name of the upstream instead.
        Target::Balanced { upstream, .. } => {
            if !keeps_host {
                headers.remove(HOST);
            }
            format!("lb://{}", upstream.name)
        }
    };
    ForwardedRequest {
        method: request.method().to_string(),
        url: format!("{base}{}", request.uri()),
        headers: by_name(&headers),
    }
}

impl RecordingStore<Buckets> {
    /// Records the checks of one stage, and returns the verdict on unused keys.
    fn record(&self, checks: &[Check<'_>]) -> Verdict {
        let names = self.redis.as_ref().map(|keys| keys.named(key_names(checks, keys.hash_ids, keys.is_locked)));
        let names = names.unwrap_or_default();
        let mut records = self.records.lock();
        for (index, check) in checks.iter().enumerate() {
            // All rules of one call share its Redis keys: the last rule lists them.
            let redis_keys = if index + 1 == checks.len() { names.clone() } else { Vec::new() };
            let mut counted = counted(check.key, describe(check.rule), check.cost, redis_keys);
            let Buckets { store, is_locked, ref limits } = self.counted;
            let limit = limits.iter().find(|(scope, rule, _)| **scope == *check.key.scope && rule == check.rule);
            counted.observed = limit.is_some_and(|(_, _, enforcement)| enforcement.observes(check.key.id));
            let (key_id, rule) = (check.key.id.into(), check.rule.clone());
            counted.bucket = Some(Bucket { key_id, rule, store, is_locked });
            records.counted.push((self.position, counted));
        }
        let capacities = checks.iter().map(|check| check.rule.capacity());
        let rule_verdicts = checks.iter().map(|check| RuleVerdict {
            outcome: if check.cost > check.rule.capacity() { Outcome::NeverAdmitted } else { Outcome::Allowed },
            remaining: check.rule.capacity().saturating_sub(check.cost),
            reset_after: Duration::ZERO,
            delay: Duration::ZERO,
            counted_at_us: 0,
        });
        let verdict = Verdict::combine(rule_verdicts.collect(), capacities, Source::Memory);
        verdict.unwrap_or_else(|| Verdict::uncounted(Outcome::Allowed))
    }
}

impl Store for RecordingStore<Buckets> {
    fn decide(&self, enforced: &[Check<'_>], observed: &[Check<'_>]) -> Decision {
        let verdict = self.record(enforced);
        let is_over = observed.is_empty() || !verdict.is_allowed();
        Decision::Ready(if is_over { verdict } else { verdict.with_observed(self.record(observed)) })
    }

    fn settle(&self, _: Check<'_>, _: i64, _: u64) {}
}

impl SlotStore for RecordingStore<Concurrency> {
    fn rule(&self) -> Concurrency {
        self.counted
    }

    fn acquire(&self, key: BucketKey<'_>) -> Acquisition {
        let redis_keys = self.redis.as_ref().map(|keys| keys.named(vec![key_name(key, keys.hash_ids)]));
        let rule = format!("at most {} concurrent requests", self.counted.limit());
        let counted = counted(key, rule, 1, redis_keys.unwrap_or_default());
        self.records.lock().counted.push((self.position, counted));
        Acquisition::Ready(Acquired { verdict: Verdict::uncounted(Outcome::Allowed), slot: Some(HeldSlot::new(())) })
    }
}

fn counted(key: BucketKey<'_>, rule: String, cost: u64, redis_keys: Vec<String>) -> CountedKey {
    let key_id = String::from_utf8_lossy(key.id).into_owned();
    let scope = key.scope.to_owned();
    CountedKey { rule, scope, key_id, cost, observed: false, redis_keys, live: None, bucket: None }
}
