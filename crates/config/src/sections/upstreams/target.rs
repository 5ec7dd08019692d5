//! `lb://NAME`, and URIs of endpoints.

use std::sync::Arc;

use http::Uri;
use tollgate_filters::key_resolver::KeyResolver;

use crate::de::spanned::Spanned;
use crate::diagnostics::{Diagnostics, closest};
use crate::sections::upstreams::model::{EndpointAddress, Named, Scheme, Upstream};
use crate::yaml::Span;
use tollgate_routing::Predicate;

/// The upstream and scheme that `lb://orders` or `lb:https://orders` names. Reports errors.
pub(crate) fn target(
    uri: &Spanned<String>,
    named: &Named,
    diagnostics: &mut Diagnostics,
) -> Option<(Arc<Upstream>, Option<Scheme>)> {
    let (text, at) = (uri.value.trim(), uri.span);
    let rest = text.get(3..).unwrap_or_default();
    let (scheme, rest) = match rest.split_once("//") {
        Some(("", rest)) => (None, rest),
        Some((scheme, rest)) => match scheme.trim_end_matches(':').to_ascii_lowercase().as_str() {
            // WebSocket upgrades work with all of them.
            "http" | "ws" => (Some(Scheme::Http), rest),
            "https" | "wss" => (Some(Scheme::Https), rest),
            _ => {
                diagnostics
                    .error(at, format!("unknown scheme in `{text}`"))
                    .help("write `lb://name`, `lb:ws://name` or `lb:https://name`");
                return None;
            }
        },
        None => {
            diagnostics.error(at, format!("`{text}` is not a valid URI")).help("write it like `lb://orders`");
            return None;
        }
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, tail) = rest.split_at(end);
    let name = authority.split_once(':').map_or(authority, |(name, _)| name);
    if name.is_empty() || authority.contains('@') {
        diagnostics.error(at, format!("`{text}` has no upstream name")).help("write it like `lb://orders`");
        return None;
    }
    if !matches!(tail, "" | "/") || name != authority {
        diagnostics
            .warn(at, "port, path and query of an `lb:` URI are ignored, as in Spring")
            .help("`PrefixPath=/…` or `SetPath=/…` changes the path; ports belong to the endpoints");
    }
    // Names are case-insensitive in Spring's registries and in host names.
    let alike = || named.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, upstream)| upstream);
    let Some(upstream) = named.get(name).or_else(alike) else {
        let near =
            closest(name, named.keys().map(String::as_str)).map(|near| format!("did you mean `{near}`? otherwise "));
        let near = near.unwrap_or_default();
        diagnostics.error(at, format!("unknown upstream `{name}`")).help(format!(
            "{near}define its endpoints: `upstreams: {{{name}: {{endpoints: [\"http://host:port\"]}}}}`, \
             or `upstreams: {{{name}: {{dns: {{name: {name}, port: 8080}}}}}}` at the top level of this file"
        ));
        return None;
    };
    Some((Arc::clone(upstream.as_ref()?), scheme))
}

/// Reports variables of `hash-by` that no pattern of the route sets.
pub(crate) fn variables(resolver: &KeyResolver, predicates: &[Predicate], at: Span, diagnostics: &mut Diagnostics) {
    for name in resolver.variables() {
        if !predicates.iter().flat_map(Predicate::variable_names).any(|known| known == name) {
            diagnostics.mistake(at, format!("`hash-by` of this upstream uses the variable `{{{name}}}`, which no `Path` or `Host` of this route sets"))
                .help(format!("`Path=/{{{name}}}/**` sets it; without a value endpoints are chosen at random"));
        }
    }
}

/// Reads the endpoint at `uri`. Reports errors.
pub(super) fn endpoint(uri: &Spanned<String>, diagnostics: &mut Diagnostics) -> Option<EndpointAddress> {
    let (text, at) = (uri.value.trim(), uri.span);
    let parsed = text.parse::<Uri>().ok();
    let parts = parsed.as_ref().and_then(|uri| Some((uri.scheme_str()?, uri.authority()?, uri)));
    let Some((scheme, authority, whole)) = parts else {
        diagnostics.error(at, format!("`{text}` is not an endpoint")).help("write it like `http://10.0.0.1:9000`");
        return None;
    };
    let scheme = match scheme.to_ascii_lowercase().as_str() {
        "http" | "ws" => Scheme::Http,
        "https" | "wss" => Scheme::Https,
        other => {
            diagnostics
                .error(at, format!("unsupported scheme `{other}`"))
                .help("use `http://host:port` or `https://host:port`");
            return None;
        }
    };
    if authority.as_str().contains('@') {
        diagnostics
            .error(at, "a user and password in an endpoint are not sent")
            .help("remove them, or set the header with `SetRequestHeader=Authorization,…`");
        return None;
    }
    let port = match authority.as_str().rsplit_once(':') {
        Some((_, port)) if !port.ends_with(']') => port.parse::<u16>().ok().filter(|port| *port > 0),
        _ => Some(scheme.default_port()),
    };
    let host = authority.host().trim_matches(['[', ']']);
    let (Some(port), false) = (port, host.is_empty()) else {
        diagnostics
            .error(at, format!("`{text}` has no usable host and port"))
            .help("write it like `http://10.0.0.1:9000`");
        return None;
    };
    if whole.path_and_query().is_some_and(|path| path.as_str() != "/") {
        diagnostics
            .warn(at, "path and query of an endpoint are ignored")
            .help("`PrefixPath=/…` or `SetPath=/…` in the route changes the path");
    }
    Some(EndpointAddress { scheme, host: host.to_owned(), port, name: host.to_owned() })
}
