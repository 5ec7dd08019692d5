//! What would become of a request, and why: `tollgate explain`.
//!
//! The request goes through the route's real layers, stacked as for traffic, before an upstream that only takes notes
//! (`recorder.rs`). Limiters ask a store that allows and notes what it was asked, so key ids, rules, scopes and the names
//! in Redis are those of traffic, whatever filters did to the request before. Nothing is counted and nobody is connected
//! to.

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
use crate::gateway::screen::screen;
use crate::http::body::Body;
use crate::upstream::forwarded::client_ip;
use crate::upstream::headers::HeaderPolicy;
use tollgate_config::{Config, Route};
use tollgate_routing::{RequestView, RouteTable};

/// How long layers may take, which wait for nobody.
const PATIENCE: Duration = Duration::from_secs(5);

/// A request that is asked about.
#[derive(Debug)]
pub struct Asked {
    /// Its head as the client sends it.
    pub head: Parts,
    /// Whom it comes from.
    pub peer: IpAddr,
    /// What chance says, where routes are chosen by it.
    pub chance: u64,
}

/// What becomes of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Explanation {
    /// Why it is answered before it is routed; then there is nothing else to say.
    pub refused: Option<String>,
    /// The routes before the one that takes it.
    pub passed_over: Vec<PassedOver>,
    /// The route that takes it; without one the answer is 404.
    pub route: Option<Taken>,
}

/// A route that does not take the request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct PassedOver {
    /// Its id.
    pub route: String,
    /// Its first predicate that does not hold, as it was written.
    pub predicate: String,
    /// What the predicate saw.
    pub seen: String,
}

/// What becomes of the request on its route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Taken {
    /// The route's id.
    pub id: String,
    /// Its `uri`, as it was written.
    pub uri: String,
    /// Its predicates, as they were written.
    pub predicates: Vec<String>,
    /// What `Path` and `Host` patterns took from the request.
    pub variables: BTreeMap<String, String>,
    /// Its filters in the order in which the request meets them, default-filters among them.
    pub filters: Vec<Met>,
    /// What the upstream gets; `None`: a filter answers.
    pub forwarded: Option<Forwarded>,
    /// The answer of a filter.
    pub answered: Option<Answered>,
}

/// A filter and what it asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Met {
    /// The filter, as it was written.
    pub filter: String,
    /// What a limiter or a counter counts the request under.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub counted: Vec<Counted>,
}

/// A rule, or a counter, and what the request is counted under.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Counted {
    /// How much may pass.
    pub rule: String,
    /// What tells its buckets from those of other rules.
    pub scope: String,
    /// The request's key id.
    pub key_id: String,
    /// What the request takes.
    pub cost: u64,
    /// The names in Redis; empty where counts are kept in memory.
    pub redis_keys: Vec<String>,
}

/// What an upstream gets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Forwarded {
    /// The method.
    pub method: String,
    /// Where it goes, as a URL.
    pub url: String,
    /// The header fields by name; several values of one in their order.
    pub headers: BTreeMap<String, Vec<String>>,
}

/// A filter's own answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Answered {
    /// Its status.
    pub status: u16,
    /// Why, in one word.
    pub reason: String,
}

/// What `config` makes of the request.
#[must_use]
pub fn explain(config: &Config, asked: Asked) -> Explanation {
    let Asked { mut head, peer, chance } = asked;
    let mut explanation = Explanation { refused: None, passed_over: Vec::new(), route: None };
    if let Err(failure) = screen(&mut head, config.forwarding.underscores) {
        let detail = failure.to_string();
        let detail = if detail.is_empty() { String::new() } else { format!(": {detail}") };
        explanation.refused = Some(format!("{}{detail}", failure.reason()));
        return explanation;
    }
    let forwarding = &config.forwarding;
    let client = client_ip(peer, &head.headers, &forwarding.trusted_proxies);
    let remote_addr = if forwarding.believes_address { client } else { peer };
    let view = RequestView::new(&head.method, &head.uri, &head.headers, remote_addr, chance);
    let table = RouteTable::new(config.routes.iter().map(|route| (route.predicates.clone(), route)).collect());
    let mut taken = None;
    for tried in table.explain(&view) {
        let route: &Route = tried.route.value;
        let Some(mismatch) = tried.mismatch else {
            taken = Some((route, tried.route.variables(&view)));
            break;
        };
        let at = tried.route.predicates.iter().position(|known| std::ptr::eq(known, mismatch.predicate));
        let written = at.and_then(|at| route.definition.predicates.get(at));
        explanation.passed_over.push(PassedOver {
            route: route.id.to_string(),
            predicate: written.map_or_else(|| mismatch.predicate.to_string(), String::clone),
            seen: mismatch.observed,
        });
    }
    explanation.route = taken.map(|(route, variables)| take(config, route, variables, head, peer));
    explanation
}

/// Sends the request through the layers of `route`.
fn take(config: &Config, route: &Route, variables: Vec<(Arc<str>, String)>, mut head: Parts, peer: IpAddr) -> Taken {
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
    let answered = recorder.run(Request::from_parts(head, Body::default()), PATIENCE);
    let (forwarded, counted) = recorder.notes();
    let answered = answered.filter(|_| forwarded.is_none()).map(|response| Answered {
        status: response.status().as_u16(),
        reason: response.extensions().get::<LocalReply>().map_or("answered", |reply| reply.reason).to_owned(),
    });
    let texts = route.definition.filters.iter().cloned();
    Taken {
        id: route.id.to_string(),
        uri: route.definition.uri.clone(),
        predicates: route.definition.predicates.clone(),
        variables: shown,
        filters: texts.zip(counted).map(|(filter, counted)| Met { filter, counted }).collect(),
        forwarded,
        answered,
    }
}

/// Header fields by name.
fn by_name(headers: &HeaderMap) -> BTreeMap<String, Vec<String>> {
    let mut all = BTreeMap::<String, Vec<String>>::new();
    for (name, value) in headers {
        all.entry(name.to_string()).or_default().push(String::from_utf8_lossy(value.as_bytes()).into_owned());
    }
    all
}
