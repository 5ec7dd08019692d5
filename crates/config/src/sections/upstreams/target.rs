//! `lb://NAME`, the target of a route.

use std::sync::Arc;

use crate::de::Spanned;
use crate::diagnostics::{Diagnostics, Missing, Section, Severity, quoted};
use crate::sections::upstreams::endpoints::Scheme;
use crate::sections::upstreams::{Registries, Upstream, UpstreamsByName};
use crate::yaml::Span;

/// Returns the upstream and scheme that `lb://orders` or `lb:https://orders` names. Reports errors.
pub(crate) fn check(
    uri: &Spanned<String>,
    named: &UpstreamsByName,
    diagnostics: &mut Diagnostics,
) -> Option<(Arc<Upstream>, Option<Scheme>)> {
    let (text, at) = (uri.value.trim(), uri.span);
    let (scheme, rest) = scheme(text, at, diagnostics)?;
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
    Some((upstream(name, at, named, diagnostics)?, scheme))
}

/// Returns the scheme of the requests, if the URI names one, and the text behind it.
fn scheme<'t>(text: &'t str, at: Span, diagnostics: &mut Diagnostics) -> Option<(Option<Scheme>, &'t str)> {
    let Some((scheme, rest)) = text.get(3..).unwrap_or_default().split_once("//") else {
        diagnostics.error(at, format!("`{text}` is not a valid URI")).help("write it like `lb://orders`");
        return None;
    };
    match scheme.trim_end_matches(':').to_ascii_lowercase().as_str() {
        _ if scheme.is_empty() => Some((None, rest)),
        // WebSocket upgrades work with all of them.
        "http" | "ws" => Some((Some(Scheme::Http), rest)),
        "https" | "wss" => Some((Some(Scheme::Https), rest)),
        _ => {
            diagnostics
                .error(at, format!("unknown scheme in `{text}`"))
                .help("write `lb://name`, `lb:ws://name` or `lb:https://name`");
            None
        }
    }
}

/// Endpoints of the upstream `name` as they are in most deployments: a host of that name.
fn missing(name: &str) -> Missing {
    let variable: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect();
    let host = name.to_ascii_lowercase();
    let endpoint = quoted(&format!("${{{variable}_URL:http://{host}:8080}}"));
    let dns = if quoted(&host).len() == host.len() + 2 {
        format!("or `dns: {{name: {host}, port: 8080}}`")
    } else {
        String::new()
    };
    Missing {
        section: Section::Upstreams,
        name: name.to_owned(),
        value: format!("{{endpoints: [{endpoint}]}}"),
        comment: dns,
    }
}

/// Returns the upstream `name`. Names are case-insensitive in Spring's registries and in host names. With a registry,
/// every name may exist. Without one, a Spring file runs, and the upstream has no endpoints.
fn upstream(name: &str, at: Span, named: &UpstreamsByName, diagnostics: &mut Diagnostics) -> Option<Arc<Upstream>> {
    let Some(upstream) = named.get(name) else {
        if named.registries() == Registries::None {
            report_unknown(name, at, named, diagnostics);
        }
        return named.discover(name, at, diagnostics);
    };
    upstream.clone()
}

fn report_unknown(name: &str, at: Span, named: &UpstreamsByName, diagnostics: &mut Diagnostics) {
    let near = diagnostics.closest(name, named.names()).map(|near| format!("did you mean `{near}`? otherwise "));
    let near = near.unwrap_or_default();
    let outcome = match diagnostics.mistakes {
        Severity::Warning => " and no registry: its requests get 503, as in Spring",
        Severity::Error | Severity::Note => "",
    };
    diagnostics.mistake(at, format!("unknown upstream `{name}`{outcome}")).missing(missing(name)).help(format!(
        "{near}define its endpoints: `upstreams: {{{name}: {{endpoints: [\"http://host:port\"]}}}}`, \
         or `upstreams: {{{name}: {{dns: {{name: {name}, port: 8080}}}}}}` at the top level of this file; \
         or name the registry that knows it, such as `eureka.client.service-url.defaultZone`"
    ));
}
