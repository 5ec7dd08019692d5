//! Moves of nodes within a tree, keys in any spelling.

use tollgate_document::yaml::key::same_name;
use tollgate_document::yaml::{Node, NodeKind};

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

/// Returns the entries of a section; adds the section if it is absent.
pub(super) fn section<'n>(root: &'n mut Node, name: &str) -> Option<&'n mut Vec<(String, Node)>> {
    if find(root, &[name]).is_none()
        && let NodeKind::Map(entries) = &mut root.kind
    {
        entries.push((name.to_owned(), Node { span: root.span.again(), kind: NodeKind::Map(Vec::new()) }));
    }
    match &mut find(root, &[name])?.kind {
        NodeKind::Map(entries) => Some(entries),
        _ => None,
    }
}

/// Returns true for a map without values, at any depth.
pub(super) fn is_empty(node: &Node) -> bool {
    match &node.kind {
        NodeKind::Map(entries) => entries.iter().all(|(_, value)| is_empty(value)),
        _ => false,
    }
}
