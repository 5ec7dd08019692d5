//! What stands around a route's layers in place of a worker's resources: it allows, and takes notes.

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

use crate::explain::{Counted, Forwarded, by_name};
use crate::gateway::stack::{self, entering, stack};
use crate::http::body::Body;
use crate::http::service::SharedService;
use crate::telemetry::metrics::Metrics;
use crate::upstream::origin::Origin;
use tollgate_config::{
    Atomicity, ConcurrencyLimiter, Config, Filter, Http2, RateLimiter, RequestCounter, ResponseCache, Route, StoreKind,
    Target,
};

/// Takes notes of one request on one route.
pub(super) struct Recorder<'r> {
    config: &'r Config,
    route: &'r Route,
    metrics: Metrics,
    notes: Arc<Mutex<Notes>>,
}

/// What was noted.
#[derive(Default)]
struct Notes {
    forwarded: Option<Forwarded>,
    /// By the filter's place among the route's.
    counted: Vec<(usize, Counted)>,
    /// Where counters counted, with the filter's place and the scope.
    ledgers: Vec<(usize, Arc<str>, Arc<Ledger>)>,
}

/// A store of one filter: allows, and notes what it was asked.
struct Noting {
    /// The filter's place.
    at: usize,
    /// Key ids as hashes, and whether decisions are taken under a lock; `None`: in memory.
    redis: Option<(bool, bool)>,
    /// What a concurrency limiter admits.
    rule: String,
    notes: Arc<Mutex<Notes>>,
}

impl<'r> Recorder<'r> {
    pub(super) fn new(config: &'r Config, route: &'r Route) -> Self {
        Self { config, route, metrics: Metrics::default(), notes: Arc::default() }
    }

    /// The answer of the route's layers; `None` when they wait for something that never comes.
    pub(super) fn run(&self, request: Request<Body>, patience: Duration) -> Option<Response<Body>> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().ok()?;
        runtime.block_on(async {
            let (notes, target) = (Arc::clone(&self.notes), self.route.uri.clone());
            let upstream = SharedService::new(service_fn(move |request: Request<Body>| {
                notes.lock().forwarded = Some(forwarded(&request, &target));
                std::future::ready(Ok::<_, std::convert::Infallible>(Response::new(Body::from(Bytes::new()))))
            }));
            let max_body = self.config.server.max_body_bytes;
            let service = stack(&self.route.id, &self.route.filters, max_body, upstream, self);
            let service = entering(&self.route.uri, service);
            tokio::time::timeout(patience, service.respond(request)).await.ok()?.ok()
        })
    }

    /// What the upstream got, and what each filter counted.
    pub(super) fn notes(&self) -> (Option<Forwarded>, Vec<Vec<Counted>>) {
        let mut notes = self.notes.lock();
        for (at, scope, ledger) in std::mem::take(&mut notes.ledgers) {
            for usage in ledger.usage() {
                // `request_counter.{<scope>.<key id>}.<period>`, and no scope holds a dot.
                let id = usage.name.split_once('{').and_then(|(_, rest)| rest.split_once('.'));
                let key_id = id.and_then(|(_, rest)| rest.rsplit_once('}')).map_or("", |(id, _)| id).to_owned();
                let redis_keys = self.config.redis.iter().map(|_| usage.name.clone()).collect();
                let rule = "counts".to_owned();
                notes.counted.push((at, Counted { rule, scope: scope.to_string(), key_id, cost: 1, redis_keys }));
            }
        }
        let mut counted = vec![Vec::new(); self.route.filters.len()];
        for (at, noted) in std::mem::take(&mut notes.counted) {
            if let Some(of_filter) = counted.get_mut(at) {
                of_filter.push(noted);
            }
        }
        (notes.forwarded.take(), counted)
    }

    /// The place of the filter that `is` recognises.
    fn place(&self, is: impl Fn(&Filter) -> bool) -> usize {
        self.route.filters.iter().position(is).unwrap_or_default()
    }

    /// How keys are written, where the filter that asks for `store` keeps its counts in Redis.
    fn redis(&self, store: Option<StoreKind>, locked: bool) -> Option<(bool, bool)> {
        let redis = self.config.redis.as_ref().filter(|_| store != Some(StoreKind::Memory))?;
        Some((redis.hash_keys, locked))
    }

    fn noting(&self, at: usize, redis: Option<(bool, bool)>, rule: String) -> Noting {
        Noting { at, redis, rule, notes: Arc::clone(&self.notes) }
    }
}

impl stack::Resources for Recorder<'_> {
    fn store(&self, limiter: &RateLimiter) -> Arc<dyn Store> {
        let at =
            self.place(|filter| matches!(filter, Filter::RequestRateLimiter(own) if std::ptr::eq(&**own, limiter)));
        let redis = self.redis(limiter.store, limiter.atomicity != Atomicity::Script);
        Arc::new(self.noting(at, redis, String::new()))
    }

    fn meter(&self, counter: &RequestCounter, route: &Arc<str>, scope: Arc<str>) -> Meter {
        let at = self.place(|filter| matches!(filter, Filter::RequestCounter(own) if std::ptr::eq(&**own, counter)));
        let ledger = Arc::new(Ledger::new(16));
        self.notes.lock().ledgers.push((at, Arc::clone(&scope), Arc::clone(&ledger)));
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
        let at =
            self.place(|filter| matches!(filter, Filter::ConcurrencyLimiter(own) if std::ptr::eq(&**own, limiter)));
        let rule = format!("{} at once", limiter.rule.limit());
        Arc::new(self.noting(at, self.redis(limiter.store, false), rule))
    }

    fn plans(&self, _: &str, _: Duration) -> Option<Arc<dyn PlanSource>> {
        // Who has which plan stands in Redis, which is not asked: everybody has the default plan.
        None
    }

    fn cache(&self, _: &Arc<str>, cache: &ResponseCache) -> Arc<local_response_cache::ResponseCache> {
        Arc::new(local_response_cache::ResponseCache::new(cache.max_bytes))
    }

    fn breaker(&self, name: &Arc<str>, rules: &Rules) -> Arc<Breaker> {
        // A closed one, whatever that of traffic is.
        Arc::new(Breaker::new(Arc::clone(name), rules.clone()))
    }

    fn rerouting(&self) -> SharedService {
        SharedService::new(service_fn(|_: Request<Body>| std::future::ready(Ok(Response::new(Body::default())))))
    }

    fn logs_reasons(&self) -> bool {
        // Every answer of the gateway's own is marked as such.
        true
    }

    fn metrics(&self) -> (&Metrics, usize) {
        (&self.metrics, 0)
    }
}

/// What an upstream at `target` would get.
fn forwarded(request: &Request<Body>, target: &Target) -> Forwarded {
    let mut headers = request.headers().clone();
    let keeps_host = request.extensions().get::<RequestContext>().is_some_and(|context| context.preserve_host);
    if let Some(TargetUri(uri)) = request.extensions().get() {
        if let Some(authority) = uri.authority().and_then(|authority| HeaderValue::from_str(authority.as_str()).ok())
            && (!keeps_host || !headers.contains_key(HOST))
        {
            headers.insert(HOST, authority);
        }
        let (method, url) = (request.method().to_string(), uri.to_string());
        return Forwarded { method, url, headers: by_name(&headers) };
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
        // Which endpoint that is depends on the moment.
        Target::Balanced { upstream, .. } => {
            if !keeps_host {
                headers.remove(HOST);
            }
            format!("lb://{}", upstream.name)
        }
    };
    Forwarded {
        method: request.method().to_string(),
        url: format!("{base}{}", request.uri()),
        headers: by_name(&headers),
    }
}

impl Store for Noting {
    fn decide(&self, checks: &[Check<'_>]) -> Decision {
        let names = self.redis.map(|(hash_ids, locked)| key_names(checks, hash_ids, locked)).unwrap_or_default();
        let mut notes = self.notes.lock();
        for (position, check) in checks.iter().enumerate() {
            // Keys of one call belong to all of its rules: they are told with the last one.
            let redis_keys = if position + 1 == checks.len() { names.clone() } else { Vec::new() };
            notes.counted.push((self.at, counted(check.key, describe(check.rule), check.cost, redis_keys)));
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

impl LeaseStore for Noting {
    fn acquire(&self, key: BucketKey<'_>) -> Acquisition {
        let redis_keys = self.redis.map(|(hash_ids, _)| key_name(key, hash_ids));
        let counted = counted(key, self.rule.clone(), 1, redis_keys.into_iter().collect());
        self.notes.lock().counted.push((self.at, counted));
        Acquisition::Ready(Acquired { verdict: Verdict::uncounted(Outcome::Allowed), lease: Some(Lease::new(())) })
    }
}

fn counted(key: BucketKey<'_>, rule: String, cost: u64, redis_keys: Vec<String>) -> Counted {
    let key_id = String::from_utf8_lossy(key.id).into_owned();
    Counted { rule, scope: key.scope.to_owned(), key_id, cost, redis_keys }
}

/// A rule in a few words.
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
            None => format!("{name}, {} in all", quota.allowance()),
        },
    }
}
