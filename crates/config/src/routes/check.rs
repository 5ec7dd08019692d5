//! `routes` and `default-filters`.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::diagnostics::{Diagnostics, Severity};
use crate::filters::for_all_routes::RawLocalResponseCache;
use crate::filters::local_response_cache::{UNSET_SIZE, cache_for_all};
use crate::filters::model::{Filter, ResponseCache};
use crate::filters::row::FilterContext;
use crate::predicates::weights::Groups;
use crate::raw_config::RawConfig;
use crate::routes::key_parts::report_forwarded;
use crate::routes::model::{Cors, Definition, Route};
use crate::routes::route::{RouteContext, RouteReader, filter_list, items, predicate_list};
use crate::sections::http_client::Http2;
use crate::sections::memory::default_cache_bytes;
use crate::sections::upstreams::UpstreamsByName;
use crate::switches::{ComponentKind, Switches};
use crate::yaml::{Node, Span};
use tollgate_filters::refusal::ErrorFormat;
use tollgate_routing::{Predicate, covering_routes};

/// Sections that define routes.
pub(crate) struct RouteSections<'r> {
    /// The tree of the file.
    pub(crate) root: &'r Node,
    /// Its sections.
    pub(crate) raw: &'r RawConfig,
    /// True if the file has properties of Spring, such as its profiles.
    pub(crate) has_spring: bool,
    pub(crate) upstreams: &'r UpstreamsByName,
}

/// Returns every enabled route, in the order in which routes are tried, and the predicates of requests without a line in the
/// access log.
pub(crate) fn check(
    sections: &RouteSections<'_>,
    filters: &FilterContext<'_>,
    diagnostics: &mut Diagnostics,
) -> (Vec<Route>, Vec<Predicate>) {
    let &RouteSections { root, raw, upstreams, .. } = sections;
    let (nodes, defaults) = (items(root.step("routes")), root.step("default-filters"));
    let nodes = if multiply(defaults, nodes.len(), diagnostics) { &[] } else { nodes };
    let default_filters = filter_list(defaults, filters, diagnostics);
    let predicates = filters.limiters.predicates;
    let unlogged = root.step("access-log").and_then(|node| node.step("exclude"));
    let unlogged = predicate_list(unlogged, predicates, diagnostics);
    let context = RouteContext { upstreams, filters, predicates, default_filters: &default_filters };
    let mut routes = read_all(nodes, raw.fail_on_route_definition_error.get(), &context, diagnostics);
    if nodes.is_empty() && !raw.discovery.has_locator() && !diagnostics.has_errors() {
        let help = if sections.has_spring {
            "routes may be in `application-PROFILE.yml` (`--profile PROFILE`), in a config server or Nacos (`bootstrap.yml`, \
             `spring.config.import`), or in Java (a `RouteLocator`): bring them into this file"
        } else if diagnostics.mistakes == Severity::Warning {
            "the smallest one: `spring.cloud.gateway.routes: [{id: all, uri: \"http://localhost:8081\", predicates: [Path=/**]}]`"
        } else {
            "the smallest one: `routes: [{id: all, uri: \"echo:\", predicates: [Path=/**]}]`"
        };
        diagnostics.warn(Span::ROOT, "no routes: every request gets 404").help(help);
    } else if !nodes.is_empty() && nodes.iter().all(is_disabled) && !raw.discovery.has_locator() {
        let help = "remove `enabled: false` from a route; `routes: []` says that no routes are meant";
        diagnostics.warn(Span::ROOT, "every route is disabled: every request gets 404").help(help);
    }
    routes.sort_by_key(|(route, _)| route.order);
    if !diagnostics.has_errors() {
        report_covered(&routes, diagnostics);
        report_forwarded(&routes, diagnostics);
    }
    (routes.into_iter().map(|(route, _)| route).collect(), unlogged)
}

fn is_disabled(route: &Node) -> bool {
    route.step("enabled").is_some_and(|enabled| enabled.is_text("false"))
}

/// Reports routes that get no request because a route before them matches all of theirs.
fn report_covered(routes: &[(Route, Span)], diagnostics: &mut Diagnostics) {
    let predicates: Vec<&[Predicate]> = routes.iter().map(|(route, _)| route.predicates.as_slice()).collect();
    for ((route, at), covering) in routes.iter().zip(covering_routes(&predicates)) {
        let Some((before, _)) = covering.and_then(|covering| routes.get(covering)) else { continue };
        let limits = |filter: &Filter| matches!(filter, Filter::RequestRateLimiter(_) | Filter::ConcurrencyLimiter(_));
        let outcome = if route.filters.iter().any(limits) { ", and its limits do not apply" } else { "" };
        let (id, before) = (&route.id, &before.id);
        diagnostics
            .warn(*at, format!("route `{id}` gets no request{outcome}: route `{before}` before it matches all of them"))
            .help(format!("list `{id}` before `{before}`, or give it a lower `order`"));
    }
}

/// Filters of one route at most, with the default ones: each is compared with those before it.
const MAX_FILTERS: usize = 1_000;
/// Values of the default filters of all routes at most: each route has its own copy.
const MAX_DEFAULTS: usize = 500_000;

/// Reports default filters that are too large for this number of routes; returns true for such.
fn multiply(defaults: Option<&Node>, routes: usize, diagnostics: &mut Diagnostics) -> bool {
    let Some((list, values)) = defaults.map(|list| (list, list.weight())) else { return false };
    let is_too_much = values.saturating_mul(routes) > MAX_DEFAULTS;
    if is_too_much {
        diagnostics
            .error(
                list.span.key(),
                format!("`default-filters` have {values} values, {routes} times: more than 500,000 for all routes"),
            )
            .help("write them for the routes that need them; plans may be in Redis; 32 bytes of text count as a value");
    }
    is_too_much
}

/// Reports a route with too many filters, `defaults` of which are default ones; returns true for such.
fn has_too_many_filters(node: &Node, defaults: usize, diagnostics: &mut Diagnostics) -> bool {
    let filters = defaults + items(node.step("filters")).len();
    if filters > MAX_FILTERS {
        diagnostics
            .error(node.span, format!("the route has {filters} filters, with `default-filters`"))
            .help("a route has at most 1,000");
    }
    filters > MAX_FILTERS
}

/// Reads the routes in the order of the file, with the places of their ids.
fn read_all(
    nodes: &[Node],
    fails_on_errors: bool,
    context: &RouteContext<'_>,
    diagnostics: &mut Diagnostics,
) -> Vec<(Route, Span)> {
    let mut weights = Groups::default();
    let mut ids: HashMap<String, Span> = HashMap::new();
    let mut routes = Vec::with_capacity(nodes.len());
    for (position, node) in nodes.iter().enumerate() {
        if has_too_many_filters(node, context.default_filters.len(), diagnostics) {
            continue;
        }
        let mark = diagnostics.mark();
        let route = RouteReader { node, position, context }.read(diagnostics);
        if !fails_on_errors && diagnostics.demote_errors(mark) {
            diagnostics
                .warn(node.span, format!("route `{}` has errors and is ignored", name(node, position)))
                .help("`fail-on-route-definition-error: true` refuses the file instead");
            continue;
        }
        let Some((route, id_at)) = route else { continue };
        match ids.entry(route.id.to_string()) {
            Entry::Vacant(id) => {
                id.insert(id_at);
            }
            Entry::Occupied(first) => {
                let error = diagnostics.error(id_at, format!("duplicate route id `{}`", route.id));
                let first = *first.get();
                let error = if first.file() == id_at.file() { error } else { error.beside(" at", first) };
                error.help("give each route its own id: limits are counted by id");
            }
        }
        weights.add(&route.id, &route.predicates, id_at);
        routes.push((route, id_at));
    }
    // Routes with errors are missing from their groups.
    if !diagnostics.has_errors() {
        weights.check(diagnostics);
    }
    routes
}

/// Returns the name of a route that may be unreadable.
fn name(node: &Node, position: usize) -> String {
    let id = match node.scalar() {
        Some(line) => line.split_once('=').map(|(id, _)| id.trim()),
        None => node.get("id").and_then(Node::scalar),
    };
    id.map_or_else(|| format!("route-{position}"), str::to_owned)
}

/// Adds the shared cache to routes without their own, unless Spring's switches disable it, and sets the identity of
/// every cache, and its size if it has none. `at` is the place of the setting that adds the shared one.
pub(crate) fn complete_caches(
    (raw, at): (&RawLocalResponseCache, Span),
    status_name: Option<&str>,
    switches: &Switches,
    routes: &mut [Route],
    cors: &Cors,
    diagnostics: &mut Diagnostics,
) {
    let is_on = raw.enabled.get() && !switches.is_off(ComponentKind::GlobalFilter, "LocalResponseCache");
    let shared = is_on.then(|| cache_for_all(raw, diagnostics));
    let policies: Vec<_> = cors.by_path.iter().map(|(path, policy)| (path.to_string(), policy.settings())).collect();
    let cors = hash_of((policies, cors.keeps_upstream_headers));
    let mut uncounted = Vec::new();
    for route in &mut *routes {
        let is_cache = |filter: &Filter| matches!(filter, Filter::LocalResponseCache(_));
        if let Some(shared) = shared.as_ref().filter(|_| !route.filters.iter().any(is_cache)) {
            if route.filters.iter().any(Filter::counts_requests) {
                uncounted.push(route.id.to_string());
            }
            route.filters.insert(0, Filter::LocalResponseCache(shared.clone()));
            route.definition.prepend_filter("LocalResponseCache");
        }
        let Some(cache) = caches(&mut route.filters).next() else { continue };
        // Cached responses depend on the route's filters and its CORS policy.
        let Definition { uri, predicates, filters, .. } = &route.definition;
        cache.status_name = status_name.map(Into::into);
        cache.identity = hash_of((uri, predicates, filters, cors, cache.settings));
    }
    let mut unset: Vec<_> = routes.iter_mut().flat_map(|route| caches(&mut route.filters)).collect();
    unset.retain(|cache| cache.max_bytes == UNSET_SIZE);
    let own_caches = unset.iter().filter(|cache| !cache.is_shared).count();
    let bytes = default_cache_bytes(own_caches + usize::from(own_caches < unset.len()));
    unset.into_iter().for_each(|cache| cache.max_bytes = bytes);
    if !uncounted.is_empty() {
        let routes = uncounted.join("`, `");
        diagnostics
            .warn(at, format!("limits of `{routes}` do not count responses from the cache that routes share"))
            .help("a `LocalResponseCache` of the route's own, listed after its limits, counts them");
    }
}

fn caches(filters: &mut [Filter]) -> impl Iterator<Item = &mut ResponseCache> {
    filters
        .iter_mut()
        .filter_map(|filter| if let Filter::LocalResponseCache(cache) = filter { Some(cache) } else { None })
}

fn hash_of(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Notes routes whose upstream speaks HTTP/2 only, and whose denials are HTTP 429. `http2` is that of all routes.
pub(crate) fn note_http_denials(routes: &[Route], http2: Http2, diagnostics: &mut Diagnostics) {
    let is_http = |filter: &Filter| {
        let format = match filter {
            Filter::RequestRateLimiter(limiter) => limiter.settings.error_format,
            Filter::ConcurrencyLimiter(limiter) => limiter.settings.error_format,
            Filter::CircuitBreaker(_)
            | Filter::Edit(_)
            | Filter::LocalResponseCache(_)
            | Filter::Plain(_)
            | Filter::RequestCounter(_)
            | Filter::RequestSize(_)
            | Filter::Retry(_) => ErrorFormat::Auto,
        };
        format == ErrorFormat::Http
    };
    let is_rpc = |route: &&Route| route.http2.unwrap_or(http2) == Http2::PriorKnowledge;
    let mut rpc_routes = routes.iter().filter(|route| is_rpc(route) && route.filters.iter().any(is_http));
    let Some(first) = rpc_routes.next() else { return };
    let more = match rpc_routes.count() {
        0 => String::new(),
        more => format!(" and {more} more routes"),
    };
    diagnostics
        .note(
            Span::ROOT,
            format!(
                "denied gRPC calls of `{}`{more} get HTTP 429, which clients retry at once, as `UNAVAILABLE`",
                first.id
            ),
        )
        .help("`server.error-format: auto` denies them with `RESOURCE_EXHAUSTED` and the time of a retry");
}
