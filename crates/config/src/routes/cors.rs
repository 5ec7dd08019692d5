//! CORS policies by path, once all routes are known.

use std::collections::HashMap;
use std::sync::Arc;

use http::Method;
use tollgate_filters::cors::Policy;

use crate::de::{self, Spanned};
use crate::diagnostics::{Diagnostics, reasons};
use crate::filters::model::Filter;
use crate::routes::model::{Cors, Route};
use crate::sections::cors::{RawCors, RawGlobalCors, RouteCors, policy};
use crate::yaml::{Node, NodeKind, Span};
use tollgate_routing::Predicate;

/// Returns the policies by path. Policies of routes come before `globalcors`, as in Spring, and the top-level `cors`
/// comes last.
pub(crate) fn all(
    globalcors: &RawGlobalCors,
    top_level: Option<&Spanned<RawCors>>,
    routes: &[Route],
    diagnostics: &mut Diagnostics,
) -> Cors {
    let mut table = Table::default();
    for (route, cors) in routes.iter().filter_map(|route| Some((route, route.cors.as_ref()?))) {
        if let Some(Spanned { value: false, .. }) = globalcors.enabled
            && !cors.is_own
        {
            diagnostics
                .warn(cors.span, "`metadata.cors` has no effect with `globalcors.enabled: false`")
                .ineffective()
                .help("remove one");
            continue;
        }
        add_route_policy(route, cors, &mut table, diagnostics);
    }
    let includes_unrouted = globalcors.add_to_simple_url_handler_mapping.get();
    let node = globalcors.cors_configurations.as_deref();
    if let Some(node) = node {
        for (pattern, policy) in by_pattern(node, diagnostics) {
            if includes_unrouted {
                table.unrouted.put(&pattern, &policy);
            }
            if !table.by_path.has(&pattern) {
                table.by_path.put(&pattern, &policy);
            }
        }
        if !includes_unrouted {
            warn_unmatched_preflights(routes, node.span.key(), diagnostics);
        }
    }
    if let Some(top_level) = top_level
        && let Some(policy) = policy(&top_level.value, top_level.span, diagnostics)
    {
        table.by_path.put("/**", &policy);
        table.unrouted.put("/**", &policy);
    }
    let node = node.map_or(Span::ROOT, |node| node.span);
    Cors {
        by_path: predicates(table.by_path, node, diagnostics),
        unrouted: predicates(table.unrouted, node, diagnostics),
        keeps_upstream_headers: globalcors.keep_upstream_headers.get(),
    }
}

/// Policies in the order of their patterns.
#[derive(Default)]
struct ByPattern {
    list: Vec<(String, Arc<Policy>)>,
    positions: HashMap<String, usize>,
}

#[derive(Default)]
struct Table {
    by_path: ByPattern,
    unrouted: ByPattern,
}

impl ByPattern {
    fn has(&self, pattern: &str) -> bool {
        self.positions.contains_key(pattern)
    }

    /// Adds the policy of `pattern`. Returns true if it replaces another one.
    fn put(&mut self, pattern: &str, policy: &Arc<Policy>) -> bool {
        let present = self.positions.get(pattern).and_then(|at| self.list.get_mut(*at));
        if let Some((_, present)) = present {
            *present = Arc::clone(policy);
            return true;
        }
        self.positions.insert(pattern.to_owned(), self.list.len());
        self.list.push((pattern.to_owned(), Arc::clone(policy)));
        false
    }
}

/// Adds the policy of a route. Spring selects policies by the path of a request, and uses the first pattern of a route.
fn add_route_policy(route: &Route, cors: &RouteCors, table: &mut Table, diagnostics: &mut Diagnostics) {
    let patterns = route.predicates.iter().flat_map(Predicate::nested_path_patterns);
    let mut patterns: Vec<String> = patterns.map(ToString::to_string).collect();
    if patterns.is_empty() {
        diagnostics
            .warn(cors.span, "the route has no `Path`, so this policy applies to all paths of all routes")
            .help("policies are selected by path only: add `Path`, or use `globalcors`");
        patterns.push("/**".to_owned());
    }
    if !cors.is_own && patterns.len() > 1 {
        patterns.truncate(1);
        let first = &patterns[0];
        diagnostics
            .warn(cors.span, format!("`metadata.cors` applies only to `{first}`, the first pattern of the route"))
            .help("give each pattern its own route, or use `globalcors`");
    }
    for pattern in &patterns {
        if table.by_path.put(pattern, &cors.policy) {
            diagnostics
                .mistake(cors.span, format!("this policy replaces another route's policy for `{pattern}`"))
                .help("policies are selected by path only: write it once");
        }
        if cors.is_own {
            table.unrouted.put(pattern, &cors.policy);
        }
    }
    if !cors.is_own && refuses_options(route) {
        diagnostics
            .warn(
                cors.span,
                format!("preflights do not match route `{}` because of its `Method`: they get 404", route.id),
            )
            .help("add OPTIONS to its `Method`");
    }
}

/// Returns true if a `Method` of the route lacks OPTIONS.
fn refuses_options(route: &Route) -> bool {
    route.predicates.iter().filter_map(Predicate::methods).any(|methods| !methods.contains(&Method::OPTIONS))
}

/// Warns of routes that preflights do not match, unless preflights are answered without a route.
fn warn_unmatched_preflights(routes: &[Route], at: Span, diagnostics: &mut Diagnostics) {
    let ids: Vec<_> = routes.iter().filter(|route| refuses_options(route)).map(|route| &*route.id).collect();
    if !ids.is_empty() {
        let ids = first_ids(&ids);
        diagnostics
            .warn(at, format!("preflights do not match routes with a `Method`: {ids}; they get 404"))
            .help("set `add-to-simple-url-handler-mapping: true` in `globalcors` to answer them");
    }
}

/// Notes routes whose filters refuse preflights, which carry no key. A policy answers preflights before any filter.
pub(crate) fn note_refused_preflights(routes: &[Route], cors: &Cors, diagnostics: &mut Diagnostics) {
    let is_answered = |route: &Route| {
        cors.by_path.iter().any(|(path, _)| Predicate::all_imply(&route.predicates, std::slice::from_ref(path)))
    };
    let refuses = |route: &Route| route.filters.iter().any(Filter::refuses_preflights) && !refuses_options(route);
    let ids: Vec<_> =
        routes.iter().filter(|route| refuses(route) && !is_answered(route)).map(|route| &*route.id).collect();
    if !ids.is_empty() {
        let ids = first_ids(&ids);
        diagnostics
            .note(
                Span::ROOT,
                format!(
                    "preflights of browsers carry neither key nor token, and are refused on routes that need one: {ids}"
                ),
            )
            .help("if browsers call these routes, add a CORS policy, which answers preflights: `globalcors`");
    }
}

/// Lists at most five route ids.
fn first_ids(ids: &[&str]) -> String {
    let more = if ids.len() > 5 { ", …" } else { "" };
    ids.iter().take(5).map(|id| format!("`{id}`")).collect::<Vec<_>>().join(", ") + more
}

/// Returns the policies of `globalcors.cors-configurations`.
fn by_pattern(node: &Node, diagnostics: &mut Diagnostics) -> Vec<(String, Arc<Policy>)> {
    let NodeKind::Map(entries) = &node.kind else {
        diagnostics
            .error(node.span, format!("expected a map by path pattern, found {}", node.describe()))
            .help("`\"[/**]\": {allowed-origins: …}`");
        return Vec::new();
    };
    let mut policies = Vec::with_capacity(entries.len());
    let mut is_covered = false;
    for (pattern, value) in entries {
        if is_covered {
            diagnostics
                .warn(value.span.key(), format!("the policy for `{pattern}` never applies: `/**` is before it"))
                .help("the first match applies: move `/**` to the end");
        }
        is_covered |= pattern == "/**";
        let (raw, unknown) = de::read::<RawCors>(value, diagnostics);
        unknown.iter().for_each(|unknown| diagnostics.unknown_key(unknown));
        if let Some(policy) = policy(&raw, value.span, diagnostics) {
            policies.push((pattern.clone(), policy));
        }
    }
    policies
}

fn predicates(policies: ByPattern, at: Span, diagnostics: &mut Diagnostics) -> Vec<(Predicate, Arc<Policy>)> {
    let mut predicates = Vec::with_capacity(policies.list.len());
    for (pattern, policy) in policies.list {
        match Predicate::path(std::slice::from_ref(&pattern), false) {
            Ok(predicate) => predicates.push((predicate, policy)),
            Err(error) => {
                diagnostics.error(at, reasons(&error)).help("write path patterns: `\"[/api/**]\"`");
            }
        }
    }
    predicates
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::parse;

    #[test]
    fn a_policy_after_the_catch_all_is_reported() {
        for (patterns, is_reported) in [(["/**", "/a/**"], true), (["/a/**", "/**"], false)] {
            let policies = patterns.map(|pattern| format!("'[{pattern}]': {{allowed-origins: '*'}}")).join(", ");
            let text = format!(
                "globalcors: {{cors-configurations: {{{policies}}}}}\n\
                 routes: [{{id: a, uri: 'echo:', predicates: [Path=/**]}}]\n"
            );
            let loaded = parse("test.yaml", &text, &|_| None).map_err(|problems| problems.to_string()).unwrap();
            let notes = loaded.notes.to_string();
            assert_eq!(notes.contains("`/a/**` never applies"), is_reported, "{patterns:?}: {notes}");
        }
    }
}
