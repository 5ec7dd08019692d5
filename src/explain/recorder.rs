//! Context of the layers in a dry run: allows every request, and records their calls.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{HOST, HeaderValue};
use http::{Request, Response};
use parking_lot::Mutex;
use tollgate_filters::circuit_breaker::{Breaker, Rules};
use tollgate_filters::context::{RequestContext, TargetUri};
use tollgate_filters::local_response_cache;
use tollgate_limiter::concurrency::redis::key_name;
use tollgate_limiter::concurrency::{Acquired, Acquisition, Lease, LeaseStats, LeaseStore};
use tollgate_limiter::key::BucketKey;
use tollgate_limiter::metering::{Ledger, Meter, MeterSettings};
use tollgate_limiter::plan::PlanSource;
use tollgate_limiter::rule::Rule;
use tollgate_limiter::store::redis::key_names;
use tollgate_limiter::store::{Check, Decision, Store};
use tollgate_limiter::verdict::{Outcome, RuleVerdict, Source, Verdict};
use tower::service_fn;

use crate::explain::{CountedKey, ForwardedRequest, by_name};
use crate::gateway::layer_context::LayerContext;
use crate::gateway::stack::{stack, with_forward_path};
use crate::http::body::Body;
use crate::http::service::SharedService;
use crate::telemetry::metrics::Metrics;
use crate::upstream::origin::Origin;
use tollgate_config::{
    Atomicity, ConcurrencyLimiter, Config, Filter, Http2, RateLimiter, RequestCounter, ResponseCache, Route, StoreKind,
    Target,
};

/// Records one request on one route.
pub(super) struct Recorder<'r> {
    config: &'r Config,
    route: &'r Route,
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
#[derive(Clone, Copy)]
struct RedisKeys {
    /// Key ids are hashed.
    hash_ids: bool,
    /// Decisions are taken under a lock (`atomicity: lock`).
    is_locked: bool,
}

/// Store of one filter. Allows every request, and records the keys.
struct RecordingStore {
    /// Position of the filter.
    position: usize,
    /// Form of the keys in Redis; `None` if counts are kept in memory.
    redis: Option<RedisKeys>,
    /// Rule of a concurrency limiter; empty for rate limiters.
    rule: String,
    records: Arc<Mutex<Records>>,
}

impl<'r> Recorder<'r> {
    pub(super) fn new(config: &'r Config, route: &'r Route) -> Self {
        Self { config, route, metrics: Metrics::default(), records: Arc::default() }
    }

    /// Returns the response of the layers; `None` after `timeout`.
    pub(super) fn run(&self, request: Request<Body>, timeout: Duration) -> Option<Response<Body>> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().ok()?;
        runtime.block_on(async {
            let (records, target) = (Arc::clone(&self.records), self.route.uri.clone());
            let upstream = SharedService::new(service_fn(move |request: Request<Body>| {
                records.lock().forwarded = Some(forwarded(&request, &target));
                std::future::ready(Ok::<_, std::convert::Infallible>(Response::new(Body::from(Bytes::new()))))
            }));
            let max_body = self.config.server.max_body_bytes;
            let service = stack(&self.route.id, &self.route.filters, max_body, upstream, self);
            let service = with_forward_path(&self.route.uri, service);
            tokio::time::timeout(timeout, service.respond(request)).await.ok()?.ok()
        })
    }

    /// Returns the request to the upstream, and the keys that each filter counted.
    pub(super) fn finish(&self) -> (Option<ForwardedRequest>, Vec<Vec<CountedKey>>) {
        let mut records = self.records.lock();
        for (position, scope, ledger) in std::mem::take(&mut records.ledgers) {
            for usage in ledger.usage() {
                // `request_counter.{<scope>.<key id>}.<period>`; a scope contains no dot.
                let id = usage.name.split_once('{').and_then(|(_, rest)| rest.split_once('.'));
                let key_id = id.and_then(|(_, rest)| rest.rsplit_once('}')).map_or("", |(id, _)| id).to_owned();
                let redis_keys = self.config.redis.iter().map(|_| usage.name.clone()).collect();
                let rule = "request counter".to_owned();
                let scope = scope.to_string();
                records.counted.push((position, CountedKey { rule, scope, key_id, cost: 1, redis_keys }));
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

    /// Returns the position of the filter that `is` accepts.
    fn position(&self, is: impl Fn(&Filter) -> bool) -> usize {
        self.route.filters.iter().position(is).unwrap_or_default()
    }

    /// Returns the form of keys in Redis, if a filter with `store` keeps its counts there.
    fn redis_keys(&self, store: Option<StoreKind>, is_locked: bool) -> Option<RedisKeys> {
        let redis = self.config.redis.as_ref().filter(|_| store != Some(StoreKind::Memory))?;
        Some(RedisKeys { hash_ids: redis.hash_keys, is_locked })
    }

    fn recording_store(&self, position: usize, redis: Option<RedisKeys>, rule: String) -> RecordingStore {
        RecordingStore { position, redis, rule, records: Arc::clone(&self.records) }
    }
}

impl LayerContext for Recorder<'_> {
    fn store(&self, limiter: &RateLimiter) -> Arc<dyn Store> {
        let position =
            self.position(|filter| matches!(filter, Filter::RequestRateLimiter(own) if std::ptr::eq(&**own, limiter)));
        let redis = self.redis_keys(limiter.store, limiter.atomicity != Atomicity::Script);
        Arc::new(self.recording_store(position, redis, String::new()))
    }

    fn meter(&self, counter: &RequestCounter, route: &Arc<str>, scope: Arc<str>) -> Meter {
        let position =
            self.position(|filter| matches!(filter, Filter::RequestCounter(own) if std::ptr::eq(&**own, counter)));
        let ledger = Arc::new(Ledger::new(16));
        self.records.lock().ledgers.push((position, Arc::clone(&scope), Arc::clone(&ledger)));
        let settings = MeterSettings {
            scope,
            route: Arc::clone(route),
            dimensions: counter.dimensions,
            period: counter.period,
            ttl: counter.ttl,
            hash_ids: self.config.redis.as_ref().is_some_and(|redis| redis.hash_keys),
        };
        Meter::new(ledger, &settings)
    }

    fn leases(&self, limiter: &ConcurrencyLimiter, _: Arc<LeaseStats>) -> Arc<dyn LeaseStore> {
        let position =
            self.position(|filter| matches!(filter, Filter::ConcurrencyLimiter(own) if std::ptr::eq(&**own, limiter)));
        let rule = format!("at most {} concurrent requests", limiter.rule.limit());
        Arc::new(self.recording_store(position, self.redis_keys(limiter.store, false), rule))
    }

    fn plans(&self, _: &str, _: Duration) -> Option<Arc<dyn PlanSource>> {
        // Plans of keys are stored in Redis, which a dry run does not call: every key has the default plan.
        None
    }

    fn response_cache(&self, _: &Arc<str>, cache: &ResponseCache) -> Arc<local_response_cache::ResponseCache> {
        Arc::new(local_response_cache::ResponseCache::new(cache.max_bytes))
    }

    fn circuit_breaker(&self, name: &Arc<str>, rules: &Rules) -> Arc<Breaker> {
        // Closed, whatever the state of the breaker under traffic.
        Arc::new(Breaker::new(Arc::clone(name), rules.clone()))
    }

    fn rerouting(&self) -> SharedService {
        SharedService::new(service_fn(|_: Request<Body>| std::future::ready(Ok(Response::new(Body::default())))))
    }

    fn logs_reasons(&self) -> bool {
        // All local responses carry their reason.
        true
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

impl Store for RecordingStore {
    fn decide(&self, checks: &[Check<'_>]) -> Decision {
        let names = self.redis.map(|keys| key_names(checks, keys.hash_ids, keys.is_locked)).unwrap_or_default();
        let mut records = self.records.lock();
        for (index, check) in checks.iter().enumerate() {
            // All rules of one call share its Redis keys: the last rule lists them.
            let redis_keys = if index + 1 == checks.len() { names.clone() } else { Vec::new() };
            records.counted.push((self.position, counted(check.key, describe(check.rule), check.cost, redis_keys)));
        }
        let capacities = || checks.iter().map(|check| check.rule.capacity());
        let answers = checks.iter().map(|check| RuleVerdict {
            outcome: if check.cost > check.rule.capacity() { Outcome::NeverAdmitted } else { Outcome::Allowed },
            remaining: check.rule.capacity().saturating_sub(check.cost),
            reset_after: Duration::ZERO,
            delay: Duration::ZERO,
            counted_at_us: 0,
        });
        let verdict = Verdict::combine(answers.collect(), capacities(), Source::Memory);
        Decision::Ready(verdict.unwrap_or_else(|| Verdict::uncounted(Outcome::Allowed)))
    }

    fn settle(&self, _: Check<'_>, _: i64, _: u64) {}
}

impl LeaseStore for RecordingStore {
    fn acquire(&self, key: BucketKey<'_>) -> Acquisition {
        let redis_keys = self.redis.map(|keys| key_name(key, keys.hash_ids));
        let counted = counted(key, self.rule.clone(), 1, redis_keys.into_iter().collect());
        self.records.lock().counted.push((self.position, counted));
        Acquisition::Ready(Acquired { verdict: Verdict::uncounted(Outcome::Allowed), lease: Some(Lease::new(())) })
    }
}

fn counted(key: BucketKey<'_>, rule: String, cost: u64, redis_keys: Vec<String>) -> CountedKey {
    let key_id = String::from_utf8_lossy(key.id).into_owned();
    CountedKey { rule, scope: key.scope.to_owned(), key_id, cost, redis_keys }
}

/// Describes a rule in a few words.
fn describe(rule: &Rule) -> String {
    let name = rule.algorithm().as_str();
    match rule {
        Rule::TokenBucket(bucket) | Rule::Gcra(bucket) => {
            format!("{name}, {} per {:?}, burst {}", bucket.replenish_rate(), bucket.period(), bucket.burst_capacity())
        }
        Rule::FixedWindow(window) => match window.calendar() {
            Some(calendar) => {
                format!("{name}, {} per {:?} of {}", window.limit(), calendar.unit(), calendar.time_zone())
            }
            None => format!("{name}, {} per {:?}", window.limit(), window.window()),
        },
        Rule::SlidingWindowLog(window) => format!("{name}, {} per {:?}", window.limit(), window.window()),
        Rule::SlidingWindowCounter(window) => format!("{name}, {} per {:?}", window.limit(), window.window()),
        Rule::LeakyBucket(bucket) => format!("{name}, {} per {:?}, paced", bucket.rate(), bucket.period()),
        Rule::Quota(quota) => match quota.reset() {
            Some(calendar) => {
                format!("{name}, {} per {:?} of {}", quota.allowance(), calendar.unit(), calendar.time_zone())
            }
            None => format!("{name}, {} in total", quota.allowance()),
        },
    }
}
