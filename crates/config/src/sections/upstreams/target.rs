//! `lb://NAME`, the target of a route.

use std::sync::Arc;

use crate::de::spanned::Spanned;
use crate::diagnostics::{Diagnostics, closest};
use crate::sections::upstreams::endpoints::Scheme;
use crate::sections::upstreams::{Named, Upstream};

/// The upstream and scheme that `lb://orders` or `lb:https://orders` names. Reports errors.
pub(crate) fn check(
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
