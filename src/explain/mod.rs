//! Dry run of one request: `tollgate explain`.
//!
//! The request passes the route's real layers, stacked as for traffic, in front of an upstream that only records it
//! (`recorder.rs`). Limiters get a store that allows every request and records its arguments. Key ids, rules, scopes
//! and Redis keys are therefore those of traffic, with the changes of the filters before. Nothing is counted, and no
//! connection is opened.

mod cors;
pub mod model;
mod recorder;
mod request;
#[cfg(test)]
mod tests;
pub mod text;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use http::{HeaderMap, HeaderValue, Request};
use tollgate_filters::api_key::Settings;
use tollgate_filters::context::{LocalReply, RequestContext};
use tollgate_filters::verify_api_key::KeyFetcher;
use tollgate_limiter::plan::PlanSource;

use self::model::{Explanation, FilterTrace, ForwardedRequest, LocalResponse, MatchedRoute, SkippedRoute};
use self::recorder::Recorder;
use self::request::DecidedConditions;
pub use self::request::{DryRunRequest, RequestError};
pub use self::text::describe;
use tollgate_config::{Audience, Config, ForwardClientCert, Route, SecretValues};
use tollgate_proxy::gateway::cors::reported_tls;
use tollgate_proxy::gateway::sanitize::{SanitizeRules, sanitize};
use tollgate_proxy::http::body::Body;
use tollgate_proxy::http::client_certificate::CertifiedClient;
use tollgate_proxy::http::failure::Failure;
use tollgate_proxy::upstream::forwarded::client_ip;
use tollgate_proxy::upstream::headers::HeaderPolicy;
use tollgate_routing::{Decision, RequestView, RouteTable, Undecided};

/// Timeout of the layers. They open no connections, so they end long before.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Source of the plans of keys: the Redis hash, and the time for which a plan is cached.
pub type PlansOf<'p> = &'p dyn Fn(&str, Duration) -> Option<Arc<dyn PlanSource>>;

/// Source of the API keys in the Redis hash of this name.
pub type KeysOf<'p> = &'p dyn Fn(&Arc<str>) -> Option<Arc<dyn KeyFetcher>>;

/// Settings of a dry run, besides the configuration and the request.
#[derive(Clone, Copy)]
pub struct DryRunSettings<'p> {
    /// Plans that are in Redis. Without them, every key has the default plan.
    pub plans: PlansOf<'p>,
    /// API keys that are in Redis. Without them, they are unavailable.
    pub keys: KeysOf<'p>,
    /// Reader of the explanation, which decides the values that are masked.
    pub audience: Audience,
    /// Values of the configuration that are masked wherever they appear, unless the client sent them.
    pub secrets: &'p SecretValues,
}

/// Runs `request` through the routes of `config`, whose `secrets` are masked, without side effects. Returns `None` if the system
/// refuses a runtime.
pub fn explain(config: &Config, secrets: &SecretValues, request: DryRunRequest) -> Option<Explanation> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().ok()?;
    let settings = DryRunSettings { plans: &|_, _| None, keys: &|_| None, audience: Audience::Shell, secrets };
    let mut explanation = runtime.block_on(dry_run(config, request, settings));
    let is_decided = explanation.route.is_some() || explanation.refused.is_some() || explanation.own_endpoint;
    explanation.lacks_locator_routes = !is_decided && config.locator.is_some();
    Some(explanation)
}

/// Runs `request` through the routes of `config`, without side effects.
pub async fn dry_run(config: &Config, request: DryRunRequest, settings: DryRunSettings<'_>) -> Explanation {
    let DryRunRequest { mut head, peer, mut certificate, chance } = request;
    let mut explanation = Explanation::default();
    let is_https = head.uri.scheme_str() == Some("https");
    let is_trusted = config.forwarding.trusted_proxies.trusts(peer);
    if let Err(failure) = sanitize(&mut head, SanitizeRules::of(config), is_trusted) {
        let detail = failure.to_string();
        let detail = if detail.is_empty() { String::new() } else { format!(": {detail}") };
        explanation.refused = Some(format!("{}{detail}", failure.reason()));
        return explanation;
    }
    if is_trusted && config.server.forward_client_cert == ForwardClientCert::ClientCert {
        certificate = CertifiedClient::of_field(&head.headers);
    }
    if let Some(client) = certificate {
        head.extensions.insert(client.names);
    }
    let scheme = if reported_tls(&head.headers).unwrap_or(is_https) { "https" } else { "http" };
    if config.management.on_traffic.as_ref().is_some_and(|endpoints| endpoints.owns(head.uri.path())) {
        explanation.own_endpoint = true;
        return explanation;
    }
    let forwarding = &config.forwarding;
    let client = client_ip(peer, &head.headers, &forwarding.trusted_proxies);
    let address = if forwarding.trusts_client_address { client } else { peer };
    let view = RequestView::new(&head.method, &head.uri, &head.headers, address, chance);
    let matched = find_route(config, &view, settings, &mut explanation);
    if explanation.refused.is_some() {
        return explanation;
    }
    let policies = if matched.is_some() { &config.cors.by_path } else { &config.cors.unrouted };
    explanation.cors = cors::judge(policies, &head, &view, scheme);
    let answered = explanation.cors.as_ref().and_then(|cors| cors.verdict.response());
    if let Some(matched) = matched {
        explanation.route = Some(run_layers(config, matched, (head, client), answered, settings).await);
    }
    explanation
}

/// Route that matches, the variables of its patterns, and the conditions of its rules.
type RouteMatch<'c> = (&'c Route, Vec<(Arc<str>, String)>, DecidedConditions);

/// Finds the route of a request. Notes the routes that do not match, or the reason for which the request is refused.
fn find_route<'c>(
    config: &'c Config,
    view: &RequestView<'_>,
    settings: DryRunSettings<'_>,
    explanation: &mut Explanation,
) -> Option<RouteMatch<'c>> {
    let table = RouteTable::new(config.routes.iter().map(|route| (route.predicates.clone(), route)).collect());
    for tried in table.explain(view) {
        let route: &'c Route = tried.route.value;
        let Some(mismatch) = tried.mismatch else {
            match DecidedConditions::of(route, view, settings) {
                Ok(conditions) => return Some((route, tried.route.variables(view), conditions)),
                Err(undecided) => explanation.refused = Some(undecided_text(undecided, route, "`when` of a rule")),
            }
            return None;
        };
        let position = tried.route.predicates.iter().position(|predicate| std::ptr::eq(predicate, mismatch.predicate));
        let predicate = position.and_then(|at| route.definition.masked_predicates(settings.audience).get(at));
        let predicate = predicate.map_or_else(|| mismatch.predicate.to_string(), |text| settings.secrets.mask(text));
        if tried.decision == Decision::Undecided {
            explanation.refused = Some(undecided_text(Undecided, route, &predicate));
            return None;
        }
        explanation.passed_over.push(SkippedRoute { route: route.id.to_string(), predicate, seen: mismatch.observed });
    }
    None
}

fn undecided_text(undecided: Undecided, route: &Route, subject: &str) -> String {
    let failure = Failure::from(undecided);
    format!("{}: {failure}: {} {subject}", failure.reason(), route.id)
}

/// Runs the request through the layers of `route`, unless `answered` is the response of a CORS policy.
async fn run_layers(
    config: &Config,
    (route, variables, conditions): RouteMatch<'_>,
    (mut head, client): (Parts, IpAddr),
    answered: Option<LocalResponse>,
    settings: DryRunSettings<'_>,
) -> MatchedRoute {
    let shown = variables.iter().map(|(name, value)| (name.to_string(), value.clone())).collect();
    let (sent, sent_target) = (head.headers.clone(), head.uri.to_string());
    head.extensions.insert(RequestContext {
        client_ip: Some(client),
        route_id: Some(Arc::clone(&route.id)),
        variables,
        conditions: conditions.bits,
        ..RequestContext::default()
    });
    HeaderPolicy::of(config).clean_request(&mut head.headers);

    let recorder = Recorder::new(config, route, (settings.plans, settings.keys));
    let response = match &answered {
        None => recorder.run(Request::from_parts(head, Body::default()), TIMEOUT).await,
        Some(_) => None,
    };
    let (mut forwarded, counted) = recorder.finish();
    let answered = answered.or(response.filter(|_| forwarded.is_none()).map(|response| LocalResponse {
        status: response.status().as_u16(),
        reason: response.extensions().get().map_or("answered", |reply: &LocalReply| reply.reason).to_owned(),
    }));
    let (definition, audience, secrets) = (&route.definition, settings.audience, settings.secrets);
    if let Some(forwarded) = &mut forwarded {
        mask(forwarded, (&sent, &sent_target), settings);
        if let Some(keys) = &config.api_keys {
            mask_api_keys(forwarded, &keys.settings);
        }
    }
    let masked = |text: &String| secrets.mask(text);
    let filters = definition.masked_filters(audience).iter().map(masked);
    let arguments = definition.masked_arguments(audience).iter();
    let arguments = arguments.map(|all| all.iter().map(|(name, value)| (masked(name), masked(value))).collect());
    let filters = filters.zip(arguments).zip(counted.into_iter().zip(conditions.skipped));
    let filters = filters.map(|((filter, arguments), (counted, skipped_rules))| FilterTrace {
        filter,
        arguments,
        counted,
        skipped_rules,
    });
    MatchedRoute {
        id: route.id.to_string(),
        uri: masked(&definition.uri),
        predicates: definition.masked_predicates(audience).iter().map(masked).collect(),
        variables: shown,
        filters: filters.collect(),
        forwarded,
        answered,
        live: None,
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

/// Text in place of a masked value.
const MASK: &str = "****";
/// Fields that the gateway itself sets.
const OWN_FIELDS: [&str; 9] = [
    "content-length",
    "forwarded",
    "host",
    "via",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-port",
    "x-forwarded-prefix",
    "x-forwarded-proto",
];

/// Masks API keys, also those that the client sent.
fn mask_api_keys(forwarded: &mut ForwardedRequest, keys: &Settings) {
    for name in keys.headers() {
        forwarded.headers.get_mut(name.as_str()).into_iter().flatten().for_each(|value| MASK.clone_into(value));
    }
    if let Some(url) = tollgate_filters::query::masked(&forwarded.url, keys.parameters()) {
        forwarded.url = url;
    }
}

/// Masks the header fields and query parameters of `forwarded` that the client did not send, and that the audience may not see.
fn mask(forwarded: &mut ForwardedRequest, (sent, target): (&HeaderMap, &str), settings: DryRunSettings<'_>) {
    let DryRunSettings { audience, secrets, .. } = settings;
    for (name, values) in &mut forwarded.headers {
        let sent: Vec<&[u8]> = sent.get_all(name).iter().map(HeaderValue::as_bytes).collect();
        for value in values.iter_mut().filter(|value| !sent.contains(&value.as_bytes())) {
            *value = match OWN_FIELDS.contains(&name.as_str()) || !audience.hides(name, value) {
                true => secrets.mask(value),
                false => MASK.to_owned(),
            };
        }
    }
    // A mask over a text of the client's would tell that it is a secret.
    let masked = |text: &str| secrets.mask_unless(text, |found| target.contains(found));
    let Some((before, query)) = forwarded.url.split_once('?') else {
        forwarded.url = masked(&forwarded.url);
        return;
    };
    let sent_query = target.split_once('?').map_or("", |(_, query)| query);
    let pairs = query.split('&').map(|pair| match pair.split_once('=') {
        Some((name, value)) if !sent_query.split('&').any(|pair_sent| pair_sent == pair) => {
            format!("{name}={}", if audience.hides(name, value) { MASK.to_owned() } else { masked(value) })
        }
        _ => pair.to_owned(),
    });
    forwarded.url = format!("{}?{}", masked(before), pairs.collect::<Vec<_>>().join("&"));
}
