//! The caches of routes, once all else is known of them.

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::diagnostics::Diagnostics;
use crate::filters::{Settings, cache_for_all};
use crate::model::{Cors, Definition, Filter, Route};
use crate::spring::switches::Kind;
use crate::yaml::Span;

/// Leaves a route the last of its caches: one that answers before another would be all that is ever asked.
pub(crate) fn leave_one<T>(
    list: &mut Vec<T>,
    filter: fn(&T) -> &Filter,
    id: &str,
    at: Span,
    diagnostics: &mut Diagnostics,
) {
    let is_cache = |item: &T| matches!(filter(item), Filter::LocalResponseCache(_));
    let caches = list.iter().filter(|item| is_cache(item)).count();
    if caches > 1 {
        diagnostics.info(at, format!("route `{id}` has {caches} `LocalResponseCache`: the last one holds"));
    }
    let mut spare = caches.saturating_sub(1);
    list.retain(|item| {
        let goes = spare > 0 && is_cache(item);
        spare -= usize::from(goes);
        !goes
    });
}

/// Gives the shared cache to routes without one of their own where Spring's switches leave it on, and every cache its
/// identity.
pub(crate) fn check(settings: &Settings<'_>, routes: &mut [Route], cors: &Cors, diagnostics: &mut Diagnostics) {
    let raw = &settings.raw.local_response_cache;
    let is_on = raw.enabled == Some(true) && !settings.switches.is_off(Kind::GlobalFilter, "LocalResponseCache");
    let shared = is_on.then(|| cache_for_all(raw, diagnostics));
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
