//! Forwards to paths that no route takes.

use crate::diagnostics::Diagnostics;
use crate::routes::model::Route;
use crate::yaml::Span;
use tollgate_routing::Predicate;

/// Whether the filter `name` changes paths: what a route forwards is then for its filters to say.
pub(crate) fn changes_path(name: &str) -> bool {
    let names = ["StripPrefix", "PrefixPath", "SetPath", "RewritePath", "SetRequestUri", "RequestHeaderToRequestUri"];
    names.contains(&name)
}

/// Warns of each of `forwards` that no route takes.
pub(crate) fn report_lost(forwards: &[(Span, String)], routes: &[Route], diagnostics: &mut Diagnostics) {
    for (at, path) in forwards.iter().filter(|(_, path)| !routes.iter().any(|route| may_take(route, path))) {
        diagnostics
            .warn(*at, format!("no route takes `{path}`: what is forwarded there is answered 404"))
            .help(format!("add a route with `Path={path}`; controllers of a Spring application are not here"));
    }
}

/// Whether the route's paths are ones that `path` may be.
fn may_take(route: &Route, path: &str) -> bool {
    let takes = |predicate: &Predicate| {
        predicate.path_patterns().is_none_or(|patterns| patterns.iter().any(|pattern| pattern.matches(path, true)))
    };
    route.predicates.iter().all(takes)
}
