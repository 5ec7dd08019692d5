//! Forwards to paths that no route takes.

use crate::diagnostics::Diagnostics;
use crate::routes::model::Route;
use crate::yaml::Span;
use tollgate_routing::Predicate;

/// Returns true if the filter `name` changes the path, so that a forward may lead elsewhere.
pub(crate) fn changes_path(name: &str) -> bool {
    let names = ["StripPrefix", "PrefixPath", "SetPath", "RewritePath", "SetRequestUri", "RequestHeaderToRequestUri"];
    names.contains(&name)
}

/// Warns of forwards to paths that match no route.
pub(crate) fn report_lost(forwards: &[(Span, String)], routes: &[Route], diagnostics: &mut Diagnostics) {
    for (at, path) in forwards.iter().filter(|(_, path)| !routes.iter().any(|route| may_take(route, path))) {
        diagnostics
            .warn(*at, format!("no route matches `{path}`: requests forwarded there get 404"))
            .help(format!("add a route with `Path={path}`; controllers of a Spring application do not exist here"));
    }
}

/// Returns true if the patterns of the route can match `path`.
fn may_take(route: &Route, path: &str) -> bool {
    let takes = |predicate: &Predicate| {
        predicate.path_patterns().is_none_or(|patterns| patterns.iter().any(|pattern| pattern.matches(path, true)))
    };
    route.predicates.iter().all(takes)
}
