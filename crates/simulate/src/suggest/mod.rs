//! Limits for the clients of a log: `tollgate suggest`.
//!
//! The requests pass the routes and key resolvers of a configuration whose limiters deny nothing. For each key, a few token
//! buckets measure the burst that its requests need.

mod demand;
mod text;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde::Serialize;
use tollgate_filters::request_rate_limiter::{Cost, Enforcement};

use self::demand::{Demand, MAX_KEYS};
use crate::gate::Share;
use crate::input::InputStats;
use crate::report::{Note, percent};
use crate::routes::limits_mut;
use tollgate_config::{Config, Filter};
use tollgate_proxy::http::facts::LimiterFacts;

/// Routes of a log that are told apart. Requests of further ones count together.
const MAX_LOGGED_ROUTES: usize = 1_000;
/// Name of the route of a log that names none.
const ALL: &str = "all";

/// Result of a suggestion.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Suggestions {
    /// Lines that were read.
    pub input: InputStats,
    /// Time of the first request, RFC 3339.
    pub from: Option<String>,
    /// Time of the last request.
    pub to: Option<String>,
    /// Requests that match no route.
    pub unrouted: u64,
    /// Requests that are not measured: the log lacks fields that decide on their route, or if they reach the limiters.
    pub undetermined: u64,
    /// Requests that are not measured: no limiter finds its key in them, such as an address of the client.
    pub without_key: u64,
    /// Results by route and key.
    pub routes: Vec<RouteSuggestion>,
    /// Parts of the configuration that are not measured, or only in part.
    pub notes: Vec<Note>,
}

/// Limits for the keys of one resolver on one route.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct RouteSuggestion {
    /// Id of the route.
    pub route: String,
    /// Key resolver.
    pub key: String,
    /// Requests.
    pub requests: u64,
    /// Clients: different keys.
    pub clients: usize,
    /// Requests of clients beyond the first 1,048,576, which are not measured.
    pub unmeasured: u64,
    /// A limit for each share of clients, the largest share first.
    pub limits: Vec<SuggestedLimit>,
}

/// Token bucket, and the clients that it would touch: those with at least one denied request.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct SuggestedLimit {
    /// Share of clients that it may touch, in percent.
    pub max_touched: f64,
    /// `replenish-rate`.
    pub replenish_rate: u32,
    /// `period` of the rate.
    pub period: &'static str,
    /// `burst-capacity`.
    pub burst_capacity: u32,
    /// Clients that it touches.
    pub touched: usize,
    /// Their share of all clients, in percent.
    pub touched_share: f64,
    /// The first of them: those that need the largest burst.
    pub top: Vec<TouchedClient>,
}

/// Client with denied requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct TouchedClient {
    /// Key id.
    pub key: String,
    /// Smallest `burst-capacity` at this rate that denies none of its requests.
    pub needs: u32,
}

/// Measures the requests of each route and key resolver.
pub(crate) struct Measurement {
    /// Key resolvers by route and label of the rule.
    resolvers: HashMap<(Arc<str>, Arc<str>), Arc<str>>,
    /// True if the log names the routes.
    by_logged_route: bool,
    demands: BTreeMap<(Arc<str>, Arc<str>), Demand>,
    logged_routes: HashMap<Box<[u8]>, Arc<str>>,
    free_keys: usize,
    /// Requests without any key.
    pub(crate) without_key: u64,
}

/// Returns the configuration for a log alone. It has one route, with a limiter for each of `keys`.
///
/// # Errors
/// A key resolver is not valid.
pub fn for_log_alone(keys: &[String]) -> Result<Config, String> {
    let keys = if keys.is_empty() { vec!["ip".to_owned()] } else { keys.to_vec() };
    let limiter = |key: &String| {
        let key = text::resolver(key);
        format!("{{name: RequestRateLimiter, args: {{key-resolver: {key}, replenish-rate: 1, burst-capacity: 1}}}}")
    };
    let limiters: Vec<_> = keys.iter().map(limiter).collect();
    let yaml =
        format!("routes: [{{id: {ALL}, uri: 'echo:', predicates: [Path=/**], filters: [{}]}}]\n", limiters.join(", "));
    match tollgate_config::parse("--key", &yaml, &|_| None) {
        Ok(loaded) => Ok(loaded.config),
        Err(report) => Err(report.first(1).first().map(|error| error.text().into_owned()).unwrap_or_default()),
    }
}

/// Changes `config` so that its limiters deny nothing. With `keys`, or on a route without a limiter, those of
/// [`for_log_alone`] take their place.
///
/// # Errors
/// A key resolver is not valid.
pub fn measure_only(config: &mut Config, keys: &[String]) -> Result<(), String> {
    let is_limiter = |filter: &Filter| matches!(filter, Filter::RequestRateLimiter(_));
    let template = for_log_alone(keys)?.routes.into_iter().flat_map(|route| route.filters).collect::<Vec<_>>();
    for route in &mut config.routes {
        let first = route.filters.iter().position(is_limiter);
        if first.is_none() || !keys.is_empty() {
            route.filters.retain(|filter| !is_limiter(filter));
            let at = first.unwrap_or(route.filters.len()).min(route.filters.len());
            route.filters.splice(at..at, template.iter().cloned());
        }
        for filter in &mut route.filters {
            let Filter::RequestRateLimiter(limiter) = filter else { continue };
            limiter.settings.enforcement = Enforcement::OBSERVE;
            for limit in limits_mut(limiter) {
                (limit.enforcement, limit.cost) = (Enforcement::OBSERVE, Cost::default());
            }
        }
    }
    Ok(())
}

impl Measurement {
    /// Prepares a measurement of the limiters of `config`, or by the routes in the log.
    pub(crate) fn of(config: &Config, by_logged_route: bool) -> Self {
        let mut resolvers = HashMap::new();
        for route in &config.routes {
            for rule in route.rate_limiters().flat_map(|naming| naming.all()) {
                let resolver = rule.key_resolver().to_string().into();
                resolvers.insert((Arc::clone(&route.id), Arc::clone(&rule.label)), resolver);
            }
        }
        let (demands, logged_routes) = (BTreeMap::new(), HashMap::new());
        Self { resolvers, by_logged_route, demands, logged_routes, free_keys: MAX_KEYS, without_key: 0 }
    }

    /// Returns the route under which a request counts, if it is that of the log.
    pub(crate) fn logged_route(&mut self, logged: Option<&[u8]>) -> Option<Arc<str>> {
        let logged = logged.filter(|_| self.by_logged_route)?;
        if let Some(route) = self.logged_routes.get(logged) {
            return Some(Arc::clone(route));
        }
        if self.logged_routes.len() == MAX_LOGGED_ROUTES {
            return None;
        }
        let route: Arc<str> = String::from_utf8_lossy(logged).into();
        self.logged_routes.insert(logged.into(), Arc::clone(&route));
        Some(route)
    }

    /// Adds the keys of a request to `route`, which counts under `logged_route` if there is one. Rules with the same
    /// resolver count it once.
    pub(crate) fn add(&mut self, route: &Arc<str>, logged_route: Option<Arc<str>>, facts: &LimiterFacts, now_us: u64) {
        let checks: Vec<_> = facts.decisions.iter().flat_map(|decision| &decision.checks).collect();
        self.without_key += u64::from(checks.is_empty());
        let resolver_of = |rule: &Arc<str>| self.resolvers.get(&(Arc::clone(route), Arc::clone(rule)));
        let counted_under = logged_route.as_ref().unwrap_or(route);
        for (at, check) in checks.iter().enumerate() {
            let Some(resolver) = resolver_of(&check.rule) else { continue };
            if checks[..at].iter().any(|earlier| resolver_of(&earlier.rule) == Some(resolver)) {
                continue;
            }
            let name = (Arc::clone(counted_under), Arc::clone(resolver));
            self.demands.entry(name).or_default().add(&check.key, now_us, &mut self.free_keys);
        }
    }

    /// Returns a limit for each route, key and share.
    pub(crate) fn finish(self, shares: &[Share]) -> Vec<RouteSuggestion> {
        let mut routes: Vec<_> =
            self.demands.into_iter().map(|((route, key), demand)| suggestion(&route, &key, &demand, shares)).collect();
        // The busiest routes first.
        routes.sort_by(|a, b| b.requests.cmp(&a.requests).then_with(|| a.route.cmp(&b.route)));
        routes
    }
}

fn suggestion(route: &str, key: &str, demand: &Demand, shares: &[Share]) -> RouteSuggestion {
    let clients = demand.clients();
    let mut shares = shares.to_vec();
    shares.sort_unstable_by(|a, b| b.cmp(a));
    shares.dedup();
    let limit = |share: &Share| {
        let bucket = demand.bucket(share.of(clients))?;
        let (replenish_rate, period) = match bucket.per_minute {
            rate if rate.is_multiple_of(60) => (rate / 60, "1s"),
            rate => (rate, "1m"),
        };
        let client = |key: demand::NamedKey| TouchedClient {
            key: String::from_utf8_lossy(&key.name).into_owned(),
            needs: key.needed,
        };
        Some(SuggestedLimit {
            max_touched: share.percent(),
            replenish_rate,
            period,
            burst_capacity: bucket.burst,
            touched: bucket.touched,
            touched_share: percent(bucket.touched as u64, clients as u64),
            top: bucket.neediest.into_iter().map(client).collect(),
        })
    };
    RouteSuggestion {
        route: route.to_owned(),
        key: key.to_owned(),
        requests: demand.requests,
        clients,
        unmeasured: demand.unmeasured,
        limits: shares.iter().filter_map(limit).collect(),
    }
}
