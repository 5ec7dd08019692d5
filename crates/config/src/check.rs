//! Raw to checked: every section but the routes.

use std::cell::RefCell;

use http::StatusCode;
use http::header::HeaderValue;
use tollgate_filters::headers::HeaderNames;

use crate::de::nodes::Nodes;
use crate::de::spanned::Spanned;
use crate::de::status::parse_status;
use crate::diagnostics::Diagnostics;
use crate::filters::context::FilterContext;
use crate::key_resolvers::KeyResolvers;
use crate::model::{Config, Filter, Forwarding, RequestSeries, Route, Underscores};
use crate::rate_limiter::context::LimiterContext;
use crate::rate_limiter::settings::{families, throw_on_limit};
use crate::raw::{RawConfig, RawUnderscores};
use crate::routes::check::RouteSections;
use crate::routes::forward;
use crate::sections::forwarding::trusted_proxies::trusted_proxies;
use crate::sections::jwt::check::Tokens;
use crate::sections::resilience::Resilience;
use crate::sections::upstreams::{self, UpstreamSections};
use crate::spec::values::{header_name, refusal};
use crate::spring::switches::{self, Switches};
use crate::yaml::Span;

/// The configuration that `raw` means. It is only good when `sink` has no errors afterwards.
pub(crate) fn check(
    raw: &RawConfig,
    nodes: &Nodes<'_>,
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
    let key_resolvers = KeyResolvers::check(&raw.key_resolvers, nodes, &tokens, diagnostics);
    let context = FilterContext {
        filter: &raw.filter,
        limiters: limiters(raw, &key_resolvers, diagnostics),
        resilience: Resilience::check(&raw.resilience4j, diagnostics),
        original_status_header: raw
            .set_status
            .original_status_header_name
            .as_ref()
            .and_then(|name| header_name(&name.value, name.span, diagnostics)),
        breakers: RefCell::default(),
        forwards: RefCell::default(),
    };
    upstreams::locator(&raw.discovery, nodes, diagnostics);
    let sections =
        UpstreamSections { upstreams: &raw.upstreams, discovery: &raw.discovery, loadbalancer: &raw.loadbalancer };
    let upstreams = upstreams::check(sections, nodes, &key_resolvers, diagnostics);
    let sections = RouteSections {
        routes: &raw.routes,
        default_filters: &raw.default_filters,
        base_path: raw.base_path.as_ref(),
        predicate: &raw.predicate,
        api_version: raw.api_version.as_ref(),
        fails_on_errors: raw.fail_on_route_definition_error.unwrap_or(true),
        upstreams: &upstreams,
        nodes,
        switches,
    };
    let mut routes = crate::routes::check::check(&sections, &context, diagnostics);
    context.resilience.report_unused(&context.breakers.borrow(), diagnostics);
    forward::report_lost(&context.forwards.borrow(), &routes, diagnostics);
    let cors = crate::routes::cors::all(&raw.globalcors, raw.cors.as_ref(), nodes, &routes, diagnostics);
    let cache = &raw.filter.local_response_cache;
    crate::routes::response_cache::check(cache, switches, &mut routes, &cors, diagnostics);
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
    drop(context);
    let upstreams = upstreams.into_values().flatten().collect();
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
        memory: crate::sections::memory::check(&raw.memory),
        metering: crate::sections::metering::check(&raw.metering, diagnostics),
        access_log: crate::sections::access_log::check(&raw.access_log, diagnostics),
        logging: crate::sections::log::check(&raw.log),
        request_series: request_series(raw, nodes, diagnostics),
        forwarding: forwarding(raw, nodes, switches, diagnostics),
        http_client: crate::sections::http_client::check(&raw.httpclient, nodes, diagnostics),
        dns: crate::sections::upstreams::dns(&raw.dns, nodes, diagnostics),
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
        believes_address: crate::sections::forwarding::check::believes_address(raw, &trusted_proxies, diagnostics),
        headers: crate::sections::forwarding::check::headers(raw, &trusted_proxies, diagnostics),
        trusted_proxies,
        underscores: match raw.headers.underscores {
            None | Some(RawUnderscores::Drop) => Underscores::Drop,
            Some(RawUnderscores::Allow) => Underscores::Allow,
            Some(RawUnderscores::Reject) => Underscores::Reject,
        },
        via,
        remove_hop_by_hop,
        tunnels: !switches.is_off(switches::Kind::GlobalFilter, "WebsocketRouting"),
    }
}

/// Settings of limiters that stand outside of routes.
fn limiters<'c>(
    raw: &RawConfig,
    key_resolvers: &'c KeyResolvers<'c>,
    diagnostics: &mut Diagnostics,
) -> LimiterContext<'c> {
    let settings = &raw.filter.request_rate_limiter;
    LimiterContext {
        key_resolvers,
        deny_empty_key: settings.deny_empty_key.unwrap_or(true),
        empty_key_status: status(settings.empty_key_status_code.as_ref(), StatusCode::FORBIDDEN, diagnostics),
        throw_on_limit: throw_on_limit(settings.throw_on_limit, diagnostics),
        headers: limiter_headers(raw, diagnostics),
        // Errors in the section are reported there.
        has_redis: raw.redis.is_some(),
        has_cluster: raw.redis.as_ref().is_some_and(|redis| redis.value.cluster.is_some()),
        counter_buckets: RefCell::default(),
        limiter_buckets: RefCell::default(),
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
        && let Some(found) = families(names, diagnostics)
    {
        headers.families = found;
    }
    headers
}
