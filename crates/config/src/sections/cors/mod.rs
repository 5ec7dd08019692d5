//! Who may ask from other origins: `globalcors`, `metadata.cors` of routes, and `cors` in our own form.

pub(crate) mod raw;

use std::sync::Arc;

use tollgate_filters::cors::{self, Policy, PolicyError};

use crate::de::nodes::Nodes;
use crate::de::spanned::Spanned;
use crate::de::{self, canonical};
use crate::diagnostics::{Diagnostics, reasons, suggest};
use crate::model::{Cors, Route, RouteCors};
use crate::sections::cors::raw::{RawCors, RawGlobalCors};
use crate::yaml::{Kind, Node, Span};
use tollgate_routing::Predicate;

/// The keys that Spring looks up in `metadata.cors`, written exactly so.
const METADATA_KEYS: [&str; 7] = [
    "allowedOrigins",
    "allowedOriginPatterns",
    "allowedMethods",
    "allowedHeaders",
    "exposedHeaders",
    "allowCredentials",
    "maxAge",
];

/// What a route says: its own `cors`, or `metadata.cors`.
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
    let Kind::Map(entries) = &node.kind else {
        diagnostics.error(node.span, format!("expected a map of CORS settings, found {}", node.describe()));
        return None;
    };
    let mut known = Vec::with_capacity(entries.len());
    for (key, value) in entries {
        if METADATA_KEYS.contains(&key.as_str()) {
            let several = value.scalar().filter(|text| text.contains(',') && !key.starts_with("allowedOrigin"));
            if let Some(text) = several.filter(|_| diagnostics.is_spring) {
                diagnostics
                    .warn(value.span, format!("Spring takes `{text}` for one name; here it is a list"))
                    .help("write a list: `[a, b]`");
            }
            known.push((key.clone(), value.clone()));
            continue;
        }
        let meant = METADATA_KEYS.iter().find(|known| canonical(known) == canonical(key));
        diagnostics.mistake(value.span.key(), format!("`{key}` in `metadata.cors` does nothing")).help(match meant {
            Some(meant) => format!("metadata is looked up literally: write `{meant}`"),
            None => suggest(key, &METADATA_KEYS),
        });
    }
    let (raw, _) = de::read::<RawCors>(&Node { span: node.span, kind: Kind::Map(known) }, diagnostics);
    Some(raw)
}

/// The policy that `raw` means; `None` when there can be none, which `sink` then knows.
fn policy(raw: &RawCors, at: Span, diagnostics: &mut Diagnostics) -> Option<Arc<Policy>> {
    let texts = |list: &Option<Vec<Spanned<String>>>| -> Vec<String> {
        list.iter().flatten().map(|text| text.value.trim().to_owned()).filter(|text| !text.is_empty()).collect()
    };
    let settings = cors::Settings {
        allowed_origins: texts(&raw.allowed_origins),
        allowed_origin_patterns: with_ports(texts(&raw.allowed_origin_patterns)),
        allowed_methods: texts(&raw.allowed_methods),
        allowed_headers: texts(&raw.allowed_headers),
        exposed_headers: texts(&raw.exposed_headers),
        allow_credentials: raw.allow_credentials.unwrap_or(false),
        allow_private_network: raw.allow_private_network.unwrap_or(false),
        max_age_secs: raw.max_age.map(|seconds| seconds.0),
    };
    if settings.allowed_origins.is_empty() && settings.allowed_origin_patterns.is_empty() {
        diagnostics
            .warn(at, "no origin is allowed, so every cross-origin request is answered 403")
            .help("`allowed-origins: [\"https://example.com\"]`, or `\"*\"` for every one");
    }
    let complain = |error: PolicyError| {
        let message = reasons(&error);
        let named = |list: &Option<Vec<Spanned<String>>>| {
            list.iter().flatten().find(|text| message.contains(&format!("`{}`", text.value))).map(|text| text.span)
        };
        let lists = [&raw.allowed_origins, &raw.allowed_methods, &raw.allowed_headers, &raw.exposed_headers];
        let place = lists.into_iter().find_map(named).unwrap_or(at);
        let help = diagnostics.error(place, message);
        if matches!(error, PolicyError::CredentialsForEveryone | PolicyError::PrivateNetworkForEveryone) {
            help.help("`allowed-origin-patterns: [\"*\"]` in its place names each origin that asks");
        }
    };
    Policy::new(&settings).map_err(complain).ok().map(Arc::new)
}

/// Puts patterns together again whose list of ports was taken for several.
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

/// What holds on which path: routes before `globalcors`, as in Spring, and the top-level `cors` behind both.
pub(crate) fn all(
    raw: &RawGlobalCors,
    own: Option<&Spanned<RawCors>>,
    routes: &[Route],
    nodes: &Nodes<'_>,
    diagnostics: &mut Diagnostics,
) -> Cors {
    let mut table = Table::default();
    for (route, cors) in routes.iter().filter_map(|route| Some((route, route.cors.as_ref()?))) {
        if let Some(Spanned { value: false, .. }) = raw.enabled
            && !cors.is_own
        {
            diagnostics
                .warn(cors.span, "`metadata.cors` has no effect with `globalcors.enabled: false`")
                .ineffective()
                .help("remove one");
            continue;
        }
        of_one(route, cors, &mut table, diagnostics);
    }
    let answers_all = raw.add_to_simple_url_handler_mapping == Some(true);
    let node = raw.cors_configurations.and_then(|whole| nodes.get(whole));
    if let Some(node) = node {
        for (pattern, policy) in by_pattern(node, diagnostics) {
            if answers_all {
                put(&mut table.unrouted, &pattern, &policy);
            }
            if !table.by_path.iter().any(|(known, _)| *known == pattern) {
                put(&mut table.by_path, &pattern, &policy);
            }
        }
        if !answers_all {
            unreached(routes, node.span.key(), diagnostics);
        }
    }
    if let Some(own) = own
        && let Some(policy) = policy(&own.value, own.span, diagnostics)
    {
        put(&mut table.by_path, "/**", &policy);
        put(&mut table.unrouted, "/**", &policy);
    }
    let node = node.map_or(Span::ROOT, |node| node.span);
    Cors {
        by_path: predicates(table.by_path, node, diagnostics),
        unrouted: predicates(table.unrouted, node, diagnostics),
    }
}

type ByPattern = Vec<(String, Arc<Policy>)>;

#[derive(Default)]
struct Table {
    by_path: ByPattern,
    unrouted: ByPattern,
}

/// Whether another stood there, which is replaced in its place.
fn put(into: &mut ByPattern, pattern: &str, policy: &Arc<Policy>) -> bool {
    match into.iter_mut().find(|(known, _)| known == pattern) {
        Some((_, known)) => {
            *known = Arc::clone(policy);
            true
        }
        None => {
            into.push((pattern.to_owned(), Arc::clone(policy)));
            false
        }
    }
}

/// Spring knows the path of a request alone when it looks for a policy, and of a route its first pattern.
fn of_one(route: &Route, cors: &RouteCors, table: &mut Table, diagnostics: &mut Diagnostics) {
    let patterns = route.predicates.iter().flat_map(Predicate::paths_within);
    let mut patterns: Vec<String> = patterns.map(ToString::to_string).collect();
    if patterns.is_empty() {
        diagnostics
            .warn(cors.span, "the route has no `Path`, so this holds for every path, whichever route takes it")
            .help("a policy is found by the path alone: write `Path`, or `globalcors` to say so");
        patterns.push("/**".to_owned());
    }
    if !cors.is_own && patterns.len() > 1 {
        patterns.truncate(1);
        let first = &patterns[0];
        diagnostics
            .warn(cors.span, format!("`metadata.cors` holds for `{first}` alone, the first pattern of the route"))
            .help("give each pattern a route of its own, or write `globalcors`");
    }
    for pattern in &patterns {
        if put(&mut table.by_path, pattern, &cors.policy) {
            diagnostics
                .mistake(cors.span, format!("another route has a policy for `{pattern}` too: this one replaces it"))
                .help("a policy is found by the path alone: write it once");
        }
        if cors.is_own {
            put(&mut table.unrouted, pattern, &cors.policy);
        }
    }
    if !cors.is_own && refuses_options(route) {
        diagnostics
            .warn(
                cors.span,
                format!("preflights do not match route `{}`, because of its `Method`: they are answered 404", route.id),
            )
            .help("add OPTIONS to its `Method`");
    }
}

fn refuses_options(route: &Route) -> bool {
    let texts = &route.definition.predicates;
    texts.iter().any(|text| text.starts_with("Method") && !text.to_ascii_uppercase().contains("OPTIONS"))
}

/// Complains about routes that preflights do not match, where nobody else answers them.
fn unreached(routes: &[Route], at: Span, diagnostics: &mut Diagnostics) {
    let ids: Vec<_> = routes.iter().filter(|route| refuses_options(route)).map(|route| &*route.id).collect();
    if !ids.is_empty() {
        let more = if ids.len() > 5 { ", …" } else { "" };
        let ids = ids.iter().take(5).map(|id| format!("`{id}`")).collect::<Vec<_>>().join(", ");
        diagnostics
            .warn(at, format!("preflights do not match routes with a `Method`: {ids}{more}; they are answered 404"))
            .help("`add-to-simple-url-handler-mapping: true` beside this answers them");
    }
}

/// The policies of `globalcors.cors-configurations`.
fn by_pattern(node: &Node, diagnostics: &mut Diagnostics) -> ByPattern {
    let Kind::Map(entries) = &node.kind else {
        diagnostics
            .error(node.span, format!("expected a map by path pattern, found {}", node.describe()))
            .help("`\"[/**]\": {allowed-origins: …}`");
        return Vec::new();
    };
    let mut policies = Vec::with_capacity(entries.len());
    for (at, (pattern, value)) in entries.iter().enumerate() {
        if entries[..at].iter().any(|(before, _)| before == "/**") {
            diagnostics
                .warn(value.span.key(), format!("the policy for `{pattern}` never holds: `/**` stands before it"))
                .help("the first pattern that matches counts: move `/**` behind the others");
        }
        let (raw, unknown) = de::read::<RawCors>(value, diagnostics);
        unknown.iter().for_each(|unknown| de::report_unknown(unknown, diagnostics));
        if let Some(policy) = policy(&raw, value.span, diagnostics) {
            policies.push((pattern.clone(), policy));
        }
    }
    policies
}

fn predicates(policies: ByPattern, at: Span, diagnostics: &mut Diagnostics) -> Vec<(Predicate, Arc<Policy>)> {
    let mut found = Vec::with_capacity(policies.len());
    for (pattern, policy) in policies {
        match Predicate::path(std::slice::from_ref(&pattern), false) {
            Ok(predicate) => found.push((predicate, policy)),
            Err(error) => {
                diagnostics.error(at, reasons(&error)).help("write path patterns: `\"[/api/**]\"`");
            }
        }
    }
    found
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::parse;

    #[test]
    fn a_policy_behind_that_for_all_paths_is_pointed_out() {
        for (patterns, is_pointed_out) in [(["/**", "/a/**"], true), (["/a/**", "/**"], false)] {
            let policies = patterns.map(|pattern| format!("'[{pattern}]': {{allowed-origins: '*'}}")).join(", ");
            let text = format!(
                "globalcors: {{cors-configurations: {{{policies}}}}}\n\
                 routes: [{{id: a, uri: 'echo:', predicates: [Path=/**]}}]\n"
            );
            let loaded = parse("test.yaml", &text, &|_| None).map_err(|problems| problems.to_string()).unwrap();
            let notes = loaded.notes.to_string();
            assert_eq!(notes.contains("`/a/**` never holds"), is_pointed_out, "{patterns:?}: {notes}");
        }
    }
}
