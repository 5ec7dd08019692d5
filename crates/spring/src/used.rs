//! Properties of an application that placeholders in the gateway's settings name: they are not reported as skipped.

use std::collections::HashSet;

use crate::source::dotted;
use crate::source::expansion::closed_placeholders;
use crate::source::placeholder::of_maven;
use crate::tree::is_empty;
use tollgate_document::yaml::{NameIndex, Node, NodeKind};

/// Removes from `whole` the properties that `settings` need, directly or by other properties.
pub(super) fn drop_used(whole: &mut Node, settings: &Node) {
    let (mut names, mut index, mut used) = (Vec::new(), NameIndex::relaxed(), HashSet::new());
    collect(settings, &mut names);
    while let Some(name) = names.pop() {
        let steps = dotted::split(&name);
        // A placeholder for one item of a list uses the whole list.
        let steps: Vec<&str> = steps.iter().map(String::as_str).take_while(|step| !step.starts_with('[')).collect();
        let node = index.follow(whole, &steps).filter(|_| !steps.is_empty());
        if let Some(node) = node.filter(|node| used.insert(node.span.node)) {
            collect(node, &mut names);
        }
    }
    if let NodeKind::Map(sections) = &mut whole.kind {
        sections.retain_mut(|(_, section)| {
            let was_empty = is_empty(section);
            !used.contains(&section.span.node) && {
                remove(section, &used);
                was_empty || !is_empty(section)
            }
        });
    }
}

/// Removes the values below `node` with the numbers `used`.
fn remove(node: &mut Node, used: &HashSet<u32>) {
    if let NodeKind::Map(entries) = &mut node.kind {
        entries.retain(|(_, value)| !used.contains(&value.span.node));
        entries.iter_mut().for_each(|(_, value)| remove(value, used));
    }
}

/// Collects the names in the placeholders below `node`.
fn collect(node: &Node, into: &mut Vec<String>) {
    match &node.kind {
        NodeKind::Null => {}
        NodeKind::Scalar(text) => {
            for (start, end) in closed_placeholders(text) {
                let inside = &text[start..end];
                // No property has a name with a placeholder.
                let before_inner = inside.split_once("${").map_or(inside, |(before, _)| before);
                let name = match before_inner.split_once(':') {
                    Some((name, _)) => name.trim(),
                    None if before_inner.len() == inside.len() => inside.trim(),
                    None => continue,
                };
                into.extend((!name.is_empty()).then(|| name.to_owned()));
            }
            into.extend(of_maven(text, "uri").map(|found| found.name.to_owned()));
        }
        NodeKind::Seq(items) => items.iter().for_each(|item| collect(item, into)),
        NodeKind::Map(entries) => entries.iter().for_each(|(_, value)| collect(value, into)),
    }
}
