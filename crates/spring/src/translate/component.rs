//! Filters and predicates in the tree: a shortcut `Name=a,b`, or a map of `name` and `args`.

use crate::tree::{filter_lists, find};
use tollgate_document::yaml::key::same_name;
use tollgate_document::yaml::{Node, NodeKind, Span};

/// A filter or predicate.
pub(super) struct Component {
    pub(super) name: String,
    /// Place of the name.
    pub(super) at: Span,
    /// Source text of a shortcut.
    pub(super) text: String,
    pub(super) args: Vec<Argument>,
}

/// An argument with a value. Those of a shortcut have no name; the items of a list are `name[0]` and so on.
pub(super) struct Argument {
    pub(super) name: Option<String>,
    pub(super) value: String,
    pub(super) at: Span,
}

/// A predicate, or a word that joins several.
pub(super) enum Condition<'n> {
    Predicate(&'n mut Node),
    /// `any`, `all` or `not`, with the place of its value.
    Joined(&'static str, Span),
}

impl Component {
    /// Reads `node`; `None` if it is neither form.
    pub(super) fn read(node: &Node) -> Option<Self> {
        if let NodeKind::Scalar(text) = &node.kind {
            return Some(Self::of_shortcut(text, node.span));
        }
        let name = node.step("name")?;
        let mut args = Vec::new();
        if let Some(node) = node.step("args") {
            flatten("", node, &mut args);
        }
        Some(Self { name: name.scalar()?.trim().to_owned(), at: name.span, text: String::new(), args })
    }

    fn of_shortcut(text: &str, at: Span) -> Self {
        let (name, args) = text.split_once('=').unwrap_or((text, ""));
        let args = args.split(',').map(str::trim).enumerate().filter(|(_, value)| !value.is_empty());
        let args =
            args.map(|(position, value)| Argument { name: None, value: value.to_owned(), at: at.argument(position) });
        Self { name: name.trim().to_owned(), at, text: text.trim().to_owned(), args: args.collect() }
    }

    /// Returns the argument `name`, or its first part.
    pub(super) fn named(&self, name: &str) -> Option<&Argument> {
        self.args.iter().find(|arg| arg.is(name))
    }
}

impl Argument {
    /// Returns true for the argument `name` and its parts.
    pub(super) fn is(&self, name: &str) -> bool {
        let written = self.name.as_deref().and_then(|written| written.split(['.', '[']).next());
        written.is_some_and(|written| same_name(written, name))
    }
}

/// Appends the scalars below `node`.
fn flatten(name: &str, node: &Node, args: &mut Vec<Argument>) {
    match &node.kind {
        NodeKind::Null => {}
        NodeKind::Scalar(text) => {
            args.push(Argument { name: Some(name.to_owned()), value: text.clone(), at: node.span });
        }
        NodeKind::Seq(items) => {
            items.iter().enumerate().for_each(|(index, item)| flatten(&format!("{name}[{index}]"), item, args));
        }
        NodeKind::Map(entries) => entries.iter().for_each(|(key, value)| {
            let name = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
            flatten(&name, value, args);
        }),
    }
}

/// Calls `visit` with each filter.
pub(super) fn each_filter(root: &mut Node, visit: &mut dyn FnMut(&mut Node)) {
    filter_lists(root, &mut |filters| filters.iter_mut().for_each(&mut *visit));
}

/// Calls `visit` with each condition of the routes. Those of a route on one line cannot be changed.
pub(super) fn each_condition(root: &mut Node, visit: &mut dyn FnMut(Condition<'_>)) {
    let Some(NodeKind::Seq(routes)) = find(root, &["routes"]).map(|routes| &mut routes.kind) else { return };
    for route in routes {
        if let NodeKind::Scalar(line) = &route.kind {
            // The first part has the id and the target.
            for text in line.split(',').skip(1) {
                let kind = NodeKind::Scalar(text.trim().to_owned());
                visit(Condition::Predicate(&mut Node { span: route.span, kind }));
            }
        } else if let Some(NodeKind::Seq(predicates)) = find(route, &["predicates"]).map(|list| &mut list.kind) {
            predicates.iter_mut().for_each(|predicate| within(predicate, visit));
        }
    }
}

fn within(node: &mut Node, visit: &mut dyn FnMut(Condition<'_>)) {
    let Some((word, value)) = joined(node) else { return visit(Condition::Predicate(node)) };
    visit(Condition::Joined(word, value.span));
    match &mut value.kind {
        NodeKind::Seq(items) => items.iter_mut().for_each(|item| within(item, visit)),
        _ => within(value, visit),
    }
}

/// Returns the joining word of `node` with its value.
fn joined(node: &mut Node) -> Option<(&'static str, &mut Node)> {
    let NodeKind::Map(entries) = &mut node.kind else { return None };
    let words = ["any", "all", "not"];
    entries.iter_mut().find_map(|(key, value)| {
        let word = words.into_iter().find(|word| same_name(key, word))?;
        Some((word, value))
    })
}
