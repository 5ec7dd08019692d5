//! Raw to checked: every section but the routes.

use std::cell::RefCell;
use std::num::NonZeroUsize;

use http::StatusCode;
use http::header::HeaderValue;
use tollgate_filters::headers::HeaderNames;

use crate::de::nodes::Nodes;
use crate::de::spanned::Spanned;
use crate::de::status::parse_status;
use crate::de::values::{header_name, refusal};
use crate::diagnostics::Diagnostics;
use crate::filters::{Settings, forward};
use crate::model::{Config, Filter, Forwarding, Memory, RequestSeries, Route};
use crate::rate_limiter::{Limits, families, throw_on_limit};
use crate::raw::RawConfig;
use crate::request_counter::metering;
use crate::routes;
use crate::sections::forwarding::trusted_proxies::trusted_proxies;
use crate::sections::jwt::check::Tokens;
use crate::sections::key_resolvers::{KeyResolvers, key_resolvers};
use crate::sections::resilience::Resilience;
use crate::sections::{logging, upstreams};
use crate::spring::names::KnownNames;
use crate::spring::switches::{self, Switches};
use crate::yaml::Span;

/// The configuration that `raw` means. It is only good when `sink` has no errors afterwards.
pub(crate) fn check(
    raw: &RawConfig,
    nodes: &Nodes<'_>,
    names: &KnownNames,
    switches: &Switches,
    env: &dyn Fn(&str) -> Option<String>,
    diagnostics: &mut Diagnostics,
) -> Config {
    if let Some(Spanned { value: false, span }) = raw.enabled {
        diagnostics
            .error(span, "`enabled: false` switches the gateway off, which leaves nothing to run")
            .help("remove it");
    }
    let redis = raw.redis.as_ref().and_then(|redis| crate::sections::redis::check(redis, nodes, diagnostics));
    let tokens = Tokens::check(raw.jwt.as_ref(), nodes, diagnostics);
    let key_resolvers = key_resolvers(&raw.key_resolvers, nodes, &tokens, diagnostics);
    let resolvers = KeyResolvers { named: &key_resolvers, tokens: &tokens };
    let limits = Limits {
        resolvers,
        deny_empty_key: raw.filter.request_rate_limiter.deny_empty_key.unwrap_or(true),
        empty_key_status: status(
            raw.filter.request_rate_limiter.empty_key_status_code.as_ref(),
            StatusCode::FORBIDDEN,
            diagnostics,
        ),
        throw_on_limit: throw_on_limit(&raw.filter.request_rate_limiter, diagnostics),
        headers: limiter_headers(raw, diagnostics),
        // What is wrong with it is told where it stands.
        has_redis: raw.redis.is_some(),
        has_cluster: raw.redis.as_ref().is_some_and(|redis| redis.value.cluster.is_some()),
        counted: RefCell::default(),
        buckets: RefCell::default(),
    };
    upstreams::locator(&raw.discovery, nodes, diagnostics);
    let sections =
        upstreams::Sections { upstreams: &raw.upstreams, discovery: &raw.discovery, loadbalancer: &raw.loadbalancer };
    let settings = Settings {
        raw: &raw.filter,
        nodes,
        names,
        switches,
        limits,
        resilience: Resilience::check(&raw.resilience4j, diagnostics),
        breakers: RefCell::default(),
        forwards: RefCell::default(),
        original_status_header: raw
            .set_status
            .original_status_header_name
            .as_ref()
            .and_then(|name| header_name(&name.value, name.span, diagnostics)),
        upstreams: upstreams::check(sections, nodes, resolvers, diagnostics),
    };
    let sections = routes::Sections {
        routes: &raw.routes,
        default_filters: &raw.default_filters,
        predicate: &raw.predicate,
        base_path: raw.base_path.as_ref(),
        api_version: raw.api_version.as_ref(),
        fail_on_error: raw.fail_on_route_definition_error.unwrap_or(true),
    };
    let mut routes = routes::check(sections, &settings, diagnostics);
    settings.resilience.report_unused(&settings.breakers.borrow(), diagnostics);
    forward::report_lost(&settings.forwards.borrow(), &routes, diagnostics);
    let cors = crate::sections::cors::all(&raw.globalcors, raw.cors.as_ref(), &routes, nodes, diagnostics);
    routes::response_cache::check(&settings, &mut routes, &cors, diagnostics);
    if let Some(secure_headers) = &raw.filter.secure_headers
        && !routes.iter().flat_map(|route| &route.filters).any(|filter| matches!(filter, Filter::SecureHeaders(_)))
    {
        diagnostics
            .mistake(
                secure_headers.span.key(),
                "`filter.secure-headers` has no effect: no route has the filter `SecureHeaders`",
            )
            .help("`default-filters: [SecureHeaders]` adds the headers everywhere");
    }
    let upstreams = settings.upstreams.into_values().flatten().collect();
    let limits_something =
        |filter: &Filter| matches!(filter, Filter::RequestRateLimiter(_) | Filter::ConcurrencyLimiter(_));
    let is_limited = |route: &Route| route.filters.iter().any(limits_something);
    if diagnostics.is_spring && raw.redis.is_none() && routes.iter().any(is_limited) {
        diagnostics
            .info(Span::ROOT, "without `spring.data.redis` limits are kept in memory; Spring would ask localhost:6379")
            .help("`spring.data.redis.host: localhost` shares them between gateways");
    }
    let server = crate::sections::server::check::server(&raw.server, nodes, env, diagnostics);
    Config {
        management: crate::sections::server::check::management(&raw.management, nodes, server.port, env, diagnostics),
        server,
        redis,
        #[cfg(feature = "jwt")]
        jwt: tokens.jwt,
        memory: Memory { max_keys: raw.memory.max_keys.unwrap_or(NonZeroUsize::MIN.saturating_add(999_999)) },
        metering: metering(&raw.metering, diagnostics),
        access_log: logging::access_log(&raw.access_log, diagnostics),
        logging: logging::logging(&raw.log),
        request_series: request_series(raw, nodes, diagnostics),
        forwarding: forwarding(raw, nodes, switches, diagnostics),
        http_client: crate::sections::http_client::check(&raw.httpclient, nodes, diagnostics),
        dns: upstreams::dns(&raw.dns, nodes, diagnostics),
        upstreams,
        use404: raw.loadbalancer.use404.unwrap_or(false),
        cors,
        routes,
        is_spring: diagnostics.is_spring,
    }
}

fn request_series(raw: &RawConfig, nodes: &Nodes<'_>, diagnostics: &mut Diagnostics) -> RequestSeries {
    let raw = &raw.metrics;
    let prefix = raw.prefix.as_ref().map_or("spring.cloud.gateway", |prefix| prefix.value.trim());
    let name: String =
        format!("{prefix}.requests.seconds").chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if let Some(prefix) = &raw.prefix
        && !name.starts_with(|c: char| c.is_ascii_alphabetic())
    {
        diagnostics
            .error(prefix.span, format!("`{}` cannot begin a metric's name", prefix.value))
            .help("begin it with a letter");
    }
    let mut tags = crate::sections::server::check::labels(raw.tags, nodes, diagnostics);
    // `metrics.tags.path.enabled` is what `path-tags.enabled` was called before.
    let older = tags.iter().position(|(name, _)| name == "path_enabled").map(|at| tags.remove(at).1 == "true");
    RequestSeries {
        enabled: raw.enabled.unwrap_or(true),
        name,
        tags,
        path: raw.path_tags.enabled.or(older).unwrap_or(false),
    }
}

fn forwarding(raw: &RawConfig, nodes: &Nodes<'_>, switches: &Switches, diagnostics: &mut Diagnostics) -> Forwarding {
    let name = match &raw.via {
        Some(via) if matches!(via.value.as_str(), "false" | "off" | "no" | "") => None,
        Some(via) if via.value != "true" => Some(via.value.as_str()),
        _ => Some("tollgate"),
    };
    let via = name.and_then(|name| {
        // RFC 9110 §7.6.3: a pseudonym is a token, or host and port.
        let fits = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._:[]~".contains(&b));
        let value = if fits { HeaderValue::from_str(&format!("1.1 {name}")).ok() } else { None };
        if value.is_none() {
            let at = raw.via.as_ref().map_or(Span::ROOT, |via| via.span);
            diagnostics.error(at, format!("`via` must be a name such as `tollgate`, or false, found `{name}`"));
        }
        value
    });
    let remove_hop_by_hop = raw
        .filter
        .remove_hop_by_hop
        .headers
        .as_ref()
        .map(|names| names.iter().filter_map(|name| header_name(&name.value, name.span, diagnostics)).collect());
    let trusted_proxies = trusted_proxies(raw.trusted_proxies.and_then(|whole| nodes.get(whole)), diagnostics);
    Forwarding {
        believes_address: crate::sections::forwarding::check::believes_address(
            raw.server.forward_headers_strategy.as_ref(),
            &raw.httpserver,
            &trusted_proxies,
            diagnostics,
        ),
        headers: crate::sections::forwarding::check::headers(
            &raw.x_forwarded,
            &raw.forwarded,
            raw.trusted_proxies,
            &trusted_proxies,
            diagnostics,
        ),
        trusted_proxies,
        underscores: raw.headers.underscores.unwrap_or_default(),
        via,
        remove_hop_by_hop,
        tunnels: !switches.is_off(switches::Kind::GlobalFilter, "WebsocketRouting"),
    }
}

fn status(text: Option<&Spanned<String>>, default: StatusCode, diagnostics: &mut Diagnostics) -> StatusCode {
    let Some(text) = text else { return default };
    match parse_status(&text.value) {
        Ok(status) => {
            refusal(status, text.span, diagnostics);
            status
        }
        Err(message) => {
            diagnostics.error(text.span, message);
            default
        }
    }
}

fn limiter_headers(raw: &RawConfig, diagnostics: &mut Diagnostics) -> HeaderNames {
    let raw = &raw.redis_rate_limiter;
    let mut headers = HeaderNames::default();
    headers.include = raw.include_headers.unwrap_or(headers.include);
    for (text, header) in [
        (&raw.remaining_header, &mut headers.remaining),
        (&raw.replenish_rate_header, &mut headers.replenish_rate),
        (&raw.burst_capacity_header, &mut headers.burst_capacity),
        (&raw.requested_tokens_header, &mut headers.requested_tokens),
    ] {
        if let Some(name) = text.as_ref().and_then(|text| header_name(&text.value, text.span, diagnostics)) {
            *header = name;
        }
    }
    if let Some(names) = &raw.headers
        && let Some(found) = families(names.iter().map(|name| (name.value.as_str(), name.span)), diagnostics)
    {
        headers.families = found;
    }
    headers
}
