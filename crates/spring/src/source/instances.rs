//! Instances of Spring's simple discovery client in the environment:
//! `SPRING_CLOUD_DISCOVERY_CLIENT_SIMPLE_INSTANCES_ORDERS_0_URI`.
//!
//! The environment cannot be listed, so the services are those that routes or the file name. As in Spring, a list in the
//! environment replaces the whole list of the file.

use std::collections::BTreeSet;

use tollgate_document::yaml::{Node, NodeKind};

/// Path of the instances below the root.
const PATH: [&str; 4] = ["discovery", "client", "simple", "instances"];
/// Fields of an instance.
const FIELDS: [&str; 4] = ["uri", "host", "port", "secure"];
/// Most instances of a service.
const MAX_INSTANCES: usize = 256;

/// Adds the instances that `given` has to `root`. Returns the places of their values.
pub(super) fn add(root: &mut Node, given: &mut dyn FnMut(&str) -> Option<String>) -> Vec<u32> {
    let mut names = BTreeSet::new();
    if let Some(routes) = root.get("routes") {
        targets(routes, &mut names);
    }
    if let Some(Node { kind: NodeKind::Map(services), .. }) = root.at(&PATH) {
        names.extend(services.iter().map(|(name, _)| name.clone()));
    }
    let mut added = Vec::new();
    for name in names {
        let instances = instances(root, &name, given, &mut added);
        if !instances.is_empty() {
            let span = root.span.again();
            put(root, &name, Node { span, kind: NodeKind::Seq(instances) });
        }
    }
    added
}

/// Collects the services of `lb:` targets.
fn targets(node: &Node, names: &mut BTreeSet<String>) {
    match &node.kind {
        NodeKind::Scalar(text) => {
            for (at, _) in text.match_indices("lb:") {
                let Some((_, rest)) = text[at..].split_once("//") else { continue };
                let end = rest.find(|letter: char| "/,:?# ".contains(letter)).unwrap_or(rest.len());
                names.insert(rest[..end].to_owned());
            }
        }
        NodeKind::Seq(items) => items.iter().for_each(|item| targets(item, names)),
        NodeKind::Map(entries) => entries.iter().for_each(|(_, value)| targets(value, names)),
        NodeKind::Null => {}
    }
}

fn instances(
    root: &Node,
    name: &str,
    given: &mut dyn FnMut(&str) -> Option<String>,
    added: &mut Vec<u32>,
) -> Vec<Node> {
    let letters = name.chars().filter(|letter| letter.is_ascii_alphanumeric() || *letter == '_');
    let name: String = letters.map(|letter| letter.to_ascii_uppercase()).collect();
    let mut found = Vec::new();
    for index in 0..MAX_INSTANCES {
        let mut fields = Vec::new();
        for field in FIELDS {
            let variable =
                format!("SPRING_CLOUD_DISCOVERY_CLIENT_SIMPLE_INSTANCES_{name}_{index}_{}", field.to_uppercase());
            if let Some(value) = given(&variable) {
                let span = root.span.again();
                added.push(span.node);
                fields.push((field.to_owned(), Node { span, kind: NodeKind::Scalar(value) }));
            }
        }
        if fields.is_empty() {
            break;
        }
        found.push(Node { span: root.span.again(), kind: NodeKind::Map(fields) });
    }
    found
}

/// Puts the list of the service `name` in place.
fn put(root: &mut Node, name: &str, list: Node) {
    let mut node = root;
    for step in PATH {
        let span = node.span.again();
        if matches!(node.kind, NodeKind::Null) {
            node.kind = NodeKind::Map(Vec::new());
        }
        let NodeKind::Map(entries) = &mut node.kind else { return };
        let at = entries.iter().position(|(key, _)| key == step).unwrap_or_else(|| {
            entries.push((step.to_owned(), Node { span, kind: NodeKind::Map(Vec::new()) }));
            entries.len() - 1
        });
        node = &mut entries[at].1;
    }
    if let NodeKind::Map(entries) = &mut node.kind {
        entries.retain(|(known, _)| known != name);
        entries.push((name.to_owned(), list));
    }
}
