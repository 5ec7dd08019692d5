//! Notes about filters of a route that depend on each other.

use crate::diagnostics::Diagnostics;
use crate::filters::model::Filter;
use crate::routes::list::ListedFilter;
use crate::yaml::Span;

/// Reports several limiters, which have a bucket each.
pub(super) fn note_several_limiters(filters: &[ListedFilter], id: &str, at: Span, diagnostics: &mut Diagnostics) {
    let limiters = filters.iter().filter(|listed| matches!(listed.filter, Filter::RequestRateLimiter(_))).count();
    if limiters > 1 && diagnostics.is_spring {
        diagnostics.note(
            at,
            format!(
                "route `{id}` has {limiters} limiters, each with its own bucket; in Spring the settings of the last one \
                 apply to all"
            ),
        );
    }
}

/// Reports a cache in front of limits, which do not count its responses.
pub(super) fn note_uncounted_hits(filters: &[ListedFilter], id: &str, diagnostics: &mut Diagnostics) {
    let mut behind = filters.iter().skip_while(|listed| !matches!(listed.filter, Filter::LocalResponseCache(_)));
    let Some(cache) = behind.next() else { return };
    let remedy = match diagnostics.is_spring {
        true => "as in Spring; in Tollgate's own form, they count if the cache is listed after it",
        false => "list the cache after it to count them",
    };
    if let Some(counter) = behind.find(|listed| listed.filter.counts_requests()) {
        diagnostics
            .note(
                cache.spec.span,
                format!(
                    "`{}` of route `{id}` does not count cached responses: the cache precedes it",
                    counter.spec.name
                ),
            )
            .help(remedy);
    }
}
