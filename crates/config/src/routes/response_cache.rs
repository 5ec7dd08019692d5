//! `LocalResponseCache` of routes, once all else is known of them.

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::diagnostics::Diagnostics;
use crate::filters::for_all_routes::RawLocalResponseCache;
use crate::filters::local_response_cache::cache_for_all;
use crate::filters::model::Filter;
use crate::routes::model::{Cors, Definition, Route};
use crate::switches::{ComponentKind, Switches};
use crate::yaml::Span;

/// Adds the shared cache to routes without their own, unless Spring's switches disable it, and sets the identity of
/// every cache.
pub(crate) fn check(
    raw: &RawLocalResponseCache,
    switches: &Switches,
    routes: &mut [Route],
    cors: &Cors,
    diagnostics: &mut Diagnostics,
) {
    let is_on = raw.enabled == Some(true) && !switches.is_off(ComponentKind::GlobalFilter, "LocalResponseCache");
    let shared = is_on.then(|| cache_for_all(raw, diagnostics));
    let cors = hash_of(format!("{cors:?}"));
    let mut uncounted = Vec::new();
    for route in routes {
        let is_cache = |filter: &Filter| matches!(filter, Filter::LocalResponseCache(_));
        if let Some(shared) = shared.as_ref().filter(|_| !route.filters.iter().any(is_cache)) {
            if route.filters.iter().any(Filter::counts_requests) {
                uncounted.push(route.id.to_string());
            }
            route.filters.insert(0, Filter::LocalResponseCache(shared.clone()));
            route.definition.prepend_filter("LocalResponseCache");
        }
        let cache = route
            .filters
            .iter_mut()
            .find_map(|filter| if let Filter::LocalResponseCache(cache) = filter { Some(cache) } else { None });
        let Some(cache) = cache else { continue };
        // Cached responses depend on the route's filters and its CORS policy.
        let Definition { uri, predicates, filters, .. } = &route.definition;
        cache.identity = hash_of((uri, predicates, filters, cors, format!("{:?}", cache.settings)));
    }
    if !uncounted.is_empty() {
        let routes = uncounted.join("`, `");
        diagnostics
            .note(Span::ROOT, format!("limits of `{routes}` do not count responses from the cache that routes share"))
            .help("a `LocalResponseCache` of the route's own, listed after its limits, counts them");
    }
}

fn hash_of(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
