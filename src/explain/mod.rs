//! Dry run of one request: `tollgate explain`.
//!
//! The request passes the route's real layers, stacked as for traffic, in front of an upstream that only records it
//! (`recorder.rs`). Limiters get a store that allows every request and records its arguments. Key ids, rules, scopes
//! and Redis keys are therefore those of traffic, whatever filters changed before. Nothing is counted, and no
//! connection is opened.

mod recorder;
#[cfg(test)]
mod tests;
mod text;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use http::{HeaderMap, Request};
use serde::Serialize;
use tollgate_filters::context::{LocalReply, RequestContext};

use self::recorder::Recorder;
use crate::gateway::sanitize::{SanitizeRules, sanitize};
use crate::http::body::Body;
use crate::http::failure::Failure;
use crate::upstream::forwarded::client_ip;
use crate::upstream::headers::HeaderPolicy;
use tollgate_config::{Config, Route};
use tollgate_routing::{Decision, RequestView, RouteTable, Undecided};

/// Longest run time of the layers. They connect to nothing, so it is never reached.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Request of a dry run.
#[derive(Debug)]
pub struct DryRunRequest {
    /// Head of the request, as the client sends it.
    pub head: Parts,
    /// Address of the peer.
    pub peer: IpAddr,
    /// Random number for `Weight` predicates.
    pub chance: u64,
}

/// Result of a dry run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Explanation {
    /// Reason if the request is refused before routing. The other fields are empty then.
    pub refused: Option<String>,
    /// Routes that were tried before and do not match.
    pub passed_over: Vec<SkippedRoute>,
    /// Route that matches; without one the response is 404.
    pub route: Option<MatchedRoute>,
}

/// Route that does not match.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct SkippedRoute {
    /// Id of the route.
    pub route: String,
    /// First predicate that does not match, as in the file.
    pub predicate: String,
    /// Value that the predicate examined.
    pub seen: String,
}

/// Route that matches, and the effect of its filters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct MatchedRoute {
    /// Id of the route.
    pub id: String,
    /// `uri`, as in the file.
    pub uri: String,
    /// Predicates, as in the file.
    pub predicates: Vec<String>,
    /// URI template variables of `Path` and `Host` patterns.
    pub variables: BTreeMap<String, String>,
    /// Filters in the order of execution, default filters included.
    pub filters: Vec<FilterTrace>,
    /// Request to the upstream; `None` if a filter responds.
    pub forwarded: Option<ForwardedRequest>,
    /// Response of a filter.
    pub answered: Option<LocalResponse>,
}

/// Filter, and the keys that it counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct FilterTrace {
    /// Filter, as in the file.
    pub filter: String,
    /// Keys under which a limiter or counter counts the request.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub counted: Vec<CountedKey>,
}

/// Key under which one rule or counter counts the request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct CountedKey {
    /// Rule in a few words.
    pub rule: String,
    /// Scope, which separates the buckets of different rules.
    pub scope: String,
    /// Key id of the request.
    pub key_id: String,
    /// Tokens that the request costs.
    pub cost: u64,
    /// Keys in Redis; empty if counts are kept in memory.
    pub redis_keys: Vec<String>,
}

/// Request to an upstream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct ForwardedRequest {
    /// Method.
    pub method: String,
    /// URL.
    pub url: String,
    /// Header fields by name, each with its values in order.
    pub headers: BTreeMap<String, Vec<String>>,
}

/// Response of a filter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct LocalResponse {
    /// Status code.
    pub status: u16,
    /// Reason code, as in the access log.
    pub reason: String,
}

/// Runs `request` through the routes of `config`, without side effects.
#[must_use]
pub fn explain(config: &Config, request: DryRunRequest) -> Explanation {
    let DryRunRequest { mut head, peer, chance } = request;
    let mut explanation = Explanation { refused: None, passed_over: Vec::new(), route: None };
    if let Err(failure) = sanitize(&mut head, SanitizeRules::of(config)) {
        let detail = failure.to_string();
        let detail = if detail.is_empty() { String::new() } else { format!(": {detail}") };
        explanation.refused = Some(format!("{}{detail}", failure.reason()));
        return explanation;
    }
    let forwarding = &config.forwarding;
    let client = client_ip(peer, &head.headers, &forwarding.trusted_proxies);
    let address = if forwarding.trusts_client_address { client } else { peer };
    let view = RequestView::new(&head.method, &head.uri, &head.headers, address, chance);
    let table = RouteTable::new(config.routes.iter().map(|route| (route.predicates.clone(), route)).collect());
    let mut matched = None;
    for tried in table.explain(&view) {
        let route: &Route = tried.route.value;
        let Some(mismatch) = tried.mismatch else {
            matched = Some((route, tried.route.variables(&view)));
            break;
        };
        let position = tried.route.predicates.iter().position(|known| std::ptr::eq(known, mismatch.predicate));
        let predicate = position.and_then(|position| route.definition.predicates.get(position));
        let predicate = predicate.map_or_else(|| mismatch.predicate.to_string(), String::clone);
        if tried.decision == Decision::Undecided {
            let failure = Failure::from(Undecided);
            explanation.refused = Some(format!("{}: {failure}: {} {predicate}", failure.reason(), route.id));
            return explanation;
        }
        explanation.passed_over.push(SkippedRoute { route: route.id.to_string(), predicate, seen: mismatch.observed });
    }
    explanation.route = matched.map(|(route, variables)| run_layers(config, route, variables, head, peer));
    explanation
}

/// Runs the request through the layers of `route`.
fn run_layers(
    config: &Config,
    route: &Route,
    variables: Vec<(Arc<str>, String)>,
    mut head: Parts,
    peer: IpAddr,
) -> MatchedRoute {
    let shown = variables.iter().map(|(name, value)| (name.to_string(), value.clone())).collect();
    head.extensions.insert(RequestContext {
        client_ip: Some(client_ip(peer, &head.headers, &config.forwarding.trusted_proxies)),
        route_id: Some(Arc::clone(&route.id)),
        variables,
        ..RequestContext::default()
    });
    let header_policy = HeaderPolicy {
        underscores: config.forwarding.underscores,
        remove: config.forwarding.remove_hop_by_hop.clone(),
        via: config.forwarding.via.clone(),
    };
    header_policy.clean_request(&mut head.headers, config.forwarding.trusted_proxies.trusts(peer));

    let recorder = Recorder::new(config, route);
    let answered = recorder.run(Request::from_parts(head, Body::default()), TIMEOUT);
    let (forwarded, counted) = recorder.finish();
    let answered = answered.filter(|_| forwarded.is_none()).map(|response| LocalResponse {
        status: response.status().as_u16(),
        reason: response.extensions().get::<LocalReply>().map_or("answered", |reply| reply.reason).to_owned(),
    });
    let filters = route.definition.filters.iter().cloned();
    MatchedRoute {
        id: route.id.to_string(),
        uri: route.definition.uri.clone(),
        predicates: route.definition.predicates.clone(),
        variables: shown,
        filters: filters.zip(counted).map(|(filter, counted)| FilterTrace { filter, counted }).collect(),
        forwarded,
        answered,
    }
}

/// Groups header fields by name.
fn by_name(headers: &HeaderMap) -> BTreeMap<String, Vec<String>> {
    let mut all = BTreeMap::<String, Vec<String>>::new();
    for (name, value) in headers {
        all.entry(name.to_string()).or_default().push(String::from_utf8_lossy(value.as_bytes()).into_owned());
    }
    all
}
