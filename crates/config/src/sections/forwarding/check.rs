//! Checks of the forwarding headers.

use crate::diagnostics::Diagnostics;
use crate::sections::forwarding::model::{ForwardedHeaders, Tell, TrustedProxies};
use crate::raw::RawConfig;

/// Checks `x-forwarded` and `forwarded`.
pub(crate) fn headers(raw: &RawConfig, trusted: &TrustedProxies, diagnostics: &mut Diagnostics) -> ForwardedHeaders {
    let x = &raw.x_forwarded;
    let is_on = x.enabled.unwrap_or(true);
    let tell = |enabled: Option<bool>, append: Option<bool>| match (is_on && enabled.unwrap_or(true), append) {
        (false, _) => Tell::Nothing,
        (true, Some(false)) => Tell::Instead,
        (true, _) => Tell::Append,
    };
    if let Some(order) = &x.order {
        diagnostics
            .info(order.span.key(), "`x-forwarded.order` has no effect: the fields are set before any filter runs")
            .help("filters can change them");
    }
    let told = ForwardedHeaders {
        for_: tell(x.for_enabled, x.for_append),
        host: tell(x.host_enabled, x.host_append),
        port: tell(x.port_enabled, x.port_append),
        proto: tell(x.proto_enabled, x.proto_append),
        prefix: tell(x.prefix_enabled, x.prefix_append),
        forwarded: raw.forwarded.enabled.unwrap_or(true),
        by: raw.forwarded.by.enabled.unwrap_or(false),
        trusted_only: x.trusted_only.unwrap_or(diagnostics.is_spring),
    };
    let loses_clients = told.trusted_only && (told.for_ == Tell::Append || told.forwarded);
    if diagnostics.is_spring
        && x.trusted_only.is_none()
        && loses_clients
        && !matches!(trusted, TrustedProxies::Nobody)
        && let Some(proxies) = raw.trusted_proxies
    {
        diagnostics
            .info(
                proxies.0.key(),
                "as in Spring, untrusted addresses are not forwarded, including those of clients",
            )
            .help("`x-forwarded.trusted-only: false` forwards all addresses from a trusted proxy");
    }
    told
}

/// True if predicates use the client address that a trusted proxy reports.
pub(crate) fn believes_address(raw: &RawConfig, trusted: &TrustedProxies, diagnostics: &mut Diagnostics) -> bool {
    let strategy = raw.server.forward_headers_strategy.as_ref();
    let asked = strategy.filter(|strategy| !strategy.value.trim().eq_ignore_ascii_case("none"));
    if let Some(strategy) = asked
        && matches!(trusted, TrustedProxies::Nobody)
    {
        diagnostics
            .mistake(
                strategy.span,
                format!("`forward-headers-strategy: {}` has no effect without `trusted-proxies`", strategy.value),
            )
            .help("list your proxies: `trusted-proxies: [10.0.0.0/8]`");
    }
    raw.httpserver.customizer_enabled.unwrap_or(asked.is_some())
}
