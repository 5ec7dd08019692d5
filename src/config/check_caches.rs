//! The caches of routes, once all else is known of them.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::filters::{Settings, cache_for_all};
use super::model::{Cors, Definition, Filter, Route};
use super::problem::Sink;
use super::switches::Kind;

/// Gives the shared cache to routes without one of their own where Spring's switches leave it on, and every cache its
/// identity.
pub(crate) fn check(settings: &Settings<'_>, routes: &mut [Route], cors: &Cors, sink: &mut Sink) {
    let raw = &settings.raw.filter.local_response_cache;
    let is_on = raw.enabled == Some(true) && !settings.switches.is_off(Kind::GlobalFilter, "LocalResponseCache");
    let shared = is_on.then(|| cache_for_all(raw, sink));
    let cors = format!("{cors:?}");
    for route in routes {
        let is_cache = |filter: &Filter| matches!(filter, Filter::LocalResponseCache(_));
        if let Some(shared) = shared.as_ref().filter(|_| !route.filters.iter().any(is_cache)) {
            route.filters.insert(0, Filter::LocalResponseCache(shared.clone()));
            route.definition.filters.insert(0, "LocalResponseCache".to_owned());
        }
        // It stands first.
        let Some(Filter::LocalResponseCache(cache)) = route.filters.first_mut() else { continue };
        // What is kept has passed the route's filters and has the headers of its policy.
        let Definition { uri, predicates, filters, .. } = &route.definition;
        let mut hasher = DefaultHasher::new();
        (uri, predicates, filters, &cors, format!("{:?}", cache.settings)).hash(&mut hasher);
        cache.identity = hasher.finish();
    }
}
