//! Routes to gRPC services.

use crate::diagnostics::Diagnostics;
use crate::filters::model::Filter;
use crate::routes::model::Route;
use crate::sections::http_client::Http2;
use crate::yaml::Span;
use tollgate_filters::refusal::ErrorFormat;

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
