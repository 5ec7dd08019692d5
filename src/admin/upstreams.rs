//! `/api/upstreams`: endpoints with their states, and their draining.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::SystemTime;

use http::StatusCode;
use humantime::format_duration;
use hyper::body::Incoming;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::admin::admin_state::AdminState;
use crate::admin::reply::{Reply, audited, json, known_names, problem, whole_millis};
use crate::admin::request::{ExpiresIn, MAX_BYTES, read_body};
use crate::explain::model::{LiveEndpoint, LiveFailure};
use tollgate_config::{SecretValues, Target};
use tollgate_proxy::gateway::upstream_name;
use tollgate_proxy::upstream::balance::{DrainError, EndpointStatus, ReportedState, Upstream};
use tollgate_proxy::upstream::times::LatestFailure;

/// Upstream with its endpoints.
#[reply]
pub(super) struct UpstreamReply {
    name: String,
    endpoints: Vec<EndpointReply>,
    /// Ejections of endpoints since the start.
    ejections: u64,
    /// Requests that found no endpoint.
    unavailable: u64,
    /// Failed lookups of names in DNS.
    failed_lookups: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    registry: Option<RegistryReply>,
}

#[reply]
struct EndpointReply {
    #[serde(flatten)]
    live: LiveEndpoint,
    /// Rest of the time for which an operator drains it.
    #[serde(skip_serializing_if = "Option::is_none")]
    drained_for_ms: Option<u64>,
    /// Zone in the registry.
    #[serde(skip_serializing_if = "Option::is_none")]
    zone: Option<String>,
}

/// Source of the endpoints.
#[reply]
struct RegistryReply {
    kind: &'static str,
    server: String,
    /// Time since the registry confirmed the list.
    age_seconds: u64,
    /// Latest error of the registry.
    error: Option<String>,
}

/// Describes every upstream with its endpoints, then each `uri` of a route whose latest attempts failed.
pub(super) fn describe_all(state: &AdminState) -> Vec<UpstreamReply> {
    let upstreams = state.upstreams.all();
    let (config, failures) = (state.config.load(), state.metrics.present_failures());
    let uris = config.routes.iter().filter(|route| !failures.is_empty() && matches!(route.uri, Target::Http { .. }));
    let uris: BTreeMap<String, &str> = uris.map(|route| (upstream_name(&route.uri), &*route.definition.uri)).collect();
    let loaded = state.config_state.load();
    let secrets = &loaded.secrets;
    let failing = uris.into_iter().filter_map(|(name, uri)| Some(failing(&name, uri, failures.get(&*name)?, secrets)));
    upstreams.iter().map(|upstream| describe(upstream, secrets)).chain(failing).collect()
}

/// Describes the `uri` of a route, which fails.
fn failing(name: &str, uri: &str, failure: &LatestFailure, secrets: &SecretValues) -> UpstreamReply {
    let live = LiveEndpoint {
        endpoint: secrets.mask(uri),
        state: ReportedState::Failing.as_str().to_owned(),
        in_flight: None,
        consecutive_failures: failure.in_a_row,
        last_failure: Some(LiveFailure { at: shown_time(failure.at), error: secrets.mask(&failure.error) }),
        check_error: None,
    };
    let endpoints = vec![EndpointReply { live, drained_for_ms: None, zone: None }];
    UpstreamReply {
        name: secrets.mask(name),
        endpoints,
        ejections: 0,
        unavailable: 0,
        failed_lookups: 0,
        registry: None,
    }
}

/// Body of a drain.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", expecting = "a JSON object")]
pub(super) struct Drain {
    expires_in: ExpiresIn,
    /// True if the last endpoint that gets requests may be drained.
    #[serde(default)]
    allow_last: bool,
}

/// Drains an endpoint for a while: `names` are the upstream and the endpoint.
pub(super) async fn drain(body: Incoming, names: [String; 2], state: &AdminState) -> Reply {
    match read_body(body, MAX_BYTES, "{\"expires-in\": \"15m\"}, optionally with \"allow-last\": true").await {
        Ok(Drain { expires_in: ExpiresIn(time), allow_last }) => change(&names, state, |upstream, endpoint| {
            upstream.drain(endpoint, time, allow_last)?;
            Ok(format!("endpoint {endpoint} of {} drained for {}", upstream.name(), format_duration(time)))
        }),
        Err(error) => error.response(),
    }
}

/// Ends the draining of an endpoint.
pub(super) fn end_drain(names: &[String; 2], state: &AdminState) -> Reply {
    change(names, state, |upstream, endpoint| {
        upstream.end_drain(endpoint)?;
        Ok(format!("draining of endpoint {endpoint} of {} ended", upstream.name()))
    })
}

/// Applies `change` to the upstream and the endpoint of `names`.
fn change(
    [name, endpoint]: &[String; 2],
    state: &AdminState,
    change: impl FnOnce(&Arc<Upstream>, &str) -> Result<String, DrainError>,
) -> Reply {
    let Some(upstream) = state.upstreams.all().into_iter().find(|upstream| **upstream.name() == **name) else {
        let upstreams = state.upstreams.all();
        let names = known_names("upstreams", upstreams.iter().map(|upstream| upstream.name().to_string()));
        return problem(StatusCode::NOT_FOUND, &format!("unknown upstream `{name}`; {names}"));
    };
    match change(&upstream, endpoint) {
        Ok(applied) => audited(json(StatusCode::OK, &describe(&upstream, &state.config_state.load().secrets)), applied),
        Err(DrainError::Unknown) => {
            let endpoints = upstream.statuses().into_iter().map(|status| status.endpoint.to_string());
            let names = known_names("its endpoints", endpoints);
            problem(StatusCode::NOT_FOUND, &format!("upstream `{name}` has no endpoint `{endpoint}`; {names}"))
        }
        Err(DrainError::Last) => problem(
            StatusCode::CONFLICT,
            &format!(
                "no other endpoint of `{name}` gets requests: \"allow-last\": true drains the last one, and clients get 503"
            ),
        ),
    }
}

/// Formats a time as RFC 3339 in UTC, with milliseconds.
fn shown_time(time: SystemTime) -> String {
    Timestamp::try_from(time).map(|time| format!("{time:.3}")).unwrap_or_default()
}

/// Describes an endpoint. Errors may quote what the configuration says: the `secrets` in them are masked.
pub(super) fn live_endpoint(status: EndpointStatus, secrets: &SecretValues) -> LiveEndpoint {
    LiveEndpoint {
        endpoint: status.endpoint.to_string(),
        state: status.state.as_str().to_owned(),
        in_flight: Some(u64::from(status.endpoint.in_flight())),
        consecutive_failures: status.consecutive_failures,
        last_failure: status
            .last_failure
            .map(|failure| LiveFailure { at: shown_time(failure.at), error: secrets.mask(&failure.error) }),
        check_error: status.check_error.map(|error| secrets.mask(&error)),
    }
}

fn describe(upstream: &Arc<Upstream>, secrets: &SecretValues) -> UpstreamReply {
    let source = upstream.source();
    let instances = source.iter().flat_map(|source| source.instances.iter());
    let zones: HashMap<String, &str> =
        instances.filter_map(|instance| Some((instance.address.to_string(), instance.zone.as_deref()?))).collect();
    let endpoints = upstream.statuses().into_iter().map(|status| {
        let drained_for = upstream.drained_for(&status.endpoint);
        let live = live_endpoint(status, secrets);
        let zone = zones.get(&live.endpoint).map(|zone| (*zone).to_owned());
        EndpointReply { live, drained_for_ms: drained_for.map(whole_millis), zone }
    });
    let stats = upstream.stats();
    UpstreamReply {
        name: upstream.name().to_string(),
        endpoints: endpoints.collect(),
        ejections: stats.ejections.load(Relaxed),
        unavailable: stats.unavailable.load(Relaxed),
        failed_lookups: stats.failed_lookups.load(Relaxed),
        registry: source.as_ref().map(|source| RegistryReply {
            kind: source.registry.kind(),
            server: source.registry.server().to_owned(),
            age_seconds: source.confirmed.elapsed().as_secs(),
            error: source.registry.error().map(|error| secrets.mask(&error)),
        }),
    }
}
