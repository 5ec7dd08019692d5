//! Forwards to paths that no route takes.

use std::net::{IpAddr, Ipv4Addr};

use http::{HeaderMap, Method, Uri};

use crate::diagnostics::Diagnostics;
use crate::routes::model::Route;
use crate::yaml::Span;
use tollgate_routing::{PathPattern, Predicate, RequestView, RouteTable};

/// Warns of forwards to paths that match no route.
pub(crate) fn report_lost(forwards: &[(Span, String)], routes: &[Route], diagnostics: &mut Diagnostics) {
    if forwards.is_empty() {
        return;
    }
    let paths = RouteTable::new(routes.iter().map(|route| (path_predicates(route), ())).collect());
    let (headers, peer) = (HeaderMap::new(), IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    for (at, path) in forwards {
        let takes = |uri| paths.find(&RequestView::new(&Method::GET, &uri, &headers, peer, 0));
        let found = path.parse::<Uri>().map(takes);
        if matches!(found, Err(_) | Ok(Ok(None))) {
            diagnostics
                .warn(*at, format!("no route matches `{path}`: requests forwarded there get 404"))
                .help(format!("add a route with `Path={path}`; controllers of a Spring application do not exist here"));
        }
    }
}

/// Returns the conditions of a route on the path, which ignore a `/` at the end.
fn path_predicates(route: &Route) -> Vec<Predicate> {
    let texts = |patterns: &[PathPattern]| patterns.iter().map(ToString::to_string).collect::<Vec<_>>();
    let paths = route.predicates.iter().filter_map(Predicate::path_patterns);
    paths.filter_map(|patterns| Predicate::path(&texts(patterns), true).ok()).collect()
}
