//! Spring Boot's endpoints: their list, and the routes of the running configuration in the shape of `/actuator/gateway/routes`.

use std::collections::BTreeMap;

use http::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::admin::admin_state::AdminState;
use crate::admin::reply::{Reply, json, problem};
use tollgate_config::{Actuator, Audience, Route, SecretValues};
use tollgate_routing::AllOf;

/// Text in place of a value that may be a secret.
const MASK: &str = "****";

/// Route in effect.
#[derive(Serialize, JsonSchema)]
pub(super) struct RouteReply<'c> {
    route_id: &'c str,
    uri: String,
    order: i32,
    predicate: String,
    filters: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    metadata: BTreeMap<&'c str, &'c str>,
}

/// Route as in the file.
#[reply]
pub(super) struct RouteDefinition<'c> {
    id: &'c str,
    uri: String,
    predicates: Vec<String>,
    filters: Vec<String>,
    metadata: BTreeMap<&'c str, &'c str>,
    order: i32,
}

/// Link of the gateway endpoint.
#[reply]
pub(super) struct Link {
    href: String,
    methods: [&'static str; 1],
}

/// Names of filters or predicates, each with null.
pub(super) type Names = BTreeMap<&'static str, ()>;

/// Positions of filters, by their text.
pub(super) type Positions = BTreeMap<String, u32>;

/// Returns every route, in matching order.
pub(super) fn list(state: &AdminState) -> Reply {
    let (config, loaded) = (state.config.load(), state.config_state.load());
    json(StatusCode::OK, &config.routes.iter().map(|route| describe(route, &loaded.secrets)).collect::<Vec<_>>())
}

/// Returns the route `id`, or 404.
pub(super) fn one(state: &AdminState, id: &str) -> Reply {
    match state.config.load().routes.iter().find(|route| &*route.id == id) {
        Some(route) => json(StatusCode::OK, &describe(route, &state.config_state.load().secrets)),
        None => unknown_route(),
    }
}

/// Returns the links of the gateway endpoint: `pages` are their methods and paths.
pub(super) fn index(pages: impl Iterator<Item = (&'static str, String)>) -> Reply {
    let links = pages.map(|(method, href)| Link { href, methods: [method] });
    json(StatusCode::OK, &links.collect::<Vec<_>>())
}

/// Returns every route as in the file.
pub(super) fn definitions(state: &AdminState) -> Reply {
    let (config, loaded) = (state.config.load(), state.config_state.load());
    let definitions = config.routes.iter().map(|route| {
        let definition = &route.definition;
        RouteDefinition {
            id: &route.id,
            uri: loaded.secrets.mask(&definition.uri),
            predicates: masked_texts(definition.masked_predicates(Audience::Network), &loaded.secrets),
            filters: masked_texts(definition.masked_filters(Audience::Network), &loaded.secrets),
            metadata: masked(&definition.metadata),
            order: route.order,
        }
    });
    json(StatusCode::OK, &definitions.collect::<Vec<_>>())
}

/// Returns the filters of the route `id` with their positions, default filters included, or 404.
pub(super) fn combined_filters(state: &AdminState, id: &str) -> Reply {
    match state.config.load().routes.iter().find(|route| &*route.id == id) {
        Some(route) => {
            let filters = route.definition.masked_filters(Audience::Network);
            let filters = masked_texts(filters, &state.config_state.load().secrets);
            let positions = filters.into_iter().zip(1_u32..).map(|(filter, position)| (filter, position.into()));
            json(StatusCode::OK, &positions.collect::<Map<_, _>>())
        }
        None => unknown_route(),
    }
}

/// Returns the names of all filters.
pub(super) fn filters() -> Reply {
    names(tollgate_config::filters().map(|entry| entry.name))
}

/// Returns the names of all predicates.
pub(super) fn predicates() -> Reply {
    names(tollgate_config::predicates().iter().map(|entry| entry.name))
}

/// Returns Spring's global filters: Tollgate has no such chain.
pub(super) fn global_filters() -> Reply {
    names(std::iter::empty())
}

/// Returns `names` in their order.
fn names(names: impl Iterator<Item = &'static str>) -> Reply {
    json(StatusCode::OK, &names.map(|name| (name.to_owned(), Value::Null)).collect::<Map<_, _>>())
}

fn unknown_route() -> Reply {
    problem(StatusCode::NOT_FOUND, "no such route")
}

/// Adds the default port to a URI, as Spring shows it.
fn with_port(uri: &str) -> String {
    let parsed = uri.parse::<http::Uri>().ok();
    match parsed.as_ref().and_then(|uri| Some((uri.scheme_str()?, uri.authority()?))) {
        Some((scheme @ ("http" | "https"), authority)) if authority.port().is_none() => {
            format!("{scheme}://{}:{}", authority.host(), if scheme == "https" { 443 } else { 80 })
        }
        _ => uri.to_owned(),
    }
}

/// Returns `metadata` with the values masked that have no meaning for the gateway: they may be secrets.
fn masked(metadata: &BTreeMap<String, String>) -> BTreeMap<&str, &str> {
    let is_known =
        |name: &str| ["connect-timeout", "response-timeout", "http2"].contains(&name) || name.starts_with("cors.");
    metadata.iter().map(|(name, value)| (&**name, if is_known(name) { value } else { MASK })).collect()
}

fn masked_texts(texts: &[String], secrets: &SecretValues) -> Vec<String> {
    texts.iter().map(|text| secrets.mask(text)).collect()
}

fn describe<'r>(route: &'r Route, secrets: &SecretValues) -> RouteReply<'r> {
    RouteReply {
        route_id: &route.id,
        uri: secrets.mask(&with_port(&route.definition.uri)),
        order: route.order,
        predicate: secrets.mask(&format!("{:#}", AllOf(&route.predicates))),
        filters: masked_texts(route.definition.masked_filters(Audience::Network), secrets),
        metadata: masked(&route.definition.metadata),
    }
}

/// Endpoints of Spring Boot.
#[reply]
pub(super) struct ActuatorIndex<'a> {
    #[serde(rename = "_links")]
    links: ActuatorLinks<'a>,
}

#[reply]
struct ActuatorLinks<'a> {
    #[serde(rename = "self")]
    index: ActuatorLink<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    health: Option<ActuatorLink<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prometheus: Option<ActuatorLink<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gateway: Option<ActuatorLink<'a>>,
}

#[reply]
struct ActuatorLink<'a> {
    href: &'a str,
    templated: bool,
}

/// Lists the endpoints with their paths.
pub(super) fn actuator_index(actuator: &Actuator) -> Reply {
    let link = |href| ActuatorLink { href, templated: false };
    let links = ActuatorLinks {
        index: link(&actuator.base),
        health: actuator.health.as_deref().map(link),
        prometheus: actuator.prometheus.as_deref().map(link),
        gateway: actuator.gateway.as_deref().map(link),
    };
    json(StatusCode::OK, &ActuatorIndex { links })
}
