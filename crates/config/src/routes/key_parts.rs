//! Parts of keys that requests lose on their way: by edits, and by a `forward:` to the route of a limit.

use std::net::{IpAddr, Ipv4Addr};

use http::{HeaderMap, Method, Uri};
use tollgate_filters::edit::Edit;
use tollgate_filters::key_resolver::{KeyResolver, KeySource};
use tollgate_filters::request_rate_limiter::OnLimit;
use tollgate_routing::{PathPattern, Predicate, RequestView, RouteTable};

use crate::diagnostics::Diagnostics;
use crate::filters::model::Filter;
use crate::routes::model::{Route, Target};
use crate::spec::Audience;
use crate::yaml::Span;

/// Part of a key: its source, and the resolver that reads it alone.
pub(super) type KeyPart<'r> = (KeySource<'r>, &'r KeyResolver);

/// Effect of an edit on a part of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    Removes,
    Sets,
    /// Sets it to the same value for all requests.
    Fixes,
}

impl Effect {
    fn of(edit: &Edit, (source, resolver): KeyPart<'_>) -> Option<Self> {
        let headers = resolver.headers();
        let query = if let KeySource::Query(name) = source { Some(name) } else { None };
        let removes = edit.removed_header().is_some_and(|name| headers.contains(&name))
            || query.is_some_and(|name| edit.removes_parameter(name));
        let fixes = edit.fixed_header().is_some_and(|name| headers.contains(&name))
            || query.is_some_and(|name| edit.fixes_parameter(name));
        let sets = edit.set_headers().iter().any(|name| headers.contains(name))
            || query.is_some_and(|name| edit.adds_parameter(name));
        let effects = [(removes, Self::Removes), (fixes, Self::Fixes), (sets, Self::Sets)];
        effects.into_iter().find_map(|(applies, effect)| applies.then_some(effect))
    }
}

/// Returns the last of `edits` that has an effect on `part`: its position and the effect. `None` stands for other filters.
pub(super) fn last_edit<'e>(
    part: KeyPart<'_>,
    edits: impl DoubleEndedIterator<Item = Option<&'e Edit>> + ExactSizeIterator,
) -> Option<(usize, Effect)> {
    edits.enumerate().rev().find_map(|(at, edit)| Some((at, Effect::of(edit?, part)?)))
}

/// Table of routes by their conditions on the path.
pub(super) struct Paths<'r>(RouteTable<&'r Route>);

impl<'r> Paths<'r> {
    pub(super) fn of(routes: impl Iterator<Item = &'r Route>) -> Self {
        Self(RouteTable::new(routes.map(|route| (path_predicates(route), route)).collect()))
    }

    /// Returns the first route whose conditions on the path hold for `path`.
    pub(super) fn find(&self, path: &str) -> Option<&'r Route> {
        let (uri, headers) = (path.parse::<Uri>().ok()?, HeaderMap::new());
        let view = RequestView::new(&Method::GET, &uri, &headers, IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
        self.0.find(&view).ok().flatten().map(|entry| *entry.value)
    }
}

/// Returns the conditions of a route on the path, which ignore a `/` at the end.
fn path_predicates(route: &Route) -> Vec<Predicate> {
    let texts = |patterns: &[PathPattern]| patterns.iter().map(ToString::to_string).collect::<Vec<_>>();
    let paths = route.predicates.iter().filter_map(Predicate::path_patterns);
    paths.filter_map(|patterns| Predicate::path(&texts(patterns), true).ok()).collect()
}

/// Forward of requests within the gateway.
struct Forwarding<'r> {
    path: &'r str,
    /// Number of filters that requests have passed.
    passed: usize,
}

/// Upper bound of the forwards after which a request is no longer followed.
pub(super) const MAX_FOLLOWED: usize = 8;

/// Returns the forwards of a route to a path that is the same for all its requests.
fn forwards(route: &Route) -> impl Iterator<Item = Forwarding<'_>> {
    let of_filters = route.filters.iter().enumerate().filter_map(|(passed, filter)| {
        let path = if let Filter::CircuitBreaker(breaker) = filter {
            breaker.fallback.as_ref()?.fixed_path.as_deref()?
        } else if let Filter::RequestRateLimiter(limiter) = filter
            && let OnLimit::Forward(path) = &limiter.settings.on_limit
        {
            path
        } else {
            return None;
        };
        Some(Forwarding { path, passed })
    });
    let moves = || route.filters.iter().filter_map(Filter::as_edit).any(Edit::changes_path);
    let target = if let Target::Forward(path) = &route.uri { Some(path) } else { None };
    let target = target.filter(|_| !moves()).map(|path| Forwarding { path, passed: route.filters.len() });
    of_filters.chain(target)
}

/// Warns of filters whose key lacks a part in requests that another route forwards to theirs, or is the same in all of them.
pub(super) fn report_forwarded(routes: &[(Route, Span)], diagnostics: &mut Diagnostics) {
    let mut forwarding = routes.iter().filter(|(route, _)| forwards(route).next().is_some()).peekable();
    if forwarding.peek().is_none() {
        return;
    }
    let paths = Paths::of(routes.iter().map(|(route, _)| route));
    for (route, at) in forwarding {
        for forward in forwards(route) {
            let mut path = forward.path;
            for _ in 0..MAX_FOLLOWED {
                let Some(target) = paths.find(path).filter(|target| target.id != route.id) else { break };
                report_forward(route, *at, &Forwarding { path, ..forward }, target, diagnostics);
                let Target::Forward(next) = &target.uri else { break };
                path = next;
            }
        }
    }
}

fn report_forward(route: &Route, at: Span, forward: &Forwarding<'_>, target: &Route, diagnostics: &mut Diagnostics) {
    let (id, target_id, path) = (&route.id, &target.id, forward.path);
    let conditions = target.predicates.iter().filter(|predicate| predicate.path_patterns().is_some());
    let in_path: Vec<_> = conditions.flat_map(Predicate::variable_names).collect();
    let edit_text = |at: usize| route.definition.masked_filters(Audience::Shell).get(at);
    for (position, filter) in target.filters.iter().enumerate() {
        let edits = |filters: &[Filter], part: KeyPart<'_>| last_edit(part, filters.iter().map(Filter::as_edit));
        // An edit of the route itself has the last word, and its check has reported it.
        let edit_on_the_way = |part: KeyPart<'_>| match edits(&target.filters[..position], part) {
            None => edits(&route.filters[..forward.passed], part),
            Some(_) => None,
        };
        for resolver in filter.key_resolvers() {
            let mut lost = resolver.parts().into_iter().filter_map(|part| match edit_on_the_way(part)? {
                (edit, Effect::Removes) => Some((part.1, edit_text(edit)?)),
                (_, Effect::Sets | Effect::Fixes) => None,
            });
            if let Some((part, edit)) = lost.next() {
                diagnostics
                    .warn(at, format!("route `{target_id}` finds no `{part}` for a key in requests that route `{id}` forwards to `{path}`: `{edit}` removes it"))
                    .help(format!("remove it in route `{target_id}`, after the filter that reads it"));
            }
            let is_of_path = |source: KeySource<'_>| {
                source == KeySource::Path || matches!(source, KeySource::Variable(name) if in_path.contains(&name))
            };
            let fixing = |part: KeyPart<'_>| edit_on_the_way(part).filter(|(_, effect)| *effect == Effect::Fixes);
            let is_same = |part: KeyPart<'_>| is_of_path(part.0) || fixing(part).is_some();
            if has_one_value(resolver, is_same) {
                let edit = resolver.parts().into_iter().find_map(fixing).and_then(|(edit, _)| edit_text(edit));
                let why =
                    edit.map_or_else(|| "is read from that path".to_owned(), |edit| format!("is set by `{edit}`"));
                diagnostics
                    .warn(at, format!("route `{target_id}` has one key for all requests that route `{id}` forwards to `{path}`: `{resolver}` {why}"))
                    .help(format!("limit them in route `{id}`, or by another key, such as `ip`"));
            }
        }
    }
}

/// Returns true if the key that `resolver` reads is the same in all requests of a route, since `is_same` holds for its parts.
pub(super) fn has_one_value(resolver: &KeyResolver, is_same: impl FnMut(KeyPart<'_>) -> bool) -> bool {
    let mut others = resolver.parts().into_iter().filter(|part| part.0 != KeySource::Route).peekable();
    others.peek().is_some() && others.all(is_same)
}
