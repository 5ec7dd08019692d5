//! Stand-ins for the filters of an application: `filter-beans`, and Spring's filters that have nothing to do here.
//!
//! They are put into the lists of filters before these are read, so that `migrate` writes the result.

use std::collections::HashMap;

use crate::Form;
use crate::limiter_bean;
use crate::names::SKIP;
use crate::tree::filter_lists;
use tollgate_document::diagnostics::Diagnostics;
use tollgate_document::yaml::key::{canonical, same_name};
use tollgate_document::yaml::{MAX_NODES, Node, NodeKind, Span};

/// Section of the stand-ins.
const SECTION: &str = "filter-beans";
/// Example of a stand-in.
const EXAMPLE: &str =
    "write `skip`, `{use: jwt}`, or a filter such as `{use: AddRequestHeader, args: {name: X-A, value: b}}`";

/// Spring's filters that are left out: the name, the reason and the remedy.
const LEFT_OUT: [(&str, &str, &str); 6] = [
    (
        "TokenRelay",
        "the gateway has no OAuth2 login; the `Authorization` field of a request is forwarded as it is",
        "let the client or an authenticating proxy in front send the token",
    ),
    ("CacheRequestBody", "bodies stream here, and no filter of the gateway reads a cached one", "remove it"),
    ("SaveSession", "the gateway keeps no session that it could save", "remove it; upstreams keep their own sessions"),
    ("AdaptCachedBody", "bodies stream here, and no filter of the gateway reads a cached one", "remove it"),
    ("RouteId", "the name of a route is its `id`", "remove it"),
    ("StripContextPath", "the gateway has no servlet context", "remove it"),
];

/// Entry of `filter-beans`.
struct Entry {
    name: String,
    at: Span,
    uses: usize,
    stand_in: StandIn,
}

/// Stand-in for a filter.
enum StandIn {
    /// The filter is left out.
    Skip,
    /// Another filter takes its place.
    Filter(Node),
}

/// Replaces a filter by the item that keeps its position: default filters and those of a route are merged by number.
fn leave_out(filter: &mut Node) {
    filter.kind = NodeKind::Scalar(SKIP.to_owned());
}

/// Puts the stand-ins of `root` into its lists of filters. Reports stand-ins that cannot be used, and those for filters of
/// the gateway's own.
pub(crate) fn apply(root: &mut Node, form: Form, is_own: &dyn Fn(&str) -> bool, diagnostics: &mut Diagnostics) {
    let mut stand_ins = read(root, is_own, diagnostics);
    let mut positions: HashMap<String, usize> = HashMap::new();
    for (at, entry) in stand_ins.iter().enumerate() {
        positions.entry(canonical(&entry.name)).or_insert(at);
    }
    let mut counts: Vec<(String, Span, usize)> = Vec::new();
    let mut room = MAX_NODES;
    filter_lists(root, &mut |filters| {
        for filter in filters.iter_mut() {
            let Some((name, at)) = name(filter) else { continue };
            let bean = limiter_bean::of(&name, filter);
            let of_bean = bean.and_then(|bean| positions.get(&canonical(&bean)));
            let position = of_bean.or_else(|| positions.get(&canonical(&name)));
            if let Some(entry) = position.and_then(|at| stand_ins.get_mut(*at)) {
                entry.uses += 1;
                match entry.stand_in.copy(filter.span, &mut room) {
                    None => leave_out(filter),
                    Some(other) if of_bean.is_some() => limiter_bean::replace(filter, other),
                    Some(other) => *filter = other,
                }
            } else if form == Form::Spring && LEFT_OUT.iter().any(|(left_out, ..)| *left_out == name) {
                match counts.iter_mut().find(|(counted, ..)| *counted == name) {
                    Some((_, _, count)) => *count += 1,
                    None => counts.push((name, at, 1)),
                }
                leave_out(filter);
            }
        }
        // Nothing is behind the last one.
        while filters.pop_if(|filter| filter.scalar() == Some(SKIP)).is_some() {}
    });
    report_left_out(&counts, diagnostics);
    if room == 0 {
        diagnostics
            .error(
                root.step(SECTION).map_or(Span::ROOT, |section| section.span.key()),
                format!("the copies of `{SECTION}` have more than 250,000 values"),
            )
            .help("use smaller stand-ins, or fewer filters that they replace");
    }
    stand_ins.iter().for_each(|entry| report_use(entry, diagnostics));
}

impl StandIn {
    /// Returns a copy of the filter at `at`, whose values are taken from `room`; `None` if the filter is left out, or if there
    /// is no room.
    fn copy(&self, at: Span, room: &mut usize) -> Option<Node> {
        let Self::Filter(other) = self else { return None };
        *room = room.saturating_sub(other.weight());
        (*room > 0).then(|| copy(other, at))
    }
}

fn report_left_out(counts: &[(String, Span, usize)], diagnostics: &mut Diagnostics) {
    for (name, at, count) in counts {
        let Some((_, why, instead)) = LEFT_OUT.iter().find(|(left_out, ..)| left_out == name) else { continue };
        let lists = if *count > 1 { format!(" (in {count} lists of filters)") } else { String::new() };
        diagnostics.warn(*at, format!("`{name}` is left out{lists}: {why}")).help(*instead);
    }
}

fn report_use(Entry { name, at, uses, stand_in }: &Entry, diagnostics: &mut Diagnostics) {
    match stand_in {
        _ if *uses == 0 => diagnostics
            .mistake(
                *at,
                format!("`{SECTION}.{name}` has no effect: no route has a filter or rate limiter of that name"),
            )
            .ineffective()
            .help("remove it"),
        StandIn::Skip => {
            diagnostics.note(*at, format!("the filter `{name}` is left out, in {uses} {}", lists_of(*uses)));
        }
        StandIn::Filter(_) => {}
    }
}

fn lists_of(count: usize) -> &'static str {
    if count == 1 { "list of filters" } else { "lists of filters" }
}

/// Reads the section.
fn read(root: &Node, is_own: &dyn Fn(&str) -> bool, diagnostics: &mut Diagnostics) -> Vec<Entry> {
    let mut stand_ins = Vec::new();
    for (name, node) in root.step(SECTION).and_then(Node::entries).unwrap_or_default() {
        if is_own(name) {
            diagnostics
                .error(
                    node.span.key(),
                    format!("`{SECTION}.{name}`: `{name}` is a filter of the gateway and needs no stand-in"),
                )
                .help("remove it here, or remove the filter from the routes");
            continue;
        }
        // A stand-in that cannot be read keeps references to its name from being reported as unknown.
        let (uses, stand_in) = stand_in(node).map_or_else(
            |NoStandIn(at)| {
                diagnostics.error(at, format!("`{SECTION}.{name}` is no stand-in for a filter")).help(EXAMPLE);
                (1, StandIn::Skip)
            },
            |stand_in| (0, stand_in),
        );
        stand_ins.push(Entry { name: name.clone(), at: node.span.key(), uses, stand_in });
    }
    stand_ins
}

/// Part of an entry that is no stand-in for a filter.
struct NoStandIn(Span);

/// Reads one stand-in.
fn stand_in(node: &Node) -> Result<StandIn, NoStandIn> {
    let entries = match &node.kind {
        NodeKind::Scalar(text) if text.trim() == SKIP => return Ok(StandIn::Skip),
        NodeKind::Map(entries) => entries,
        _ => return Err(NoStandIn(node.span)),
    };
    let used =
        entries.iter().find(|(key, _)| same_name(key, "use")).map(|(_, node)| node).ok_or(NoStandIn(node.span))?;
    let name = used.scalar().map(str::trim).filter(|name| !name.is_empty()).ok_or(NoStandIn(used.span))?;
    if name == "jwt" {
        return Ok(StandIn::Filter(verifier(entries, node.span)?));
    }
    if let Some((_, other)) = entries.iter().find(|(key, _)| !["use", "args"].contains(&canonical(key).as_str())) {
        return Err(NoStandIn(other.span.key()));
    }
    if name.contains('=') {
        return if entries.len() == 1 { Ok(StandIn::Filter(used.clone())) } else { Err(NoStandIn(node.span)) };
    }
    let renamed = entries.iter().map(|(key, node)| {
        let key = if same_name(key, "use") { "name".to_owned() } else { key.clone() };
        (key, node.clone())
    });
    Ok(StandIn::Filter(Node { span: node.span, kind: NodeKind::Map(renamed.collect()) }))
}

/// Returns the filter that refuses requests without a valid token.
fn verifier(entries: &[(String, Node)], span: Span) -> Result<Node, NoStandIn> {
    let mut args = Vec::new();
    for (key, node) in entries {
        let name = canonical(key);
        match name.as_str() {
            "use" => {}
            "claim" | "status" => {
                let text = node.scalar().map(|text| text.trim().to_owned()).ok_or(NoStandIn(node.span))?;
                args.push((name, Node { span: node.span.again(), kind: NodeKind::Scalar(text) }));
            }
            _ => return Err(NoStandIn(node.span.key())),
        }
    }
    let filter = NodeKind::Scalar("RequireToken".to_owned());
    if args.is_empty() {
        return Ok(Node { span, kind: filter });
    }
    let name = ("name".to_owned(), Node { span: span.again(), kind: filter });
    let args = Node { span: span.again(), kind: NodeKind::Map(args) };
    Ok(Node { span, kind: NodeKind::Map(vec![name, ("args".to_owned(), args)]) })
}

/// Returns the name of a filter with its place.
pub(super) fn name(filter: &Node) -> Option<(String, Span)> {
    let node = match &filter.kind {
        NodeKind::Map(_) => filter.step("name")?,
        _ => filter,
    };
    let name = node.scalar()?.split('=').next()?.trim();
    Some((name.to_owned(), node.span))
}

/// Returns a copy of `node` in which each part has a place of its own, that of `at`.
fn copy(node: &Node, at: Span) -> Node {
    let kind = match &node.kind {
        NodeKind::Map(entries) => {
            NodeKind::Map(entries.iter().map(|(key, value)| (key.clone(), copy(value, value.span))).collect())
        }
        NodeKind::Seq(items) => NodeKind::Seq(items.iter().map(|item| copy(item, item.span)).collect()),
        other => other.clone(),
    };
    Node { span: at.again(), kind }
}
