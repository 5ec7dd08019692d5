//! `LocalResponseCache`: its position, since Spring runs it before all filters, and Spring's effect of `no-cache`.

use crate::filters::model::Filter;
use crate::migrate::print::{Item, Value, add_missing};
use crate::model::Config;

/// Puts the cache among `filters` first. Only adds a note unless `may_move`: the default filters are merged by position.
pub(super) fn cache_first(filters: &mut Vec<Item>, may_move: bool) {
    let is_cache = |item: &Item| name(item).is_some_and(|name| name == "LocalResponseCache");
    let Some(at) = filters.iter().rposition(is_cache) else { return };
    if may_move && at > 0 {
        let mut cache = filters.remove(at);
        cache.note("Moved to the front: Spring runs it before all other filters.");
        filters.insert(0, cache);
    } else if !may_move {
        filters[at].note("Spring runs it before all other filters; here, filters before it see cached responses.");
    }
}

/// Adds Spring's effect of `no-cache`, if a route has a cache.
pub(super) fn add_strategy(sections: &mut Vec<(String, Item)>, config: &Config) {
    let mut filters = config.routes.iter().flat_map(|route| &route.filters);
    if filters.any(|filter| matches!(filter, Filter::LocalResponseCache(_))) {
        let mut strategy = Item::scalar("skip-update-cache-entry");
        strategy
            .note("Spring's default; Tollgate's is `revalidate`, so that a reload of a browser gets a current page.");
        add_missing(sections, &["filter", "local-response-cache", "request", "no-cache-strategy"], strategy);
    }
}

fn name(filter: &Item) -> Option<&str> {
    let text = match &filter.value {
        Value::Scalar(text) => text,
        Value::Map(_) => match &filter.get("name")?.value {
            Value::Scalar(text) => text,
            _ => return None,
        },
        Value::Null | Value::Absent | Value::Seq(_) => return None,
    };
    text.split('=').next().map(str::trim)
}
