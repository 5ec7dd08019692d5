//! One route.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::de;
use crate::de::nodes::Nodes;
use crate::de::spanned::Spanned;
use crate::diagnostics::{Diagnostics, suggest};
use crate::filters::configure_breaker;
use crate::filters::context::FilterContext;
use crate::filters::edit_checks;
use crate::filters::model::Filter;
use crate::predicates::condition::Condition;
use crate::predicates::context::PredicateContext;
use crate::routes::list::{FilterSlot, ListedFilter, PREDICATE, filter_list, interleave};
use crate::routes::metadata::read_metadata;
use crate::routes::model::{Definition, MaskedDefinition, Route, Target};
use crate::routes::raw::RawRoute;
use crate::routes::removed_keys;
use crate::routes::response_cache::{keep_last, note_uncounted_hits};
use crate::sections::upstreams::{Named, balance};
use crate::spec::definition::Spec;
use crate::switches::Switches;
use crate::yaml::{Node, NodeKind, Span};
use tollgate_filters::edit::Edit;
use tollgate_routing::Predicate;

/// Settings that all routes of a file share.
pub(super) struct RouteContext<'r> {
    pub(super) nodes: &'r Nodes<'r>,
    pub(super) switches: &'r Switches,
    pub(super) upstreams: &'r Named,
    pub(super) filters: &'r FilterContext<'r>,
    pub(super) predicates: &'r PredicateContext<'r>,
    pub(super) default_filters: &'r [FilterSlot],
}

/// Reads the route in `node`.
pub(super) struct RouteReader<'r> {
    pub(super) node: &'r Node,
    /// 0-based position in the file.
    pub(super) position: usize,
    pub(super) context: &'r RouteContext<'r>,
}

/// A route and the place of its id; `None` after an error.
type Read = Option<(Route, Span)>;

/// Parts of a route that both of its forms have.
struct Parts<'p> {
    id: Option<&'p Spanned<String>>,
    uri: Option<&'p Spanned<String>>,
    predicates: &'p [Condition],
    filters: Vec<FilterSlot>,
}

impl RouteReader<'_> {
    /// Reads the route, and whether it is enabled. Reports errors.
    pub(super) fn read(&self, diagnostics: &mut Diagnostics) -> (Read, bool) {
        match &self.node.kind {
            NodeKind::Scalar(line) => (self.one_line(line, diagnostics), true),
            _ => self.full(diagnostics),
        }
    }

    fn full(&self, diagnostics: &mut Diagnostics) -> (Read, bool) {
        let (raw, unknown) = de::read::<RawRoute>(self.node, diagnostics);
        unknown.iter().for_each(|unknown| diagnostics.unknown_key(unknown));
        let RouteContext { nodes, switches, filters, .. } = self.context;
        let predicates = self.conditions(&raw, diagnostics);
        if let Some(empty) = self.node.get("filters").filter(|node| matches!(node.kind, NodeKind::Null)) {
            diagnostics
                .warn(empty.span.key(), "`filters` is empty: requests of this route pass no filter of its own")
                .help("indent the list below it, or remove the key");
        }
        let filters = filter_list(&raw.filters, nodes, filters, switches, diagnostics);
        let parts = Parts { id: raw.id.as_ref(), uri: raw.uri.as_ref(), predicates: &predicates, filters };
        let route = self.route(parts, diagnostics);
        let read = route.map(|(mut route, at)| {
            route.order = raw.order;
            let tls = raw.tls.and_then(|node| nodes.get(node));
            route.tls = tls.and_then(|node| crate::sections::tls::client::check(node, diagnostics)).map(Arc::new);
            route.http2 = raw.http2;
            let metadata = raw.metadata.and_then(|node| nodes.get(node));
            if let Some(metadata) = metadata {
                read_metadata(metadata, &mut route, diagnostics);
            }
            let cors = metadata.and_then(|node| node.get("cors"));
            route.cors = crate::sections::cors::of_route(raw.cors.as_ref(), cors, diagnostics);
            (route, at)
        });
        (read, raw.enabled.unwrap_or(true))
    }

    /// Returns the conditions under `predicates`. Reports a route without any.
    fn conditions(&self, raw: &RawRoute, diagnostics: &mut Diagnostics) -> Vec<Condition> {
        let list = raw.predicates.as_deref().unwrap_or_default();
        if list.is_empty() {
            diagnostics
                .error(self.node.span, "route without predicates")
                .help("`predicates: [Path=/**]` matches every request");
        }
        let nodes = list.iter().filter_map(|node| self.context.nodes.get(*node));
        nodes.filter_map(|node| Condition::parse(node, &PREDICATE, diagnostics).ok()).collect()
    }

    /// Reads `id=uri,Predicate=arg,Predicate=arg`, Spring's route on one line.
    fn one_line(&self, line: &str, diagnostics: &mut Diagnostics) -> Read {
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
        let id = Spanned { value: id.trim().to_owned(), span: at };
        let predicates: Vec<Condition> = specs.into_iter().map(Condition::One).collect();
        let parts = Parts { id: Some(&id), uri: uri.as_ref(), predicates: &predicates, filters: Vec::new() };
        self.route(parts, diagnostics)
    }

    fn route(&self, parts: Parts<'_>, diagnostics: &mut Diagnostics) -> Read {
        let Parts { id, uri, predicates, filters } = parts;
        let context = self.context;
        let id_at = id.map_or(self.node.span, |id| id.span);
        let target = self.target(uri, diagnostics);
        check_id(id, diagnostics);
        let (checked, is_complete) = self.predicates(predicates, diagnostics);
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
            merged.iter().for_each(|listed| check_variables(listed, &checked, &id, diagnostics));
            if let (Some(resolver), Some(uri)) = (target.as_ref().and_then(Target::key_resolver), uri) {
                balance::report_missing_variables(resolver, &checked, uri.span, diagnostics);
            }
        }
        keep_last(&mut merged, |listed| &listed.filter, &id, id_at, diagnostics);
        note_uncounted_hits(&merged, &id, diagnostics);
        check_edits(&merged, diagnostics);
        removed_keys::check(&merged, diagnostics);
        let masked = MaskedDefinition {
            predicates: predicates.iter().map(|predicate| predicate.text(&Spec::masked_text)).collect(),
            filters: merged.iter().map(|listed| listed.spec.masked_text()).collect(),
            arguments: merged.iter().map(|listed| listed.spec.masked_arguments()).collect(),
        };
        let arguments = merged.iter().map(|listed| listed.spec.named_arguments()).collect();
        // Thousands of routes stay in memory: their lists have no spare room.
        let (mut filters, mut texts) = (Vec::with_capacity(merged.len()), Vec::with_capacity(merged.len()));
        for listed in merged {
            filters.push(listed.filter);
            texts.push(listed.spec.text);
        }
        let plain = MaskedDefinition {
            predicates: predicates.iter().map(|predicate| predicate.text(&|spec| spec.text.clone())).collect(),
            filters: texts,
            arguments,
        };
        let masked = (masked != plain).then(|| Box::new(masked));
        let route = Route {
            id,
            uri: target?,
            predicates: checked,
            filters,
            order: 0,
            connect_timeout: None,
            response_timeout: None,
            read_timeout: None,
            body_timeout: None,
            tls: None,
            http2: None,
            cors: None,
            definition: Definition {
                uri: uri.map(|uri| uri.value.clone()).unwrap_or_default(),
                predicates: plain.predicates,
                filters: plain.filters,
                arguments: plain.arguments,
                masked,
                metadata: BTreeMap::new(),
            },
        };
        Some((route, id_at))
    }

    /// Checks the predicates; true if all are valid.
    fn predicates(&self, conditions: &[Condition], diagnostics: &mut Diagnostics) -> (Vec<Predicate>, bool) {
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
        self.context.switches.refuse_target(&uri.value, uri.span, diagnostics).ok()?;
        crate::routes::target::check(uri, self.context.upstreams, diagnostics)
    }

    /// Returns the id of a route without one. Warns if limits or counts depend on it.
    fn derived_id(&self, filters: &[ListedFilter], diagnostics: &mut Diagnostics) -> String {
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

/// Reports edits of the route that have no effect or an unexpected one.
fn check_edits(filters: &[ListedFilter], diagnostics: &mut Diagnostics) {
    let edits = filters.iter().filter_map(|listed| listed.filter.as_edit().map(|edit| (edit, &listed.spec)));
    edit_checks::check(&edits.collect::<Vec<_>>(), diagnostics);
}

/// Reports variables of a filter that no pattern of its route sets.
fn check_variables(listed: &ListedFilter, predicates: &[Predicate], route: &str, diagnostics: &mut Diagnostics) {
    let known: Vec<&str> = predicates.iter().flat_map(Predicate::variable_names).collect();
    let spec = &listed.spec;
    for name in listed.filter.properties().variables.into_iter().filter(|name| !known.contains(name)) {
        let arg = spec.args.iter().find(|arg| arg.value.contains(&format!("{{{name}")));
        let at = arg.map_or(spec.span, |arg| arg.span);
        let outcome = listed.filter.without_variable();
        diagnostics
            .mistake(at, format!("no `Path` or `Host` of route `{route}` has the variable `{{{name}}}`: {outcome}"))
            .help(if known.is_empty() { format!("`Path=/{{{name}}}/**` sets it") } else { suggest(name, &known) });
    }
}
