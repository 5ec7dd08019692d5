//! Entries of a list that the list in its place lacks.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use tollgate_document::diagnostics::Help;
use tollgate_document::yaml::key::{canonical, same_name};
use tollgate_document::yaml::{Node, NodeKind, Span};

/// Filters that refuse requests. One with other arguments still applies, so they are compared by name.
const LIMITERS: [&str; 6] =
    ["RequestRateLimiter", "ConcurrencyLimiter", "RequireToken", "RequestSize", "RequestHeaderSize", "RateLimit"];
/// Lists of addresses, or of addresses by name.
const ADDRESSES: [&str; 4] = ["endpoints", "nodes", "server", "instances"];
/// Entries that a message names.
const MAX_NAMED: usize = 3;
/// Bytes of a name in a message.
const MAX_NAME: usize = 64;

/// Kind of the entries of a list.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Routes,
    /// Filters or predicates.
    Components,
    /// Addresses that the gateway connects to.
    Addresses,
    Other,
}

/// An entry that is lost.
pub(super) struct Lost {
    label: String,
    at: Span,
    /// True if it refuses requests, or has a filter that does.
    pub(super) is_limiter: bool,
}

// === impl Kind ===

impl Kind {
    /// Returns the kind of the list with the dotted name `path`.
    pub(super) fn of(path: &str) -> Self {
        let mut steps = path.rsplit('.');
        let (last, above) = (steps.next().unwrap_or_default(), steps.next().unwrap_or_default());
        let is_address = |step: &str| ADDRESSES.iter().any(|name| same_name(name, step));
        match canonical(last).as_str() {
            "routes" => Self::Routes,
            "defaultfilters" | "filters" | "predicates" => Self::Components,
            _ if is_address(last) || is_address(above) => Self::Addresses,
            _ => Self::Other,
        }
    }
}

/// Returns true if `new`, in place of `old`, may lack entries. A text that is no list of filters is one value, whose place another
/// one takes as usual: only its limiter counts.
pub(super) fn may_lose(kind: Kind, old: &Node, new: &Node) -> bool {
    let is_list = |node: &Node| matches!(node.kind, NodeKind::Seq(_)) || kind == Kind::Components;
    kind != Kind::Addresses && (is_list(old) || is_list(new) || has_limiter(old))
}

/// Returns true if `node` names a limiter.
pub(super) fn has_limiter(node: &Node) -> bool {
    !names_of_limiters(node).is_empty()
}

/// Returns true for a list or text without entries.
pub(super) fn is_empty(node: &Node) -> bool {
    entries_of(node).is_empty()
}

/// Returns the entries of the lists `old` that `new` lacks, limiters first.
pub(super) fn entries<'n>(kind: Kind, old: impl Iterator<Item = &'n Node>, new: &Node) -> Vec<Lost> {
    let new = entries_of(new);
    let mut kept: HashMap<String, Vec<&Node>> = HashMap::new();
    for entry in new.iter() {
        kept.entry(identity(kind, entry)).or_default().push(entry);
    }
    let (mut lost, mut seen) = (Vec::new(), HashSet::new());
    for list in old {
        let mut counts: HashMap<String, usize> = HashMap::new();
        for entry in entries_of(list).iter() {
            let identity = identity(kind, entry);
            let count = counts.entry(identity.clone()).or_default();
            let successor = kept.get(&identity).and_then(|same| same.get(*count));
            if seen.insert((identity, *count)) {
                match successor {
                    None => lost.push(Lost::of(kind, entry)),
                    Some(new) if kind == Kind::Routes => lost.extend(limiters(entry, new)),
                    Some(_) => {}
                }
            }
            *count += 1;
        }
    }
    lost.sort_by_key(|lost| !lost.is_limiter);
    lost
}

/// Returns the limiters within `old` that `new` lacks.
pub(super) fn limiters(old: &Node, new: &Node) -> Vec<Lost> {
    let mut kept: HashMap<&str, usize> = HashMap::new();
    for (name, _) in names_of_limiters(new) {
        *kept.entry(name).or_default() += 1;
    }
    let mut lost = Vec::new();
    for (name, at) in names_of_limiters(old) {
        match kept.remove(name) {
            Some(count) if count > 1 => drop(kept.insert(name, count - 1)),
            Some(_) => {}
            None => lost.push(Lost { label: name.to_owned(), at, is_limiter: true }),
        }
    }
    lost
}

/// Adds the entries that are `lost` to a message: the first ones by name and place.
pub(super) fn name<'h>(lost: &[Lost], mut help: Help<'h>) -> Help<'h> {
    for (number, Lost { label, at, .. }) in lost.iter().take(MAX_NAMED).enumerate() {
        let before = if number == 0 { "; no longer in effect:" } else { "," };
        help = help.beside(format!("{before} {label} at"), *at);
    }
    match lost.len().checked_sub(MAX_NAMED) {
        Some(more) if more > 0 => help.ending(format!(" and {more} more")),
        _ => help,
    }
}

// === impl Lost ===

impl Lost {
    fn of(kind: Kind, entry: &Node) -> Self {
        let limiters = names_of_limiters(entry);
        let name = component(entry).filter(|name| name.len() <= MAX_NAME);
        let label = match (kind, name) {
            (Kind::Routes, Some(id)) => match limiters.first() {
                Some((limiter, _)) => format!("route `{id}` with {limiter}"),
                None => format!("route `{id}`"),
            },
            (Kind::Components, Some(name)) => name.to_owned(),
            // Other values may be secrets, such as key ids.
            _ => limiters.first().map_or("an entry", |(limiter, _)| limiter).to_owned(),
        };
        Self { label, at: entry.span, is_limiter: !limiters.is_empty() }
    }
}

/// Returns the items of a list, or the parts of a text with commas.
fn entries_of(node: &Node) -> Cow<'_, [Node]> {
    match &node.kind {
        NodeKind::Seq(items) => Cow::Borrowed(items),
        NodeKind::Scalar(text) => {
            let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
            parts.map(|part| Node { span: node.span, kind: NodeKind::Scalar(part.to_owned()) }).collect()
        }
        NodeKind::Null | NodeKind::Map(_) => Cow::Borrowed(&[]),
    }
}

/// Returns the id of a route, the name of a filter or predicate.
fn component(entry: &Node) -> Option<&str> {
    match entry.scalar() {
        Some(text) => Some(text.split('=').next().unwrap_or(text).trim()),
        None => ["id", "name"].iter().find_map(|key| entry.step(key)?.scalar()),
    }
}

/// Returns a text that equal entries share: those of the same id, limiters of the same name, and others of the same content.
fn identity(kind: Kind, entry: &Node) -> String {
    let name = component(entry).filter(|name| kind == Kind::Routes || LIMITERS.contains(name));
    name.map_or_else(|| content(entry), str::to_owned)
}

/// Returns the content of `node` as text, without regard to spaces, the spelling and the order of keys.
fn content(node: &Node) -> String {
    match &node.kind {
        NodeKind::Null => String::new(),
        NodeKind::Scalar(text) => text.split_whitespace().collect(),
        NodeKind::Seq(items) => format!("[{}]", items.iter().map(content).collect::<Vec<_>>().join(",")),
        NodeKind::Map(entries) => {
            let mut fields: Vec<String> =
                entries.iter().map(|(key, value)| format!("{}: {}", canonical(key), content(value))).collect();
            fields.sort_unstable();
            format!("{{{}}}", fields.join(","))
        }
    }
}

/// Returns the limiters that `node` names, each with its place.
fn names_of_limiters(node: &Node) -> Vec<(&str, Span)> {
    match &node.kind {
        NodeKind::Null => Vec::new(),
        NodeKind::Scalar(text) => {
            let names = text.split(',').filter_map(|item| item.split('=').next()).map(str::trim);
            names.filter(|name| LIMITERS.contains(name)).map(|name| (name, node.span)).collect()
        }
        NodeKind::Seq(items) => items.iter().flat_map(names_of_limiters).collect(),
        NodeKind::Map(entries) => entries.iter().flat_map(|(_, value)| names_of_limiters(value)).collect(),
    }
}
