//! One route, read from its node in the tree of the file.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::de::{self, Spanned};
use crate::diagnostics::Diagnostics;
use crate::filters::model::Filter;
use crate::filters::row::FilterContext;
use crate::filters::{self, configure_breaker};
use crate::predicates;
use crate::predicates::condition::Condition;
use crate::predicates::context::PredicateContext;
use crate::routes::filters::{self as route_filters, FilterSlot, ListedFilter, interleave};
use crate::routes::model::{Definition, MaskedDefinition, Route, Target};
use crate::routes::raw_route::{RawRoute, read_metadata};
use crate::sections::upstreams::{UpstreamsByName, balance};
use crate::spec::{Audience, NamedForm, Shortcut, Syntax};
use crate::spring::names::{SKIP, refusal};
use crate::yaml::{Node, NodeKind, Span};
use tollgate_filters::edit::Edit;
use tollgate_routing::Predicate;

/// Syntax of predicates.
pub(crate) const PREDICATE: Syntax =
    Syntax { noun: "predicate", example: "Path=/api/**", takes_bare_names: false, find };
/// Syntax of filters.
const FILTER: Syntax = Syntax { noun: "filter", example: "StripPrefix=1", takes_bare_names: true, find };

/// Returns the form of the arguments of any predicate or filter of Tollgate or Spring.
fn find(name: &str) -> Option<NamedForm> {
    match filters::filters().find(|entry| entry.name == name).map(|entry| entry.args.shortcut) {
        Some(Shortcut::None(_)) => Some(NamedForm::Map),
        Some(_) => Some(NamedForm::Shortcut),
        None => {
            (predicates::names().any(|known| known == name) || refusal(name).is_some()).then_some(NamedForm::Shortcut)
        }
    }
}

/// Returns the filters of `list`, in its order. Reports errors.
pub(super) fn filter_list<'n>(
    list: Option<&'n Node>,
    context: &FilterContext<'_>,
    diagnostics: &mut Diagnostics,
) -> Vec<FilterSlot<'n>> {
    let mut filters = Vec::new();
    for node in items(list) {
        if node.scalar().is_some_and(|text| text.trim() == SKIP) {
            filters.push(None);
        } else if let Ok(spec) = FILTER.parse(node, diagnostics)
            && let Ok(filter) = filters::check(&spec, context, diagnostics)
        {
            filters.push(Some(ListedFilter { filter, spec }));
        }
    }
    filters
}

/// Returns the conditions of `list`. Reports errors.
fn condition_list<'n>(list: Option<&'n Node>, diagnostics: &mut Diagnostics) -> Vec<Condition<'n>> {
    items(list).iter().filter_map(|node| Condition::parse(node, &PREDICATE, diagnostics).ok()).collect()
}

/// Returns the predicates of `list`, each of which stands for itself. Reports errors.
pub(super) fn predicate_list(
    list: Option<&Node>,
    context: &PredicateContext<'_>,
    diagnostics: &mut Diagnostics,
) -> Vec<Predicate> {
    let conditions = condition_list(list, diagnostics);
    conditions.iter().filter_map(|condition| condition.check(context, diagnostics).ok()).collect()
}

/// Returns the items of `list`: none of a blank text, such as `${ROUTES:}`. The deserializer reports values that are no list.
pub(super) fn items(list: Option<&Node>) -> &[Node] {
    match list {
        Some(Node { kind: NodeKind::Seq(items), .. }) => items,
        Some(node @ Node { kind: NodeKind::Scalar(text), .. }) if !text.trim().is_empty() => std::slice::from_ref(node),
        _ => &[],
    }
}

/// Settings that all routes of a file share.
pub(super) struct RouteContext<'r> {
    pub(super) upstreams: &'r UpstreamsByName,
    pub(super) filters: &'r FilterContext<'r>,
    pub(super) predicates: &'r PredicateContext<'r>,
    pub(super) default_filters: &'r [FilterSlot<'r>],
}

/// Reader of the route in `node`.
pub(super) struct RouteReader<'r> {
    pub(super) node: &'r Node,
    /// 0-based position in the file.
    pub(super) position: usize,
    pub(super) context: &'r RouteContext<'r>,
}

impl<'r> RouteReader<'r> {
    /// Returns the route with the place of its id; `None` if it is disabled, or after an error. Reports errors.
    pub(super) fn read(&self, diagnostics: &mut Diagnostics) -> Option<(Route, Span)> {
        if let NodeKind::Scalar(line) = &self.node.kind {
            let (raw, conditions) = self.one_line(line, diagnostics)?;
            return self.route(&raw, &conditions, Vec::new(), diagnostics);
        }
        let (raw, unknown) = de::read::<RawRoute>(self.node, diagnostics);
        unknown.iter().for_each(|unknown| diagnostics.unknown_key(unknown));
        let conditions = self.conditions(diagnostics);
        let filters = self.node.step("filters");
        if let Some(Node { kind: NodeKind::Null, span }) = filters {
            diagnostics
                .warn(span.key(), "`filters` is empty: requests of this route pass no filter of its own")
                .help("indent the list below it, or remove the key");
        }
        let filters = filter_list(filters, self.context.filters, diagnostics);
        let route = self.route(&raw, &conditions, filters, diagnostics);
        route.filter(|_| raw.enabled.get())
    }

    /// Returns the conditions under `predicates`. Reports a route without any.
    fn conditions(&self, diagnostics: &mut Diagnostics) -> Vec<Condition<'r>> {
        let list = self.node.step("predicates");
        if items(list).is_empty() {
            diagnostics
                .error(self.node.span, "route without predicates")
                .help("`predicates: [Path=/**]` matches every request");
        }
        condition_list(list, diagnostics)
    }

    /// Reads `id=uri,Predicate=arg,Predicate=arg`, Spring's route on one line.
    fn one_line(&self, line: &str, diagnostics: &mut Diagnostics) -> Option<(RawRoute, Vec<Condition<'r>>)> {
        let at = self.node.span;
        let Some((id, rest)) = line.split_once('=') else {
            diagnostics
                .error(at, format!("expected a route, found `{line}`"))
                .help("write `id`, `uri` and `predicates`, or on one line `id=uri,Path=/**`");
            return None;
        };
        let mut tokens = rest.split(',').map(str::trim).filter(|token| !token.is_empty());
        let uri = tokens.next().map(|uri| Spanned { value: uri.to_owned(), span: at });
        let mut specs: Vec<_> = tokens.filter_map(|token| PREDICATE.shortcut(token, at, diagnostics).ok()).collect();
        // Positions of arguments count from the start of the text, which here is the whole route.
        specs.iter_mut().flat_map(|spec| &mut spec.args).for_each(|arg| arg.span = at);
        if specs.is_empty() {
            diagnostics.error(at, "route without predicates").help("`id=uri,Path=/**` matches every request");
            return None;
        }
        let id = Some(Spanned { value: id.trim().to_owned(), span: at });
        Some((RawRoute { id, uri, ..RawRoute::default() }, specs.into_iter().map(Condition::One).collect()))
    }

    fn route(
        &self,
        raw: &RawRoute,
        conditions: &[Condition<'_>],
        filters: Vec<FilterSlot<'_>>,
        diagnostics: &mut Diagnostics,
    ) -> Option<(Route, Span)> {
        let (id, uri) = (raw.id.as_ref(), raw.uri.as_ref());
        let context = self.context;
        let id_at = id.map_or(self.node.span, |id| id.span);
        let target = self.target(uri, diagnostics);
        check_id(id, diagnostics);
        let (predicates, is_complete) = self.predicates(conditions, diagnostics);
        let mut merged = interleave(context.default_filters, filters);
        let id: Arc<str> = match id.map(|id| id.value.trim()).filter(|id| !id.is_empty()) {
            Some(id) => id.into(),
            None => self.derived_id(&merged, diagnostics).into(),
        };
        for listed in &mut merged {
            configure_breaker(&mut listed.filter, listed.spec.span, &id, context.filters, diagnostics);
        }
        let moves = merged.iter().filter_map(|listed| listed.filter.as_edit()).any(Edit::changes_path);
        if let Some((Target::Forward(path), uri)) = target.as_ref().zip(uri).filter(|_| !moves) {
            context.filters.forwards.borrow_mut().push((uri.span, path.to_string()));
        }
        if is_complete {
            route_filters::check_variables(&merged, &predicates, &id, diagnostics);
            route_filters::warn_of_conditions(&merged, context.default_filters, (&id, &predicates), diagnostics);
            if let (Some(resolver), Some(uri)) = (target.as_ref().and_then(Target::key_resolver), uri) {
                balance::report_missing_variables(resolver, &predicates, uri.span, diagnostics);
            }
        }
        route_filters::check(&mut merged, &id, id_at, diagnostics);
        let definition = definition(uri, conditions, &mut merged);
        let tls = self.section("tls").and_then(|node| crate::sections::tls::client::check(node, diagnostics));
        let mut route = Route {
            id,
            uri: target?,
            predicates,
            // Thousands of routes stay in memory: their lists have no spare room.
            filters: merged.into_iter().map(|listed| listed.filter).collect::<Box<[_]>>().into_vec(),
            order: raw.order.get(),
            connect_timeout: None,
            response_timeout: None,
            read_timeout: None,
            body_timeout: None,
            tls: tls.map(Arc::new),
            http2: raw.http2,
            cors: None,
            definition,
        };
        let metadata = self.section("metadata");
        if let Some(metadata) = metadata {
            read_metadata(metadata, &mut route, diagnostics);
        }
        let cors = metadata.and_then(|node| node.get("cors"));
        route.cors = crate::sections::cors::of_route(raw.cors.as_ref(), cors, diagnostics);
        Some((route, id_at))
    }

    /// Returns the value of `key`, unless it is null.
    fn section(&self, key: &str) -> Option<&'r Node> {
        self.node.step(key).filter(|node| !matches!(node.kind, NodeKind::Null))
    }

    /// Checks the predicates; true if all are valid.
    fn predicates(&self, conditions: &[Condition<'_>], diagnostics: &mut Diagnostics) -> (Vec<Predicate>, bool) {
        let context = self.context.predicates;
        let mut checked: Vec<_> =
            conditions.iter().filter_map(|condition| condition.check(context, diagnostics).ok()).collect();
        let is_complete = checked.len() == conditions.len();
        if !checked.iter().any(|predicate| predicate.path_patterns().is_some()) {
            checked.extend(context.below_base());
        }
        checked.shrink_to_fit();
        (checked, is_complete)
    }

    fn target(&self, uri: Option<&Spanned<String>>, diagnostics: &mut Diagnostics) -> Option<Target> {
        let Some(uri) = uri else {
            diagnostics.error(self.node.span, "route without `uri`").help("write its target: `uri: http://host:port`");
            return None;
        };
        self.context.filters.switches.refuse_target(&uri.value, uri.span, diagnostics).ok()?;
        crate::routes::target::check(uri, self.context.upstreams, diagnostics)
    }

    /// Returns the id of a route without one. Warns if limits or counts depend on it.
    fn derived_id(&self, filters: &[ListedFilter<'_>], diagnostics: &mut Diagnostics) -> String {
        let derived = format!("route-{}", self.position);
        let limits = |filter: &Filter| matches!(filter, Filter::RequestRateLimiter(_) | Filter::ConcurrencyLimiter(_));
        let counts = |filter: &Filter| matches!(filter, Filter::RequestCounter(counter) if counter.bucket.is_none());
        let is_limited = filters.iter().any(|listed| limits(&listed.filter));
        if is_limited || filters.iter().any(|listed| counts(&listed.filter)) {
            let (kind, state) = if is_limited { ("limited", "limits") } else { ("metered", "counts") };
            diagnostics
                .warn(
                    self.node.span,
                    format!("a {kind} route without `id` is counted as `{derived}`, by its position in the file"),
                )
                .help(format!("give it an id: otherwise moving it swaps its {state} with another route's"));
        }
        derived
    }
}

/// Reports an id with a `#`, which separates the route from the limiter in the names of buckets.
fn check_id(id: Option<&Spanned<String>>, diagnostics: &mut Diagnostics) {
    if let Some(id) = id.filter(|id| id.value.contains('#')) {
        diagnostics
            .error(
                id.span,
                format!("route id `{}` contains `#`, which separates ids from limiters in bucket names", id.value),
            )
            .help(format!("write `{}`", id.value.replace('#', "-")));
    }
}

/// Returns the definition of a route. Takes the texts of its filters.
fn definition(
    uri: Option<&Spanned<String>>,
    conditions: &[Condition<'_>],
    filters: &mut [ListedFilter<'_>],
) -> Definition {
    let [shell, network] = [Audience::Shell, Audience::Network].map(|audience| MaskedDefinition {
        predicates: conditions.iter().map(|condition| condition.text(&|spec| spec.masked_text(audience))).collect(),
        filters: filters.iter().map(|listed| listed.spec.masked_text(audience)).collect(),
        arguments: filters.iter().map(|listed| listed.spec.masked_arguments(audience)).collect(),
    });
    let plain = MaskedDefinition {
        predicates: conditions.iter().map(|condition| condition.text(&|spec| spec.text.clone())).collect(),
        arguments: filters.iter().map(|listed| listed.spec.named_arguments()).collect(),
        filters: filters.iter_mut().map(|listed| std::mem::take(&mut listed.spec.text)).collect(),
    };
    let masked = (shell != plain || network != plain).then(|| Box::new([shell, network]));
    let MaskedDefinition { predicates, filters, arguments } = plain;
    let uri = uri.map(|uri| uri.value.clone()).unwrap_or_default();
    Definition { uri, predicates, filters, arguments, masked, metadata: BTreeMap::new() }
}
