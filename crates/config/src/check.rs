//! Checks the raw configuration, section by section, and builds the [`Config`].

pub(crate) mod unwritable;

use std::cell::RefCell;

use crate::de::Spanned;
use crate::diagnostics::Diagnostics;
use crate::filters::row::FilterContext;
use crate::key_resolvers::KeyResolvers;
use crate::model::{AccessLog, Config, Cors, Filter, Forwarding, PlainFilter, Route};
use crate::predicates::context::PredicateContext;
use crate::raw_config::RawConfig;
use crate::routes::check::RouteSections;
use crate::sections::api_keys::ApiKeySection;
use crate::sections::forwarding::trusted_proxies::trusted_proxies;
use crate::sections::forwarding::{self, ClientCertFields};
use crate::sections::jwt::check::Tokens;
use crate::sections::management::check::{TrafficListener, management, request_series};
use crate::sections::registries::{self, Registration, Registry, RegistrySections};
use crate::sections::resilience::Resilience;
use crate::sections::response_fields;
use crate::sections::upstreams::{self, Registries, UpstreamsByName};
use crate::source::placeholder::Unresolved;
use crate::spec::header_name;
use crate::switches::{ComponentKind, Switches};
use crate::yaml::{Node, Span};
use tollgate_routing::Predicate;

/// Facts about the file that are not in the raw configuration.
pub(crate) struct CheckInput<'i> {
    /// The tree of the file.
    pub(crate) root: &'i Node,
    /// All properties of the file, as its author named them.
    pub(crate) properties: &'i Node,
    /// Values with placeholders that have no value.
    pub(crate) unresolved: &'i [Unresolved],
    /// Disabled components.
    pub(crate) switches: &'i Switches,
    /// True if the file itself has an empty list of routes.
    pub(crate) means_no_routes: bool,
}

/// Checks `raw` section by section. The result is valid only if no error was reported.
pub(crate) fn check(
    mut raw: RawConfig,
    input: &CheckInput<'_>,
    env: &dyn Fn(&str) -> Option<String>,
    diagnostics: &mut Diagnostics,
) -> Config {
    report_disabled(&raw, diagnostics);
    unwritable::warn_of_files(&raw, input.root, diagnostics);
    let (registries, registrations) = registries(&mut raw, env, diagnostics);
    let redis = raw.redis.as_ref().and_then(|redis| crate::sections::redis::check(redis, diagnostics).ok());
    let tokens = Tokens::check(raw.jwt.as_ref(), diagnostics);
    let api_keys = ApiKeySection::check(raw.api_keys.as_ref(), raw.redis.is_some(), diagnostics);
    let underscores = raw.headers.underscores.0;
    let key_resolvers = KeyResolvers::check(&raw.key_resolvers, (&tokens, &api_keys), underscores, diagnostics);
    let predicates = PredicateContext::check(&raw, crate::routes::route::PREDICATE, input.switches, diagnostics);
    let context = filter_context(&raw, (&key_resolvers, &predicates), diagnostics);
    let upstreams = upstreams(&raw, !registries.is_empty(), input, &key_resolvers, diagnostics);
    let (routes, unlogged, cors) = routes(&raw, input, &upstreams, &context, diagnostics);
    drop(context);
    if let Some(keys) = &api_keys.keys {
        let plans = routes.iter().flat_map(Route::rate_limiters).flat_map(|naming| naming.limiter.plans_of_api_keys());
        keys.warn_of_unknown_names(&routes.iter().map(|route| &*route.id).collect(), &plans.collect(), diagnostics);
    }
    let forwarding = forwarding(&raw, input.switches, diagnostics);
    let mark = diagnostics.mark();
    let mut server = raw.server.check(env, diagnostics);
    // A listener with errors may be one with TLS.
    let may_use_tls = raw.trusted_proxies.is_some() || diagnostics.has_errors_since(mark);
    response_fields::check(&mut server, may_use_tls, diagnostics);
    let base_path = raw.base_path.as_ref().map_or("", |path| path.value.as_str());
    let traffic = TrafficListener { port: server.port.get(), base_path };
    Config {
        management: management(&raw.management, traffic, env, diagnostics),
        server,
        redis,
        #[cfg(feature = "jwt")]
        jwt: tokens.jwt,
        api_keys: api_keys.keys,
        files: raw.files,
        memory: raw.memory,
        metering: raw.metering,
        request_id: raw.request_id,
        access_log: AccessLog { exclude: unlogged, ..raw.access_log },
        logging: raw.log,
        request_series: request_series(&raw.metrics, diagnostics),
        forwarding,
        http_client: raw.httpclient.check(diagnostics),
        dns: raw.dns,
        registries,
        registrations,
        locator: None,
        upstreams: upstreams.into_all(),
        use404: raw.loadbalancer.use404.get(),
        cors,
        repeated_keys: raw.repeated_keys.unwrap_or_default(),
        means_no_routes: input.means_no_routes,
        routes,
    }
}

fn report_disabled(raw: &RawConfig, diagnostics: &mut Diagnostics) {
    if let Some(Spanned { value: false, span }) = raw.enabled {
        diagnostics
            .error(span, "`enabled: false` switches the gateway off, which leaves nothing to run")
            .help("remove it");
    }
}

/// Settings and registries that all filters share.
fn filter_context<'c>(
    raw: &'c RawConfig,
    (key_resolvers, predicates): (&'c KeyResolvers<'c>, &'c PredicateContext<'c>),
    diagnostics: &mut Diagnostics,
) -> FilterContext<'c> {
    let status_header = raw.set_status.original_status_header_name.as_ref();
    FilterContext {
        switches: predicates.switches,
        filter: &raw.filter,
        limiters: crate::rate_limiter::context::context(
            &raw.filter.request_rate_limiter,
            &raw.redis_rate_limiter,
            raw.redis.as_ref(),
            (key_resolvers, predicates),
            (raw.preflights, raw.server.error_format.0),
            diagnostics,
        ),
        resilience: Resilience::check(&raw.resilience4j, diagnostics),
        original_status_header: status_header.and_then(|name| header_name(&name.value, name.span, diagnostics)),
        breakers: RefCell::default(),
        forwards: RefCell::default(),
    }
}

/// Registries of the file, unless Spring's discovery is off.
fn registries(
    raw: &mut RawConfig,
    env: &dyn Fn(&str) -> Option<String>,
    diagnostics: &mut Diagnostics,
) -> (Vec<Registry>, Vec<Registration>) {
    let sections = RegistrySections {
        consul: raw.consul.take(),
        eureka: raw.eureka.take(),
        nacos: raw.nacos.take(),
        kubernetes: raw.kubernetes.take(),
    };
    let port = env("MANAGEMENT_SERVER_PORT").and_then(|port| port.trim().parse().ok());
    let port = port.or_else(|| raw.management.server.port.and_then(|port| u16::try_from(port.value).ok()));
    let registries = registries::check(sections, port.filter(|port| *port != 0), env, diagnostics);
    let is_off = raw.discovery.enabled.as_ref().is_some_and(|enabled| !enabled.value);
    if is_off { Default::default() } else { registries }
}

fn upstreams(
    raw: &RawConfig,
    has_registry: bool,
    input: &CheckInput<'_>,
    key_resolvers: &KeyResolvers<'_>,
    diagnostics: &mut Diagnostics,
) -> UpstreamsByName {
    let has_registry = has_registry || lacks_address(input);
    let lacks_registry = upstreams::spring::check_locator(&raw.discovery, has_registry, input.properties, diagnostics);
    let registries = match (has_registry, lacks_registry) {
        (true, _) => Registries::Named,
        (false, true) => Registries::Missing,
        (false, false) => Registries::None,
    };
    let (discovery, loadbalancer) = (&raw.discovery, &raw.loadbalancer);
    upstreams::check(&raw.upstreams, discovery, loadbalancer, registries, key_resolvers, diagnostics)
}

/// Returns true if a value in the section of a registry has a placeholder without a value. The file names that registry.
fn lacks_address(input: &CheckInput<'_>) -> bool {
    let sections = ["consul", "eureka", "kubernetes", "nacos"].iter().filter_map(|name| input.root.step(name));
    let is_unset = |node: &Node| input.unresolved.iter().any(|value| value.at.node == node.span.node);
    sections.into_iter().any(|section| section.any(&is_unset))
}

/// Checks the routes, and the settings that apply to several of them.
fn routes(
    raw: &RawConfig,
    input: &CheckInput<'_>,
    upstreams: &UpstreamsByName,
    context: &FilterContext<'_>,
    diagnostics: &mut Diagnostics,
) -> (Vec<Route>, Vec<Predicate>, Cors) {
    let &CheckInput { root, switches, .. } = input;
    let sections = RouteSections { root, raw, has_spring: input.properties.get("spring").is_some(), upstreams };
    let (mut routes, unlogged) = crate::routes::check::check(&sections, context, diagnostics);
    context.resilience.report_unused(&context.breakers.borrow(), diagnostics);
    crate::routes::target::report_lost_forwards(&context.forwards.borrow(), &routes, diagnostics);
    let cors = crate::routes::cors::all(&raw.globalcors, raw.cors.as_ref(), &routes, diagnostics);
    crate::routes::cors::note_refused_preflights(&routes, &cors, diagnostics);
    let cache_at = root.follow(&["filter", "local-response-cache", "enabled"]).map_or(Span::ROOT, |node| node.span);
    let cache = (&raw.filter.local_response_cache, cache_at);
    crate::routes::check::complete_caches(cache, raw.server.proxy_status(), switches, &mut routes, &cors, diagnostics);
    report_unused_secure_headers(raw, &routes, diagnostics);
    crate::routes::check::note_http_denials(&routes, raw.httpclient.http2.0, diagnostics);
    (routes, unlogged, cors)
}

fn report_unused_secure_headers(raw: &RawConfig, routes: &[Route], diagnostics: &mut Diagnostics) {
    let is_it = |filter: &Filter| matches!(filter, Filter::Plain(PlainFilter::SecureHeaders(_)));
    if let Some(secure_headers) = &raw.filter.secure_headers
        && !routes.iter().flat_map(|route| &route.filters).any(is_it)
    {
        diagnostics
            .mistake(
                secure_headers.span.key(),
                "`filter.secure-headers` has no effect: no route has the filter `SecureHeaders`",
            )
            .help("`default-filters: [SecureHeaders]` adds the headers everywhere");
    }
}

/// Checks the forwarding headers.
fn forwarding(raw: &RawConfig, switches: &Switches, diagnostics: &mut Diagnostics) -> Forwarding {
    let via = forwarding::via(raw.via.as_ref(), diagnostics);
    let hop_by_hop = raw.filter.remove_hop_by_hop.headers.as_ref();
    let remove_hop_by_hop = hop_by_hop
        .map(|names| names.iter().filter_map(|name| header_name(&name.value, name.span, diagnostics)).collect());
    let trusted_proxies = trusted_proxies(raw.trusted_proxies.as_deref(), diagnostics);
    let strategy = raw.server.forward_headers_strategy.as_ref();
    Forwarding {
        trusts_client_address: raw.httpserver.trusts_client_address(strategy, &trusted_proxies, diagnostics),
        headers: raw.x_forwarded.headers(&raw.forwarded, diagnostics),
        trusted_proxies,
        underscores: raw.headers.underscores.0,
        keeps_client_cert: raw.headers.client_cert.0 == ClientCertFields::Keep,
        via,
        remove_hop_by_hop,
        tunnels: !switches.is_off(ComponentKind::GlobalFilter, "WebsocketRouting"),
    }
}
