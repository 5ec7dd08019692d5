//! Routes and default-filters.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use crate::de::arg::flatten;
use crate::de::nodes::Nodes;
use crate::de::spanned::{NodeRef, Spanned};
use crate::de::units::parse_time;
use crate::de::{self, canonical};
use crate::diagnostics::{Diagnostics, suggest};
use crate::filters;
use crate::filters::Settings;
use crate::filters::forward;
use crate::model::{Definition, Filter, Http2, Route, Target};
use crate::predicates::raw::{RawApiVersion, RawPredicateSettings};
use crate::predicates::{self, Condition};
use crate::routes::raw::RawRoute;
use crate::sections::upstreams;
use crate::spring::spec::{self, Written};
use crate::spring::switches;
use crate::yaml::{Kind, Node, Span};
use tollgate_routing::Predicate;

/// The sections that routes are read from.
#[derive(Clone, Copy)]
pub(crate) struct Sections<'s> {
    pub(crate) routes: &'s [NodeRef],
    pub(crate) default_filters: &'s [NodeRef],
    pub(crate) predicate: &'s RawPredicateSettings,
    pub(crate) base_path: Option<&'s Spanned<String>>,
    pub(crate) api_version: Option<&'s Spanned<RawApiVersion>>,
    /// `fail-on-route-definition-error`.
    pub(crate) fail_on_error: bool,
}

/// Every enabled route in the order in which they are tried.
pub(crate) fn check(raw: Sections<'_>, settings: &Settings<'_>, diagnostics: &mut Diagnostics) -> Vec<Route> {
    let nodes = settings.nodes;
    let defaults = listed(raw.default_filters, settings, diagnostics);
    let predicates =
        predicates::Settings::check(raw.predicate, raw.base_path, raw.api_version, settings.switches, diagnostics);
    let mut weights = predicates::Groups::default();
    let mut seen: HashMap<String, ()> = HashMap::new();
    let mut routes = Vec::with_capacity(raw.routes.len());
    for (position, whole) in raw.routes.iter().enumerate() {
        let Some(node) = nodes.get(*whole) else { continue };
        let reading = Reading { node, nodes, settings, predicates: &predicates, defaults: &defaults };
        let mark = diagnostics.mark();
        let (route, enabled) = match &node.kind {
            Kind::Scalar(line) => (reading.one_line(line, position, diagnostics), true),
            _ => reading.full(position, diagnostics),
        };
        if !raw.fail_on_error && diagnostics.demote_errors(mark) {
            diagnostics
                .warn(node.span, format!("the route `{}` has errors and is left out", name(node, position)))
                .help("`fail-on-route-definition-error: true` refuses the file instead");
            continue;
        }
        let Some((route, id_at)) = route else { continue };
        if !enabled {
            continue;
        }
        if seen.insert(route.id.to_string(), ()).is_some() {
            diagnostics
                .error(id_at, format!("a route with the id `{}` stands above", route.id))
                .help("limits are counted by id: give each route its own");
        }
        weights.add(&route.id, &route.predicates, id_at);
        routes.push(route);
    }
    // Errors may have taken routes out of their groups.
    if !diagnostics.has_errors() {
        weights.check(diagnostics);
    }
    if raw.routes.is_empty() && !diagnostics.has_errors() {
        diagnostics
            .warn(Span::ROOT, "no routes: every request is answered 404")
            .help("a smallest one: `routes: [{id: all, uri: \"echo:\", predicates: [Path=/**]}]`");
    }
    routes.sort_by_key(|route| route.order);
    routes
}

/// What a route that may be beyond reading is called.
fn name(node: &Node, position: usize) -> String {
    let id = match &node.kind {
        Kind::Scalar(line) => line.split_once('=').map(|(id, _)| id.trim()),
        _ => node.get("id").and_then(Node::scalar),
    };
    id.map_or_else(|| format!("route-{position}"), str::to_owned)
}

/// Filters as they run, in their order.
type Filters = Vec<Listed>;

/// A filter, as it runs and as it is written.
#[derive(Clone)]
struct Listed {
    filter: Filter,
    written: Written,
}

fn listed(wholes: &[NodeRef], settings: &Settings<'_>, diagnostics: &mut Diagnostics) -> Filters {
    let mut list = Vec::with_capacity(wholes.len());
    for node in wholes.iter().filter_map(|whole| settings.nodes.get(*whole)) {
        if let Some(written) = spec::parse(node, "filter", settings.names, diagnostics)
            && !settings.switches.refuse(switches::Kind::Filter, &written, diagnostics)
            && let Some(filter) = filters::check(&written, settings, diagnostics)
        {
            list.push(Listed { filter, written });
        }
    }
    list
}

/// Spring numbers each list from 1 and merges them by number, the default filter first: d1 r1 d2 r2 … Filters that
/// have an order of their own keep it.
fn interleave(defaults: &Filters, own: Filters) -> Filters {
    let mut merged = Vec::with_capacity(defaults.len() + own.len());
    let mut defaults = defaults.iter().cloned();
    for filter in own {
        merged.extend(defaults.next());
        merged.push(filter);
    }
    merged.extend(defaults);
    merged.sort_by_key(|listed| listed.filter.place());
    merged
}

struct Reading<'r> {
    node: &'r Node,
    nodes: &'r Nodes<'r>,
    settings: &'r Settings<'r>,
    predicates: &'r predicates::Settings<'r>,
    defaults: &'r Filters,
}

/// A route and the place of its id.
type Read = Option<(Route, Span)>;

impl Reading<'_> {
    fn full(&self, position: usize, diagnostics: &mut Diagnostics) -> (Read, bool) {
        let (raw, unknown) = de::read::<RawRoute>(self.node, diagnostics);
        for unknown in &unknown {
            de::report_unknown(unknown, diagnostics);
        }
        let predicates = match raw.predicates.as_deref() {
            None | Some([]) => {
                diagnostics
                    .error(self.node.span, "route without predicates")
                    .help("`predicates: [Path=/**]` matches every request");
                None
            }
            Some(wholes) => {
                let nodes = wholes.iter().filter_map(|whole| self.nodes.get(*whole));
                let written: Vec<Condition> =
                    nodes.filter_map(|node| Condition::parse(node, self.settings.names, diagnostics)).collect();
                Some(written)
            }
        };
        let own = listed(&raw.filters, self.settings, diagnostics);
        let read =
            self.route(raw.id.as_ref(), raw.uri.as_ref(), &predicates.unwrap_or_default(), own, position, diagnostics);
        let read = read.map(|(mut route, at)| {
            route.order = raw.order;
            let tls = raw.tls.and_then(|whole| self.nodes.get(whole));
            route.tls = tls.and_then(|node| crate::sections::http_client::tls(node, diagnostics)).map(Arc::new);
            route.http2 = raw.http2.map(Into::into);
            let metadata = raw.metadata.and_then(|whole| self.nodes.get(whole));
            if let Some(metadata) = metadata {
                self::metadata(metadata, &mut route, diagnostics);
            }
            route.cors = crate::sections::cors::of_route(
                raw.cors.as_ref(),
                metadata.and_then(|node| node.get("cors")),
                diagnostics,
            );
            (route, at)
        });
        (read, raw.enabled.unwrap_or(true))
    }

    /// `id=uri,Predicate=arg,Predicate=arg`: Spring's route on one line.
    fn one_line(&self, line: &str, position: usize, diagnostics: &mut Diagnostics) -> Read {
        let at = self.node.span;
        let Some((id, rest)) = line.split_once('=') else {
            diagnostics
                .error(at, format!("expected a route, found `{line}`"))
                .help("write `id`, `uri` and `predicates`, or on one line `id=uri,Path=/**`");
            return None;
        };
        let mut tokens = rest.split(',').map(str::trim).filter(|token| !token.is_empty());
        let uri = tokens.next().map(|uri| Spanned { value: uri.to_owned(), span: at });
        let mut written: Vec<Written> = tokens
            .filter_map(|token| spec::shortcut(token, at, "predicate", self.settings.names, diagnostics))
            .collect();
        // Arguments are counted from the beginning of a text, which here is the route's.
        written.iter_mut().flat_map(|written| &mut written.args).for_each(|arg| arg.span = at);
        if written.is_empty() {
            diagnostics.error(at, "route without predicates").help("`id=uri,Path=/**` matches every request");
            return None;
        }
        let id = Spanned { value: id.trim().to_owned(), span: at };
        let conditions: Vec<Condition> = written.into_iter().map(Condition::One).collect();
        self.route(Some(&id), uri.as_ref(), &conditions, Vec::new(), position, diagnostics)
    }

    fn route(
        &self,
        id: Option<&Spanned<String>>,
        uri: Option<&Spanned<String>>,
        predicates: &[Condition],
        own: Filters,
        position: usize,
        diagnostics: &mut Diagnostics,
    ) -> Read {
        let switches = self.settings.switches;
        let id_at = id.map_or(self.node.span, |id| id.span);
        let target = match uri {
            Some(uri) if switches.refuse_target(&uri.value, uri.span, diagnostics) => None,
            Some(uri) => crate::routes::target::check(uri, &self.settings.upstreams, diagnostics),
            None => {
                diagnostics
                    .error(self.node.span, "route without `uri`")
                    .help("`uri: http://host:port` says where it leads");
                None
            }
        };
        if let Some(id) = id.filter(|id| id.value.contains('#')) {
            diagnostics
                .error(id.span, format!("the id `{}` holds a `#`, which tells a route's limiters apart", id.value))
                .help(format!("`{}` can stand for it", id.value.replace('#', "-")));
        }
        let mut checked: Vec<_> =
            predicates.iter().filter_map(|condition| condition.check(self.predicates, diagnostics)).collect();
        let is_whole = checked.len() == predicates.len();
        if !checked.iter().any(|predicate| predicate.path_patterns().is_some()) {
            checked.extend(self.predicates.below_base());
        }
        let mut merged = interleave(self.defaults, own);
        let limiters = merged.iter().filter(|listed| matches!(listed.filter, Filter::RequestRateLimiter(_))).count();
        let is_limited =
            limiters > 0 || merged.iter().any(|listed| matches!(listed.filter, Filter::ConcurrencyLimiter(_)));
        let id: Arc<str> = match id.map(|id| id.value.trim()).filter(|id| !id.is_empty()) {
            Some(id) => id.into(),
            None => {
                let derived = format!("route-{position}");
                let counts =
                    |filter: &Filter| matches!(filter, Filter::RequestCounter(counter) if counter.bucket.is_none());
                if is_limited || merged.iter().any(|listed| counts(&listed.filter)) {
                    let (what, state) = if is_limited { ("limited", "limits") } else { ("metered", "counts") };
                    diagnostics
                        .warn(
                            self.node.span,
                            format!(
                                "a {what} route without `id` is counted as `{derived}`, by its position in the file"
                            ),
                        )
                        .help(format!(
                            "give it an id: moving it would otherwise swap its {state} with another route's"
                        ));
                }
                derived.into()
            }
        };
        if limiters > 1 && diagnostics.is_spring {
            diagnostics.info(id_at, format!("route `{id}` has {limiters} limiters: each has its own bucket here, in Spring the last one's settings hold for all"));
        }
        for listed in &mut merged {
            filters::bind(&mut listed.filter, listed.written.span, &id, self.settings, diagnostics);
        }
        let moves = merged.iter().any(|listed| forward::changes_path(&listed.written.name));
        if let Some((Target::Forward(path), uri)) = target.as_ref().zip(uri).filter(|_| !moves) {
            self.settings.forwards.borrow_mut().push((uri.span, path.to_string()));
        }
        if is_whole {
            merged.iter().for_each(|listed| variables(listed, &checked, &id, diagnostics));
            if let (Some(target), Some(uri)) = (&target, uri) {
                upstreams::variables(target, &checked, uri.span, diagnostics);
            }
        }
        crate::routes::response_cache::leave_one(&mut merged, |listed| &listed.filter, &id, id_at, diagnostics);
        let edits = merged.iter().filter_map(|listed| match &listed.filter {
            Filter::Edit(edit) => Some((edit, &listed.written)),
            _ => None,
        });
        crate::filters::edit_checks::check(&edits.collect::<Vec<_>>(), diagnostics);
        let (filters, texts): (Vec<_>, Vec<_>) =
            merged.into_iter().map(|listed| (listed.filter, listed.written.text)).unzip();
        let definition = Definition {
            uri: uri.map(|uri| uri.value.clone()).unwrap_or_default(),
            predicates: predicates.iter().map(Condition::text).collect(),
            filters: texts,
            metadata: BTreeMap::new(),
        };
        let route = Route {
            id,
            uri: target?,
            predicates: checked,
            filters,
            order: 0,
            connect_timeout: None,
            response_timeout: None,
            tls: None,
            http2: None,
            cors: None,
            definition,
        };
        Some((route, id_at))
    }
}

/// Complains about variables of a filter that no pattern of its route gives a value to.
fn variables(listed: &Listed, predicates: &[Predicate], route: &str, diagnostics: &mut Diagnostics) {
    let known: Vec<&str> = predicates.iter().flat_map(Predicate::variable_names).collect();
    let written = &listed.written;
    for name in listed.filter.variables().into_iter().filter(|name| !known.contains(name)) {
        let arg = written.args.iter().find(|arg| arg.value.contains(&format!("{{{name}")));
        let at = arg.map_or(written.span, |arg| arg.span);
        let outcome = match &listed.filter {
            Filter::Edit(edit) if edit.runs_last() => "requests keep their target",
            Filter::Edit(_) => "every request is answered 500",
            Filter::CircuitBreaker(_) => "the fallback is answered 500",
            _ => "no request has a key",
        };
        diagnostics
            .mistake(at, format!("no `Path` or `Host` of route `{route}` has the variable `{{{name}}}`: {outcome}"))
            .help(if known.is_empty() {
                format!("`Path=/{{{name}}}/**` gives it a value")
            } else {
                suggest(name, &known)
            });
    }
}

/// The keys of `metadata` that mean something: timeouts in milliseconds, looked up as they are written.
fn metadata(node: &Node, route: &mut Route, diagnostics: &mut Diagnostics) {
    if !matches!(node.kind, Kind::Map(_)) {
        diagnostics.error(node.span, format!("expected a map, found {}", node.describe()));
        return;
    }
    if let Some(tls) = node.get("tls") {
        route.tls = crate::sections::http_client::tls(tls, diagnostics).map(Arc::new);
    }
    let mut entries = Vec::new();
    flatten("", node, &mut entries);
    for entry in entries {
        let name = entry.name.unwrap_or_default();
        match name.as_str() {
            "connect-timeout" => match parse_time(&entry.value) {
                Ok(time) if time > Duration::ZERO => route.connect_timeout = Some(time),
                _ => diagnostics
                    .mistake(
                        entry.span,
                        format!("`{name}` must be a time above 0 in milliseconds, found `{}`", entry.value),
                    )
                    .ineffective()
                    .help("write milliseconds, or a time such as `5s`"),
            },
            "response-timeout" if entry.value.trim().parse::<i64>().is_ok_and(|millis| millis < 0) => {
                route.response_timeout = Some(None)
            }
            "response-timeout" => match parse_time(&entry.value) {
                Ok(time) if time > Duration::ZERO => route.response_timeout = Some(Some(time)),
                _ => diagnostics
                    .mistake(
                        entry.span,
                        format!("`{name}` must be a time in milliseconds, negative for none, found `{}`", entry.value),
                    )
                    .ineffective()
                    .help("write milliseconds, or a time such as `5s`"),
            },
            _ if ["connecttimeout", "responsetimeout"].contains(&canonical(&name).as_str()) => {
                diagnostics
                    .mistake(entry.span.key(), format!("`{name}` in metadata does nothing"))
                    .help("metadata is looked up literally: write it with `-` in lower case");
            }
            "http2" => match entry.value.trim() {
                "auto" => route.http2 = Some(Http2::Auto),
                "off" | "false" => route.http2 = Some(Http2::Off),
                "prior-knowledge" => route.http2 = Some(Http2::PriorKnowledge),
                other => diagnostics
                    .mistake(entry.span, format!("`http2` must be auto, off or prior-knowledge, found `{other}`"))
                    .help("`prior-knowledge` speaks HTTP/2 without TLS, too"),
            },
            _ => {}
        }
        route.definition.metadata.insert(name, entry.value);
    }
}
