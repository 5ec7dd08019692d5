//! Policies for cross-origin requests (CORS): `globalcors`, `metadata.cors` of routes, and `cors` of our own form.

#[cfg(test)]
use std::collections::BTreeMap;
use std::sync::Arc;

use tollgate_filters::cors::{self, Policy, PolicyError};

use crate::de::{self, Flag, Seconds, Spanned, Subtree, canonical};
use crate::diagnostics::{Diagnostics, reasons};
use crate::spec::with_keys;
use crate::yaml::{Node, NodeKind, Span};

/// CORS policy of a route.
#[derive(Clone, Debug)]
pub struct RouteCors {
    /// The policy.
    pub policy: Arc<Policy>,
    /// True for `cors` of the route, false for Spring's `metadata.cors`.
    pub is_own: bool,
    /// Its place.
    pub(crate) span: Span,
}

/// Keys that Spring looks up literally in `metadata.cors`.
const METADATA_KEYS: [&str; 7] = [
    "allowedOrigins",
    "allowedOriginPatterns",
    "allowedMethods",
    "allowedHeaders",
    "exposedHeaders",
    "allowCredentials",
    "maxAge",
];

/// Returns the policy of a route: its own `cors`, or `metadata.cors`.
pub(crate) fn of_route(
    own: Option<&Spanned<RawCors>>,
    metadata: Option<&Node>,
    diagnostics: &mut Diagnostics,
) -> Option<RouteCors> {
    if let (Some(own), Some(metadata)) = (own, metadata) {
        diagnostics
            .mistake(metadata.span.key(), "`metadata.cors` has no effect beside the route's own `cors`")
            .help("remove one of them");
        return policy(&own.value, own.span, diagnostics).map(|policy| RouteCors {
            policy,
            is_own: true,
            span: own.span,
        });
    }
    let (raw, span) = match (own, metadata) {
        (Some(own), _) => (own.value.clone(), own.span),
        (None, Some(node)) => (of_metadata(node, diagnostics)?, node.span),
        (None, None) => return None,
    };
    policy(&raw, span, diagnostics).map(|policy| RouteCors { policy, is_own: own.is_some(), span })
}

/// Reads `metadata.cors` as Spring does: names are looked up literally, a text is a list of one.
fn of_metadata(node: &Node, diagnostics: &mut Diagnostics) -> Option<RawCors> {
    let NodeKind::Map(entries) = &node.kind else {
        diagnostics.error(node.span, format!("expected a map of CORS settings, found {}", node.describe()));
        return None;
    };
    let mut usable_entries = Vec::with_capacity(entries.len());
    for (key, value) in entries {
        if METADATA_KEYS.contains(&key.as_str()) {
            usable_entries.push((key.clone(), value.clone()));
            continue;
        }
        let name = METADATA_KEYS.iter().find(|name| canonical(name) == canonical(key));
        let help = diagnostics.mistake(value.span.key(), format!("`{key}` in `metadata.cors` has no effect"));
        match name {
            Some(name) => help.help(format!("metadata is looked up literally: write `{name}`")),
            None => help.suggest(key, &METADATA_KEYS),
        }
    }
    let (raw, _) = de::read::<RawCors>(&Node { span: node.span, kind: NodeKind::Map(usable_entries) }, diagnostics);
    Some(raw)
}

/// Returns the policy that `raw` describes. Reports errors.
pub(crate) fn policy(raw: &RawCors, at: Span, diagnostics: &mut Diagnostics) -> Option<Arc<Policy>> {
    let texts = |list: &Option<Vec<Spanned<String>>>| -> Vec<String> {
        list.iter().flatten().map(|text| text.value.trim().to_owned()).filter(|text| !text.is_empty()).collect()
    };
    let settings = cors::Settings {
        allowed_origins: texts(&raw.allowed_origins),
        allowed_origin_patterns: with_ports(texts(&raw.allowed_origin_patterns)),
        allowed_methods: texts(&raw.allowed_methods),
        allowed_headers: texts(&raw.allowed_headers),
        exposed_headers: texts(&raw.exposed_headers),
        allow_credentials: raw.allow_credentials.get(),
        allow_private_network: raw.allow_private_network.get(),
        max_age_secs: raw.max_age.map(|seconds| seconds.0),
    };
    // An empty list says so.
    let is_meant = raw.allowed_origins.as_ref().is_some_and(Vec::is_empty);
    if settings.allowed_origins.is_empty() && settings.allowed_origin_patterns.is_empty() && !is_meant {
        diagnostics
            .warn(at, "no origin is allowed, so every cross-origin request gets 403")
            .help("`allowed-origins: [\"https://example.com\"]`, or `\"*\"` for every one");
    }
    let complain = |error: PolicyError| {
        let message = with_keys(&reasons(&error));
        let quoted_place = |list: &Option<Vec<Spanned<String>>>| {
            list.iter().flatten().find(|text| message.contains(&format!("`{}`", text.value))).map(|text| text.span)
        };
        let lists = [&raw.allowed_origins, &raw.allowed_methods, &raw.allowed_headers, &raw.exposed_headers];
        let place = lists.into_iter().find_map(quoted_place).unwrap_or(at);
        let help = diagnostics.error(place, message);
        if matches!(error, PolicyError::CredentialsForAnyOrigin | PolicyError::PrivateNetworkForAnyOrigin) {
            help.help("`allowed-origin-patterns: [\"*\"]` allows all origins and names the requesting one");
        }
    };
    Policy::new(&settings).map_err(complain).ok().map(Arc::new)
}

/// Joins patterns that were split at the commas of their list of ports.
fn with_ports(texts: Vec<String>) -> Vec<String> {
    let mut patterns: Vec<String> = Vec::with_capacity(texts.len());
    for text in texts {
        match patterns.last_mut().filter(|last| last.contains(":[") && !last.ends_with(']')) {
            Some(last) => {
                last.push(',');
                last.push_str(&text);
            }
            None => patterns.push(text),
        }
    }
    patterns
}

/// CORS policies by path.
#[section]
pub(crate) struct RawGlobalCors {
    /// Policies by path pattern: `"[/api/**]"`. The first match applies.
    #[cfg_attr(test, schemars(with = "BTreeMap<String, RawCors>"))]
    pub(crate) cors_configurations: Option<Subtree>,
    /// Answers preflight requests that match no route.
    pub(crate) add_to_simple_url_handler_mapping: Flag<false>,
    /// Enables `metadata.cors` of routes, as in Spring; the policies here always apply. Default true.
    pub(crate) enabled: Option<Spanned<bool>>,
    /// Keeps CORS fields of upstreams' responses behind those of the policy; browsers refuse a response with two origins. Default {}, so that the policy's replace them; true in a Spring file, as in Spring.
    pub(crate) keep_upstream_headers: Flag<false>,
}

/// CORS policy.
#[section(Clone)]
pub(crate) struct RawCors {
    /// Allowed origins such as `https://example.com`, or `*`. Default: none.
    pub(crate) allowed_origins: Option<Vec<Spanned<String>>>,
    /// Allowed origins with `*` and lists of ports: `https://*.example.com:[443,8443]`. Default: none.
    pub(crate) allowed_origin_patterns: Option<Vec<Spanned<String>>>,
    /// Allowed methods, or `*`. Default GET and HEAD.
    pub(crate) allowed_methods: Option<Vec<Spanned<String>>>,
    /// Allowed request headers, or `*`. Default: the CORS-safelisted ones.
    pub(crate) allowed_headers: Option<Vec<Spanned<String>>>,
    /// Response headers that scripts can read. Default: the CORS-safelisted ones.
    pub(crate) exposed_headers: Option<Vec<Spanned<String>>>,
    /// Allows cookies and `Authorization`.
    pub(crate) allow_credentials: Flag<false>,
    /// Allows requests from public sites to a private network.
    pub(crate) allow_private_network: Flag<false>,
    /// Time for which browsers cache the response to a preflight: seconds, or a time such as `30m`. Default: the browser's own, mostly 5 seconds.
    pub(crate) max_age: Option<Seconds>,
}
