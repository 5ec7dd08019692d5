//! Moves of nodes within a tree, keys in any spelling.

use std::collections::HashMap;

use crate::Form;
use crate::source::dotted;
use crate::source::merge::{self, Replaced, Source};
use tollgate_document::diagnostics::Diagnostics;
use tollgate_document::yaml::key::{canonical, same_name};
use tollgate_document::yaml::{NameIndex, Node, NodeKind};

/// Returns the node at `path` below `node`, keys in any spelling.
pub(super) fn find<'n>(node: &'n mut Node, path: &[&str]) -> Option<&'n mut Node> {
    let Some((first, rest)) = path.split_first() else { return Some(node) };
    let NodeKind::Map(entries) = &mut node.kind else { return None };
    let (_, child) = entries.iter_mut().find(|(key, _)| same_name(key, first))?;
    find(child, rest)
}

/// Removes the node at `path` from `node` and returns it.
pub(super) fn take(node: &mut Node, path: &[&str]) -> Option<Node> {
    let (first, rest) = path.split_first()?;
    let NodeKind::Map(entries) = &mut node.kind else { return None };
    let at = entries.iter().position(|(key, _)| same_name(key, first))?;
    if rest.is_empty() {
        return Some(entries.remove(at).1);
    }
    take(&mut entries[at].1, rest)
}

/// Merges `value` into `root` at `path`.
pub(super) fn add(root: &mut Node, path: &[&str], value: Node) {
    Additions::to(root).add(path, value);
}

/// A tree to which many values are added, each in constant time.
pub(super) struct Additions<'r> {
    root: &'r mut Node,
    names: NameIndex,
}

impl<'r> Additions<'r> {
    pub(super) fn to(root: &'r mut Node) -> Self {
        Self { root, names: NameIndex::relaxed() }
    }

    /// Merges `value` into the tree at `path`.
    pub(super) fn add(&mut self, path: &[&str], value: Node) {
        dotted::merge_indexed(self.root, dotted::nested(path.iter().copied(), value), &mut self.names, Form::Own);
    }

    /// Returns true if there is a value at `path`.
    pub(super) fn has(&mut self, path: &[&str]) -> bool {
        self.names.follow(self.root, path).is_some()
    }
}

/// Adds an empty value at `path` below `node`, at the place where the nearest section begins, and returns it. `None` if that key is
/// there, or if a value is in place of a section.
pub(super) fn add_missing<'n>(node: &'n mut Node, path: &[&str]) -> Option<&'n mut Node> {
    let Some((first, rest)) = path.split_first() else { return Some(node) };
    if matches!(node.kind, NodeKind::Null) {
        node.kind = NodeKind::Map(Vec::new());
    }
    let NodeKind::Map(entries) = &mut node.kind else { return None };
    let position = entries.iter().position(|(key, _)| same_name(key, first));
    if rest.is_empty() && position.is_some() {
        return None;
    }
    let position = position.unwrap_or_else(|| {
        let span = node.span.again().until(node.span.bytes().range().start);
        entries.push(((*first).to_owned(), Node { span, kind: NodeKind::Null }));
        entries.len() - 1
    });
    add_missing(&mut entries[position].1, rest)
}

/// Calls `change` with `default-filters`, and with the lists of each route that have one of `names`.
pub(super) fn lists(root: &mut Node, names: &[&str], change: &mut dyn FnMut(&mut Node)) {
    let NodeKind::Map(sections) = &mut root.kind else { return };
    for (key, section) in sections {
        match canonical(key).as_str() {
            "defaultfilters" => change(section),
            "routes" => {
                let NodeKind::Seq(routes) = &mut section.kind else { continue };
                for route in routes {
                    let NodeKind::Map(fields) = &mut route.kind else { continue };
                    let lists = fields.iter_mut().filter(|(key, _)| names.iter().any(|name| same_name(key, name)));
                    lists.for_each(|(_, list)| change(list));
                }
            }
            _ => {}
        }
    }
}

/// Calls `change` with each list of filters.
pub(super) fn filter_lists(root: &mut Node, change: &mut dyn FnMut(&mut Vec<Node>)) {
    lists(root, &["filters"], &mut |list| {
        if let NodeKind::Seq(filters) = &mut list.kind {
            change(filters);
        }
    });
}

/// Merges the gateway's own sections into `root`. Its routes come behind those of `root`; one with the id of another takes
/// its place.
pub(super) fn merge_ours(root: &mut Node, mut ours: Node, replaced: &mut Replaced, diagnostics: &mut Diagnostics) {
    let routes = take(&mut ours, &["routes"]).filter(|routes| !matches!(routes.kind, NodeKind::Null));
    let source = Source { form: Form::Own, is_of_profile: false };
    replaced.merge((root, &mut NameIndex::relaxed()), ours, "", source, diagnostics);
    let Some(mut routes) = routes else { return };
    replaced.report(&routes, diagnostics);
    let (Some(Node { kind: NodeKind::Seq(merged), .. }), NodeKind::Seq(more)) =
        (find(root, &["routes"]), &mut routes.kind)
    else {
        return add(root, &["routes"], routes);
    };
    let id = |route: &Node| Some(route.step("id")?.scalar()?.to_owned());
    let mut ids: HashMap<String, usize> =
        merged.iter().enumerate().filter_map(|(at, route)| Some((id(route)?, at))).collect();
    for route in more.drain(..) {
        match id(&route).and_then(|id| Some((merged.get_mut(ids.remove(&id)?)?, id))) {
            Some((same, id)) => {
                merge::report_route(&id, same, &route, diagnostics);
                *same = route;
            }
            None => merged.push(route),
        }
    }
}

/// Returns true for a map without values, at any depth.
pub(super) fn is_empty(node: &Node) -> bool {
    node.entries().is_some_and(|entries| entries.iter().all(|(_, value)| is_empty(value)))
}
