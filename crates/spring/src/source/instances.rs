//! Instances of Spring's simple discovery client in the environment:
//! `SPRING_CLOUD_DISCOVERY_CLIENT_SIMPLE_INSTANCES_ORDERS_0_URI`.
//!
//! The environment cannot be listed, so the services are those that routes or the file name. As in Spring, a list in the
//! environment replaces the whole list of the file.

use std::collections::BTreeSet;

use crate::tree::{add_missing, take};
use tollgate_document::yaml::{Node, NodeKind};

/// Path of the instances below the root.
const PATH: [&str; 4] = ["discovery", "client", "simple", "instances"];
/// Fields of an instance.
const FIELDS: [&str; 4] = ["uri", "host", "port", "secure"];
/// Most instances of a service.
const MAX_INSTANCES: usize = 256;

/// Adds the instances in the environment, which `read` looks up, to `root`. Returns the places of their values.
pub(super) fn add(root: &mut Node, read: &mut dyn FnMut(&str) -> Option<String>) -> Vec<u32> {
    let mut names = BTreeSet::new();
    if let Some(routes) = root.get("routes") {
        targets(routes, &mut names);
    }
    let services = root.at(&PATH).and_then(Node::entries).unwrap_or_default();
    names.extend(services.iter().map(|(name, _)| name.clone()));
    let mut added = Vec::new();
    for name in names {
        let instances = instances(root, &name, read, &mut added);
        if !instances.is_empty() {
            let path = [&PATH[..], &[name.as_str()]].concat();
            take(root, &path);
            if let Some(node) = add_missing(root, &path) {
                node.kind = NodeKind::Seq(instances);
            }
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

fn instances(root: &Node, name: &str, read: &mut dyn FnMut(&str) -> Option<String>, added: &mut Vec<u32>) -> Vec<Node> {
    let letters = name.chars().filter(|letter| letter.is_ascii_alphanumeric() || *letter == '_');
    let name: String = letters.map(|letter| letter.to_ascii_uppercase()).collect();
    let mut instances = Vec::new();
    for index in 0..MAX_INSTANCES {
        let mut fields = Vec::new();
        for field in FIELDS {
            let variable =
                format!("SPRING_CLOUD_DISCOVERY_CLIENT_SIMPLE_INSTANCES_{name}_{index}_{}", field.to_uppercase());
            if let Some(value) = read(&variable) {
                let span = root.span.again();
                added.push(span.node);
                fields.push((field.to_owned(), Node { span, kind: NodeKind::Scalar(value) }));
            }
        }
        if fields.is_empty() {
            break;
        }
        instances.push(Node { span: root.span.again(), kind: NodeKind::Map(fields) });
    }
    instances
}
