//! Checks of the forwarding headers.

use http::header::HeaderValue;

use crate::de::defaults::Flag;
use crate::de::nodes::Nodes;
use crate::de::spanned::{NodeRef, Spanned};
use crate::diagnostics::Diagnostics;
use crate::sections::forwarding::model::{ForwardedHeaders, Forwarding, HeaderAction, TrustedProxies};
use crate::sections::forwarding::raw::{RawForwarded, RawHeaders, RawHttpServer, RawXForwarded};
use crate::sections::forwarding::trusted_proxies::trusted_proxies;
use crate::spec::values::header_name;
use crate::yaml::Span;

/// Sections that concern forwarding headers.
pub(crate) struct ForwardingSections<'r> {
    pub(crate) x_forwarded: &'r RawXForwarded,
    pub(crate) forwarded: &'r RawForwarded,
    pub(crate) httpserver: &'r RawHttpServer,
    pub(crate) trusted_proxies: Option<NodeRef>,
    /// `server.forward-headers-strategy`.
    pub(crate) strategy: Option<&'r Spanned<String>>,
    pub(crate) headers: &'r RawHeaders,
    pub(crate) via: Option<&'r Spanned<String>>,
    /// `filter.remove-hop-by-hop.headers`.
    pub(crate) hop_by_hop: Option<&'r [Spanned<String>]>,
}

/// Checks the forwarding headers. `tunnels`: permits protocol upgrades.
pub(crate) fn check(
    sections: ForwardingSections<'_>,
    nodes: &Nodes<'_>,
    tunnels: bool,
    diagnostics: &mut Diagnostics,
) -> Forwarding {
    let via = via(sections.via, diagnostics);
    let remove_hop_by_hop = sections
        .hop_by_hop
        .map(|names| names.iter().filter_map(|name| header_name(&name.value, name.span, diagnostics)).collect());
    let trusted_proxies = trusted_proxies(sections.trusted_proxies.and_then(|node| nodes.get(node)), diagnostics);
    Forwarding {
        trusts_client_address: trusts_client_address(&sections, &trusted_proxies, diagnostics),
        headers: headers(&sections, diagnostics),
        trusted_proxies,
        underscores: sections.headers.underscores.0,
        via,
        remove_hop_by_hop,
        tunnels,
    }
}

/// Returns the value of the `Via` field that is added, if any.
fn via(raw: Option<&Spanned<String>>, diagnostics: &mut Diagnostics) -> Option<HeaderValue> {
    let name = match raw.map(|via| via.value.as_str()) {
        Some("false" | "off" | "no" | "") => return None,
        None | Some("true") => "tollgate",
        Some(name) => name,
    };
    // RFC 9110 §7.6.3: a pseudonym is a token, or host and port.
    let is_valid = name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._:[]~".contains(&b));
    let value = if is_valid { HeaderValue::from_str(&format!("1.1 {name}")).ok() } else { None };
    if value.is_none() {
        let at = raw.map_or(Span::ROOT, |via| via.span);
        diagnostics.error(at, format!("`via` must be a name such as `tollgate`, or false, found `{name}`"));
    }
    value
}

/// Checks `x-forwarded` and `forwarded`.
fn headers(sections: &ForwardingSections<'_>, diagnostics: &mut Diagnostics) -> ForwardedHeaders {
    let x = sections.x_forwarded;
    let action = |enabled: Flag<true>, append: Flag<true>| match (x.enabled.get() && enabled.get(), append.get()) {
        (false, _) => HeaderAction::Keep,
        (true, false) => HeaderAction::Replace,
        (true, true) => HeaderAction::Append,
    };
    if let Some(order) = &x.order {
        diagnostics
            .note(order.span.key(), "`x-forwarded.order` has no effect: the fields are set before any filter runs")
            .ineffective()
            .help("filters can change them");
    }
    ForwardedHeaders {
        for_: action(x.for_enabled, x.for_append),
        host: action(x.host_enabled, x.host_append),
        port: action(x.port_enabled, x.port_append),
        proto: action(x.proto_enabled, x.proto_append),
        prefix: action(x.prefix_enabled, x.prefix_append),
        forwarded: sections.forwarded.enabled.get(),
        by: sections.forwarded.by.enabled.get(),
        trusted_only: x.trusted_only.get(),
    }
}

/// Returns true if predicates use the client address that a trusted proxy reports.
fn trusts_client_address(
    sections: &ForwardingSections<'_>,
    trusted: &TrustedProxies,
    diagnostics: &mut Diagnostics,
) -> bool {
    let asked = sections.strategy.filter(|strategy| !strategy.value.trim().eq_ignore_ascii_case("none"));
    if let Some(strategy) = asked
        && matches!(trusted, TrustedProxies::None)
    {
        diagnostics
            .mistake(
                strategy.span,
                format!("`forward-headers-strategy: {}` has no effect without `trusted-proxies`", strategy.value),
            )
            .ineffective()
            .help("list your proxies: `trusted-proxies: [10.0.0.0/8]`");
    }
    sections.httpserver.customizer_enabled.unwrap_or(asked.is_some())
}
