//! `/api/explain`: dry run of a request through the running configuration, with the state of its keys and upstream.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use thiserror::Error;
use tollgate_filters::verify_api_key::KeyFetcher;
use tollgate_limiter::key::BucketKey;
use tollgate_limiter::plan::PlanSource;
use tollgate_limiter::store::redis::{RedisHash, RedisPlans};

use crate::admin::admin_state::AdminState;
use crate::admin::limits::{BucketStore, KeyRule};
use crate::admin::reply::{Reply, json, problem, whole_millis};
use crate::admin::request::parameters;
use crate::admin::upstreams::live_endpoint;
use crate::explain::model::{CountedKey, LiveBreaker, LiveLimit, LiveRoute};
use crate::explain::{DryRunRequest, DryRunSettings, RequestError, describe, dry_run};
use tollgate_config::{Audience, Config, Filter, Route, Target};
use tollgate_proxy::http::client_certificate::CertifiedClient;
use tollgate_proxy::state::overrides::EffectiveRule;
use tollgate_telemetry::key_display;

/// Error of a query.
#[derive(Debug, Error)]
enum QueryError {
    #[error("`peer` must be an IP address, got `{0}`")]
    Peer(String),
    #[error("`client-cert` must be the value of a `Client-Cert` field: a certificate in DER, in base64 between colons")]
    Certificate,
    #[error(transparent)]
    Request(#[from] RequestError),
}

/// Returns the dry run of the request that `query` describes. Values of the configuration that may be secrets are masked.
pub(super) async fn respond(query: &str, state: &AdminState) -> Reply {
    let request = match parse(query) {
        Ok(request) => request,
        Err(error) => return problem(StatusCode::BAD_REQUEST, &error.to_string()),
    };
    let config = state.config.load_full();
    let plans = |hash: &str, cache: Duration| -> Option<Arc<dyn PlanSource>> {
        let redis = config.redis.as_ref()?;
        let plans = RedisPlans::new(state.stores.redis_client()?, hash.to_owned(), cache);
        Some(Arc::new(plans.hash_keys(redis.limiters.hash_keys.get())))
    };
    let keys = |hash: &Arc<str>| -> Option<Arc<dyn KeyFetcher>> {
        Some(Arc::new(RedisHash::new(state.stores.redis_client()?, Arc::clone(hash))))
    };
    let secrets = &state.config_state.load().secrets;
    let settings = DryRunSettings { plans: &plans, keys: &keys, audience: Audience::Network, secrets };
    let mut explanation = dry_run(&config, request, settings).await;
    if let Some(matched) = &mut explanation.route {
        for counted in matched.filters.iter_mut().flat_map(|filter| &mut filter.counted) {
            counted.live = limit(counted, &config, state).await;
            if key_display::is_hashed() {
                counted.key_id = key_display::shown(counted.key_id.as_bytes()).into_owned();
                counted.redis_keys.clear();
            }
        }
        matched.live = config.routes.iter().find(|route| *route.id == *matched.id).map(|route| live(route, state));
    }
    json(StatusCode::OK, &explanation)
}

/// Reads a request; `GET /` from 127.0.0.1 without parameters.
fn parse(query: &str) -> Result<DryRunRequest, QueryError> {
    let (mut method, mut url, mut fields, mut peer) = ("GET".to_owned(), "/".to_owned(), Vec::new(), None);
    let mut certificate = None;
    for (name, value) in parameters(query) {
        match name.as_str() {
            "method" => method = value,
            "url" => url = value,
            "header" => fields.push(value),
            "peer" => peer = Some(value.parse::<IpAddr>().map_err(|_| QueryError::Peer(value))?),
            "client-cert" => {
                certificate = Some(CertifiedClient::of_value(&value).ok_or(QueryError::Certificate)?);
            }
            _ => {}
        }
    }
    let request = DryRunRequest::new(&method, &url, &fields)?;
    Ok(DryRunRequest { peer: peer.unwrap_or(request.peer), certificate, ..request })
}

/// Reads the state of a key; `None` for keys of other filters than rate limiters.
async fn limit(counted: &CountedKey, config: &Config, state: &AdminState) -> Option<LiveLimit> {
    let bucket = counted.bucket.as_ref()?;
    let key = BucketKey { scope: &counted.scope, id: &bucket.key_id };
    let rule = KeyRule::of(key, &bucket.rule, state);
    let read = match BucketStore::at(bucket.store, bucket.is_locked, config, state) {
        Ok(store) => store.probe(&rule, counted.cost).await,
        Err(error) => Err(error),
    };
    let live = match read {
        Ok(probe) => LiveLimit {
            remaining: Some(probe.remaining),
            is_exceeded: probe.is_exceeded,
            retry_after_ms: probe.retry_after.map(whole_millis),
            reset_after_ms: Some(whole_millis(probe.reset_after)),
            ..LiveLimit::default()
        },
        Err(error) => LiveLimit { problem: Some(error.to_string()), ..LiveLimit::default() },
    };
    let effective = rule.overridden.as_ref().map(|(effective, _)| effective);
    Some(LiveLimit {
        capacity: rule.in_effect().capacity(),
        overridden: effective.map(|effective| effective.as_str().to_owned()),
        rule: effective.and_then(EffectiveRule::rule).map(describe),
        ..live
    })
}

/// Returns the state of the upstream and of the circuit breakers of `route`.
fn live(route: &Route, state: &AdminState) -> LiveRoute {
    let name = if let Target::Balanced { upstream, .. } = &route.uri { &*upstream.name } else { "" };
    let upstream = state.upstreams.all().into_iter().find(|upstream| **upstream.name() == *name);
    let endpoints = upstream.iter().flat_map(|upstream| upstream.statuses());
    let endpoints = endpoints.map(|status| live_endpoint(status, &state.config_state.load().secrets));
    let names: Vec<&str> = route
        .filters
        .iter()
        .filter_map(|filter| if let Filter::CircuitBreaker(breaker) = filter { Some(breaker) } else { None })
        .map(|breaker| breaker.name.as_deref().unwrap_or(&route.id))
        .collect();
    let breakers = state.stores.circuit_breakers.all();
    let breakers = breakers
        .iter()
        .filter(|(name, _)| names.contains(&&**name))
        .map(|(name, breaker)| LiveBreaker { name: name.to_string(), state: breaker.state().as_str().to_owned() });
    LiveRoute { endpoints: endpoints.collect(), breakers: breakers.collect() }
}
