//! The filters of one route together: their order, and how they influence each other.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tollgate_filters::context::Condition;
use tollgate_filters::edit::Edit;
use tollgate_filters::key_resolver::KeyResolver;
use tollgate_routing::Predicate;

use crate::diagnostics::Diagnostics;
use crate::filters::model::{Filter, FilterPosition};
use crate::filters::plain::{OwnResponses, PlainFilter};
use crate::rate_limiter::{RouteConditions, when};
use crate::routes::key_parts::{self, Effect, KeyPart};
use crate::spec::FilterSpec;
use crate::yaml::Span;

/// Header fields of a request that the filters of a route change at most.
const MAX_FIELDS: usize = 4_000;

/// A checked filter and its specification.
#[derive(Clone)]
pub(super) struct ListedFilter<'n> {
    pub(super) filter: Filter,
    pub(super) spec: FilterSpec<'n>,
}

/// Position in a list of filters; `None` for a filter that is left out.
pub(super) type FilterSlot<'n> = Option<ListedFilter<'n>>;

/// Merges both lists as Spring does, which numbers each from 1 and puts the default filter first: d1 r1 d2 r2 …
/// Filters with an order of their own keep it. A filter that is left out keeps its number.
pub(super) fn interleave<'n>(defaults: &[FilterSlot<'n>], of_route: Vec<FilterSlot<'n>>) -> Vec<ListedFilter<'n>> {
    let mut merged = Vec::with_capacity(defaults.len() + of_route.len());
    let mut defaults = defaults.iter().cloned();
    for filter in of_route {
        merged.extend(defaults.next().flatten());
        merged.extend(filter);
    }
    merged.extend(defaults.flatten());
    merged.sort_by_key(|listed| listed.filter.properties().position);
    merged
}

/// Reports filters of the route `id` that have no effect or an unexpected one, in the order in which requests pass them.
pub(super) fn check(filters: &mut Vec<ListedFilter<'_>>, id: &str, id_at: Span, diagnostics: &mut Diagnostics) {
    keep_last_cache(filters, id, id_at, diagnostics);
    uncounted_requests(filters, id, diagnostics);
    late_api_keys(filters, id, diagnostics);
    count_conditions(filters, id, id_at, diagnostics);
    let edits = filters.iter().filter_map(|listed| Some((listed.filter.as_edit()?, &listed.spec)));
    let edits: Vec<_> = edits.collect();
    count_fields(&edits, id, id_at, diagnostics);
    hosts(&edits, diagnostics);
    prefixes(&edits, diagnostics);
    duplicates(&edits, diagnostics);
    edited_keys(filters, diagnostics);
}

/// Warns of rules with a `when` that no request of the route matches, or all of them. Those of `defaults` may be for other
/// routes.
pub(super) fn warn_of_conditions(
    filters: &[ListedFilter<'_>],
    defaults: &[FilterSlot<'_>],
    route: (&Arc<str>, &[Predicate]),
    diagnostics: &mut Diagnostics,
) {
    // Longer conditions of a route are not compared with those of its rules.
    if route.1.iter().map(|predicate| predicate.to_string().len()).sum::<usize>() > 16_384 {
        return;
    }
    let is_default = |at: Span| defaults.iter().flatten().any(|default| default.spec.span == at);
    for ListedFilter { filter, spec } in filters {
        if let Some(limiter) = filter.as_rate_limiter()
            && !is_default(spec.span)
        {
            when::warn_of_constant(limiter, route, spec.span, diagnostics);
        }
    }
}

/// Reports a route whose filters add more header fields than a request can carry.
fn count_fields(edits: &[(&Edit, &FilterSpec<'_>)], id: &str, id_at: Span, diagnostics: &mut Diagnostics) {
    let count: usize = edits.iter().map(|(edit, _)| edit.request_headers().len()).sum();
    if count > MAX_FIELDS {
        let message = format!("filters of route `{id}` change {count} header fields of a request");
        diagnostics
            .error(id_at, message)
            .help("at most 4,000 are possible, and upstreams refuse more than some hundred");
    }
}

/// Reports a route with more different conditions of rules than a request can carry.
fn count_conditions(filters: &[ListedFilter<'_>], id: &str, id_at: Span, diagnostics: &mut Diagnostics) {
    let count = RouteConditions::of(filters.iter().filter_map(|listed| listed.filter.as_rate_limiter())).count();
    if count > Condition::MAX {
        let message =
            format!("rules of route `{id}` have {count} different `when`, at most {} are possible", Condition::MAX);
        diagnostics.error(id_at, message).help("give rules the same `when`, or split the route");
    }
}

/// Reports variables of filters that no pattern of their route sets.
pub(super) fn check_variables(
    filters: &[ListedFilter<'_>],
    predicates: &[Predicate],
    route: &str,
    diagnostics: &mut Diagnostics,
) {
    let set: Vec<&str> = predicates.iter().flat_map(Predicate::variable_names).collect();
    let names: HashSet<&str> = set.iter().copied().collect();
    for ListedFilter { filter, spec } in filters {
        let unset: Vec<&str> = filter.properties().variables.into_iter().filter(|name| !names.contains(name)).collect();
        if unset.is_empty() {
            continue;
        }
        let mut places: HashMap<&str, Span> = HashMap::new();
        for arg in &spec.args {
            for name in variables(&arg.value) {
                places.entry(name).or_insert(arg.span);
            }
        }
        for name in unset {
            let at = places.get(name).copied().unwrap_or(spec.span);
            let outcome = filter.without_variable();
            let message = format!("no `Path` or `Host` of route `{route}` has the variable `{{{name}}}`: {outcome}");
            let help = diagnostics.mistake(at, message);
            match set.is_empty() {
                true => help.help(format!("`Path=/{{{name}}}/**` sets it")),
                false => help.suggest(name, &set),
            }
        }
    }
}

/// Returns the names of the variables in `text`: `id` of `{id}` and of `{id:x}`.
fn variables(text: &str) -> impl Iterator<Item = &str> {
    let is_end = |c: char| !(c.is_alphanumeric() || "_$-".contains(c));
    text.split('{').skip(1).filter_map(move |behind| Some(&behind[..behind.find(is_end)?]))
}

/// Keeps only the last cache of a route. Of several caches, only the first would respond.
fn keep_last_cache(filters: &mut Vec<ListedFilter<'_>>, id: &str, id_at: Span, diagnostics: &mut Diagnostics) {
    let is_cache = |listed: &ListedFilter<'_>| matches!(listed.filter, Filter::LocalResponseCache(_));
    let caches = filters.iter().filter(|listed| is_cache(listed)).count();
    if caches > 1 {
        diagnostics.note(id_at, format!("route `{id}` has {caches} `LocalResponseCache`: only the last one applies"));
    }
    let mut spare = caches.saturating_sub(1);
    filters.retain(|listed| {
        let goes = spare > 0 && is_cache(listed);
        spare -= usize::from(goes);
        !goes
    });
}

/// Warns of limits behind a filter that responds in their place: they do not count these requests.
fn uncounted_requests(filters: &[ListedFilter<'_>], id: &str, diagnostics: &mut Diagnostics) {
    for (at, first) in filters.iter().enumerate() {
        let Some(counter) = filters[at + 1..].iter().find(|listed| listed.filter.counts_requests()) else { return };
        let (first_name, name, properties) = (&first.spec.name, &counter.spec.name, first.filter.properties());
        let (message, remedy) = match properties.own_responses {
            OwnResponses::None => continue,
            OwnResponses::Cached => (
                format!("`{name}` of route `{id}` does not count cached responses: the cache precedes it"),
                match properties.position {
                    FilterPosition::First => {
                        "`filter.local-response-cache.position: listed`, and the cache after it, counts them".to_owned()
                    }
                    FilterPosition::Listed | FilterPosition::Last => "list the cache after it to count them".to_owned(),
                },
            ),
            OwnResponses::All => (
                format!("`{name}` of route `{id}` counts no request: `{first_name}` before it responds to all of them"),
                format!("list `{name}` before `{first_name}`"),
            ),
        };
        diagnostics.warn(first.spec.span, message).help(remedy);
    }
}

/// Warns of `ApiKey` behind a limiter: requests without a valid key are counted before they are refused.
fn late_api_keys(filters: &[ListedFilter<'_>], id: &str, diagnostics: &mut Diagnostics) {
    let is_check = |listed: &&ListedFilter<'_>| matches!(listed.filter, Filter::Plain(PlainFilter::ApiKey(_)));
    let Some(check) = filters.iter().find(is_check) else { return };
    let before = filters.iter().take_while(|listed| !is_check(listed));
    if let Some(limiter) = before.into_iter().find(|listed| listed.filter.counts_requests()) {
        let message = format!(
            "`ApiKey` of route `{id}` is behind `{}`, which counts requests without a valid key",
            limiter.spec.name
        );
        diagnostics.warn(check.spec.span, message).help(format!("list `ApiKey` before `{}`", limiter.spec.name));
    }
}

/// Warns of edits of `Host` without `PreserveHostHeader`: upstreams get the `Host` of their URI.
fn hosts(edits: &[(&Edit, &FilterSpec<'_>)], diagnostics: &mut Diagnostics) {
    if edits.iter().any(|(edit, _)| edit.preserves_host()) {
        return;
    }
    for (_, spec) in edits.iter().filter(|(edit, _)| edit.touches_host()) {
        diagnostics
            .mistake(spec.span, format!("`{}` has no effect: upstreams get the `Host` of their `uri`", spec.text))
            .ineffective()
            .help("use SetRequestHostHeader for another one, PreserveHostHeader for that of the request");
    }
}

/// Warns of a second prefix: Spring adds only the first.
fn prefixes(edits: &[(&Edit, &FilterSpec<'_>)], diagnostics: &mut Diagnostics) {
    for (_, spec) in edits.iter().filter(|(edit, _)| edit.is_prefix_path()).skip(1) {
        diagnostics
            .mistake(spec.span, format!("`{}` has no effect: another PrefixPath is before it", spec.text))
            .ineffective()
            .help("only the first PrefixPath of default-filters and a route's filters applies");
    }
}

/// Warns of headers that are added after their duplicates are removed: responses pass edits in reverse order.
fn duplicates(edits: &[(&Edit, &FilterSpec<'_>)], diagnostics: &mut Diagnostics) {
    for (at, (dedupe, spec)) in edits.iter().enumerate() {
        let added_later = edits[..at]
            .iter()
            .filter_map(|(edit, _)| edit.added_response_header())
            .find(|name| dedupe.deduplicates(name));
        if let Some(name) = added_later {
            diagnostics
                .warn(
                    spec.span,
                    format!(
                        "`{name}` is added after its duplicates are removed: responses pass filters in reverse order"
                    ),
                )
                .help("list DedupeResponseHeader before AddResponseHeader");
        }
    }
}

/// Warns of filters whose key lacks a part that an edit before them has removed, or is the same for all requests.
fn edited_keys(filters: &[ListedFilter<'_>], diagnostics: &mut Diagnostics) {
    for (at, listed) in filters.iter().enumerate() {
        let edit_before = |part: KeyPart<'_>, effect| {
            let before = filters[..at].iter().map(|listed| listed.filter.as_edit());
            key_parts::last_edit(part, before).filter(|(_, last)| *last == effect)
        };
        let name = &listed.spec.name;
        let mut parts = listed.filter.key_resolvers().flat_map(KeyResolver::parts);
        let removed = |part: KeyPart<'_>| edit_before(part, Effect::Removes);
        if let Some((part, edit)) = parts.find_map(|part| Some((part.1, &filters[removed(part)?.0].spec.text))) {
            diagnostics
                .warn(
                    listed.spec.span,
                    format!("`{name}` finds no `{part}` for its key: `{edit}` before it removes it"),
                )
                .help(format!("list `{edit}` after `{name}`"));
            continue;
        }
        let fixed = |part: KeyPart<'_>| edit_before(part, Effect::Fixes);
        let mut resolvers = listed.filter.key_resolvers();
        if let Some(resolver) =
            resolvers.find(|resolver| key_parts::has_one_value(resolver, |part| fixed(part).is_some()))
            && let Some((edit, _)) = resolver.parts().into_iter().find_map(fixed)
        {
            let edit = &filters[edit].spec.name;
            diagnostics
                .warn(listed.spec.span, format!("`{name}` has one key for all requests: `{edit}` before it sets `{resolver}`"))
                .help(format!("list `{edit}` after `{name}`, or limit by another key, such as `ip`; `route` is a key that all requests share"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_is_found_by_its_whole_name() {
        for text in ["/{id}", "a {b} {id}", "{id:x}"] {
            assert!(variables(text).any(|name| name == "id"), "{text}");
        }
        for text in ["/{idx}", "{id_a}", "{id-a}", "id}", "{id", "{xid}"] {
            assert!(variables(text).all(|name| name != "id"), "{text}");
        }
    }
}
