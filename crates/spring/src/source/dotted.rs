//! Dotted keys (`server.port: 80`), indices (`routes[0].id: a`), and the merge of two maps.

use std::cell::RefCell;

use crate::Form;
use tollgate_document::diagnostics::Diagnostics;
use tollgate_document::yaml::{NameIndex, Node, NodeKind, Span};

/// Maximum number of steps of a dotted key. Longer keys stay unchanged.
const MAX_STEPS: usize = 32;

/// Key of a map under which the property's own value is kept. A Spring file may set both `a.b` and `a.b.c`: then `a.b` is a
/// map with its own value under this key.
const OWN_VALUE: &str = "";

/// Expands every dotted or indexed key below `node` into maps and lists. A key in brackets, `"[a.b]"`, stays whole.
pub fn expand(node: Node, form: Form, diagnostics: &mut Diagnostics) -> Node {
    lists_from_indices(expand_keys(node, form, diagnostics))
}

fn expand_keys(node: Node, form: Form, diagnostics: &mut Diagnostics) -> Node {
    let span = node.span;
    let kind = match node.kind {
        NodeKind::Map(entries) => {
            let mut result: Vec<(String, Node)> = Vec::with_capacity(entries.len());
            let mut names = NameIndex::relaxed();
            for (key, value) in entries {
                let mut value = expand_keys(value, form, diagnostics);
                let at = value.span;
                if form == Form::Spring && key.starts_with('/') {
                    diagnostics
                        .warn(at.key(), format!("Spring drops the slashes of the key `{key}`; here they stay"))
                        .help(format!("write `\"[{key}]\"`"));
                }
                let mut steps = split(&key);
                let first = if steps.is_empty() { key } else { steps.remove(0) };
                value = nested(steps.iter().map(String::as_str), value);
                match names.find(&result, &first) {
                    Some(position) => {
                        let is_taken = is_taken(&result[position].1, &value, form);
                        if is_taken {
                            diagnostics.error(at.key(), format!("`{first}` is the same key as one above"));
                        }
                        let mut report = |name: &str, first: Span, second: Span| {
                            if !is_taken {
                                report_repeated(name, first, second, diagnostics);
                            }
                        };
                        merge_noting((&mut result[position].1, ""), value, names.below(position), form, &mut report);
                    }
                    None => result.push((first, value)),
                }
            }
            NodeKind::Map(result)
        }
        NodeKind::Seq(items) => {
            NodeKind::Seq(items.into_iter().map(|item| expand_keys(item, form, diagnostics)).collect())
        }
        other => other,
    };
    Node { span, kind }
}

/// Reports a key that one map has in two forms, such as `server: {port: 1}` and `server.port: 2`.
fn report_repeated(name: &str, first: Span, second: Span, diagnostics: &mut Diagnostics) {
    diagnostics
        .mistake(second, format!("`{name}` has two values here, of which this one counts"))
        .beside("; the first is at", first)
        .help("remove one of the two");
}

/// Returns `value` below the keys `steps`.
pub(crate) fn nested<'s>(steps: impl DoubleEndedIterator<Item = &'s str>, value: Node) -> Node {
    steps
        .rev()
        .fold(value, |node, step| Node { span: node.span.again(), kind: NodeKind::Map(vec![(step.to_owned(), node)]) })
}

/// Returns true if two values of one key cannot be merged. In a Spring file, a text and a map can: see [`OWN_VALUE`].
fn is_taken(old: &Node, value: &Node, form: Form) -> bool {
    let maps = [&old.kind, &value.kind].map(|kind| matches!(kind, NodeKind::Map(_)));
    let lists = [&old.kind, &value.kind].map(|kind| matches!(kind, NodeKind::Seq(_)));
    let is_own_value = form == Form::Spring && maps[0] != maps[1] && lists == [false, false];
    maps != [true, true] && !is_own_value
}

/// Turns every map of indices below `node` into a list.
fn lists_from_indices(node: Node) -> Node {
    let kind = match node.kind {
        NodeKind::Map(entries) => {
            indexed(NodeKind::Map(entries.into_iter().map(|(key, value)| (key, lists_from_indices(value))).collect()))
        }
        NodeKind::Seq(items) => NodeKind::Seq(items.into_iter().map(lists_from_indices).collect()),
        other => other,
    };
    Node { span: node.span, kind }
}

/// Splits `a.b[0].c` into `a`, `b`, `[0]`, `c`.
pub fn split(key: &str) -> Vec<String> {
    let mut steps = Vec::new();
    let mut rest = key;
    while !rest.is_empty() {
        if let Some(inside) = rest.strip_prefix('[') {
            let Some(end) = inside.find(']') else { return vec![key.to_owned()] };
            let name = &inside[..end];
            steps.push(if is_index(name) { format!("[{name}]") } else { name.to_owned() });
            rest = inside[end + 1..].trim_start_matches('.');
        } else {
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            steps.push(rest[..end].to_owned());
            rest = rest[end..].strip_prefix('.').unwrap_or(&rest[end..]);
        }
    }
    if steps.len() > MAX_STEPS { vec![key.to_owned()] } else { steps }
}

fn is_index(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// Turns a map with the keys `[0]`, `[1]` … into a list.
fn indexed(kind: NodeKind) -> NodeKind {
    let NodeKind::Map(mut entries) = kind else { return kind };
    let number = |key: &str| key.strip_prefix('[')?.strip_suffix(']')?.parse::<usize>().ok();
    let mut other_keys = entries.iter().filter(|(key, _)| number(key).is_none());
    if entries.is_empty() || other_keys.any(|(key, _)| key != OWN_VALUE) {
        return NodeKind::Map(entries);
    }
    entries.retain(|(key, _)| key != OWN_VALUE);
    let mut items: Vec<_> = entries.into_iter().filter_map(|(key, value)| Some((number(&key)?, value))).collect();
    items.sort_by_key(|(index, _)| *index);
    NodeKind::Seq(items.into_iter().map(|(_, value)| value).collect())
}

/// Properties of a file, by the names that placeholders use.
pub struct Properties<'p> {
    root: &'p Node,
    index: RefCell<NameIndex>,
}

impl<'p> Properties<'p> {
    /// Returns the properties below `root`.
    pub fn of(root: &'p Node) -> Self {
        Self { root, index: RefCell::new(NameIndex::relaxed()) }
    }

    /// Returns the text of the property `name`, such as `server.port` or `hosts[0]`.
    pub fn text(&self, name: &str) -> Option<String> {
        let steps = split(name);
        let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
        let node = self.index.borrow_mut().follow(self.root, &steps)?;
        node.get(OWN_VALUE).unwrap_or(node).scalar().map(str::to_owned)
    }
}

/// Removes the own values of all maps below `node`.
pub fn drop_own_values(node: &mut Node) {
    match &mut node.kind {
        NodeKind::Map(entries) => {
            entries.retain(|(key, _)| key != OWN_VALUE);
            entries.iter_mut().for_each(|(_, value)| drop_own_values(value));
        }
        NodeKind::Seq(items) => items.iter_mut().for_each(drop_own_values),
        NodeKind::Null | NodeKind::Scalar(_) => {}
    }
}

/// Merges a text and a map: `under`, whose names are `names`, becomes the map, with the text as its [`OWN_VALUE`]. Returns
/// false, with both unchanged, if `under` and `over` are anything else.
pub(super) fn keep_own_value(under: &mut Node, over: &mut Node, names: &mut NameIndex) -> bool {
    let is_value = |node: &Node| matches!(node.kind, NodeKind::Scalar(_));
    let has_parts = |node: &Node| matches!(&node.kind, NodeKind::Map(entries) if !entries.is_empty());
    if is_value(under) && has_parts(over) {
        std::mem::swap(under, over);
        names.clear();
        if let NodeKind::Map(entries) = &under.kind
            && entries.iter().any(|(key, _)| key == OWN_VALUE)
        {
            return true;
        }
    } else if !(has_parts(under) && is_value(over)) {
        return false;
    }
    if let NodeKind::Map(entries) = &mut under.kind {
        match names.find(entries, OWN_VALUE).and_then(|at| entries.get_mut(at)) {
            Some((_, text)) => *text = over.clone(),
            None => entries.push((OWN_VALUE.to_owned(), over.clone())),
        }
    }
    true
}

/// Merges `over` into `under`: maps key by key; other values are replaced, as between Spring's property sources.
pub fn merge(under: &mut Node, over: Node) {
    merge_indexed(under, over, &mut NameIndex::relaxed(), Form::Own);
}

/// Merges as [`merge`] does; `names` are those of `under`. If a key of a Spring file has both a text and nested keys, the text
/// stays as the [`OWN_VALUE`], and nothing replaces no map.
pub(crate) fn merge_indexed(under: &mut Node, over: Node, names: &mut NameIndex, form: Form) {
    merge_noting((under, ""), over, names, form, &mut |_, _, _| {});
}

/// Merges as [`merge_indexed`] does. `replaced` is called with the key of each value that another one replaces, and with the
/// places of both.
fn merge_noting(
    (under, name): (&mut Node, &str),
    mut over: Node,
    names: &mut NameIndex,
    form: Form,
    replaced: &mut dyn FnMut(&str, Span, Span),
) {
    if form == Form::Spring && keep_own_value(under, &mut over, names) {
        return;
    }
    match (&mut under.kind, over.kind) {
        (NodeKind::Map(entries), NodeKind::Map(more)) => {
            for (key, value) in more {
                match names.find(entries, &key) {
                    Some(at) => merge_noting((&mut entries[at].1, &key), value, names.below(at), form, replaced),
                    None => entries.push((key, value)),
                }
            }
        }
        (NodeKind::Map(entries), NodeKind::Null) if form == Form::Spring && !entries.is_empty() => {}
        (below, kind) => {
            if !matches!(below, NodeKind::Null) {
                replaced(name, under.span, over.span);
            }
            names.clear();
            under.kind = kind;
            under.span = over.span;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_split_at_dots_and_indices_but_not_within_brackets() {
        assert_eq!(split("a.b"), ["a", "b"]);
        assert_eq!(split("routes[0].id"), ["routes", "[0]", "id"]);
        assert_eq!(split("[redis-rate-limiter.replenishRate]"), ["redis-rate-limiter.replenishRate"]);
        assert_eq!(split("[/**]"), ["/**"]);
        assert_eq!(split("plain"), ["plain"]);
    }
}
