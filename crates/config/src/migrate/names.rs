//! Names of keys in our own form.

use serde_json::Value;

use crate::de::canonical;
use crate::schema::schema;
use crate::yaml::{Node, NodeKind};

/// Renames the keys of the schema to kebab-case, throughout `root`.
pub(super) fn plain(root: &mut Node) {
    let schema = schema();
    rename(root, &schema, &schema);
}

fn rename(node: &mut Node, at: &Value, schema: &Value) {
    let alternatives = parts(at, schema);
    match &mut node.kind {
        NodeKind::Map(entries) => {
            for (key, child) in entries {
                let known = alternatives.iter().find_map(|part| {
                    let mut properties = part["properties"].as_object()?.iter();
                    properties.find(|(name, _)| canonical(name) == canonical(key))
                });
                if let Some((name, at)) = known {
                    name.clone_into(key);
                    rename(child, at, schema);
                } else if let Some(any) = alternatives.iter().find_map(|part| part.get("additionalProperties")) {
                    rename(child, any, schema);
                }
            }
        }
        NodeKind::Seq(items) => {
            if let Some(at) = alternatives.iter().find_map(|part| part.get("items")) {
                items.iter_mut().for_each(|item| rename(item, at, schema));
            }
        }
        NodeKind::Null | NodeKind::Scalar(_) => {}
    }
}

/// Returns the alternatives of a schema; follows references.
fn parts<'s>(at: &'s Value, schema: &'s Value) -> Vec<&'s Value> {
    if let Some(target) = at["$ref"].as_str().and_then(|path| schema.pointer(path.trim_start_matches('#'))) {
        return parts(target, schema);
    }
    match at["anyOf"].as_array() {
        Some(alternatives) => alternatives.iter().flat_map(|part| parts(part, schema)).collect(),
        None => vec![at],
    }
}
