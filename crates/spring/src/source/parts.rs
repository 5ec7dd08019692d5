//! Files of a folder that are parts of one configuration. None wins over another: a key that two of them set is an error.

use tollgate_document::diagnostics::Diagnostics;
use tollgate_document::yaml::{NameIndex, Node, NodeKind};

/// Key that each part may have: imports are read with their part.
const IMPORT: &str = "spring.config.import";

/// Adds the values of another part to those at `path`, whose index is `names`: maps by key, and the routes behind those of the
/// parts before. Reports keys with two values.
pub(super) fn join(node: &mut Node, names: &mut NameIndex, more: Node, path: &str, diagnostics: &mut Diagnostics) {
    match (&mut node.kind, more.kind) {
        (NodeKind::Map(entries), NodeKind::Map(others)) => {
            // Anchors count within their file.
            let is_extension = |key: &str| path.is_empty() && key.starts_with("x-");
            for (key, value) in others.into_iter().filter(|(key, _)| !is_extension(key)) {
                match names.find(entries, &key).and_then(|at| Some((at, entries.get_mut(at)?))) {
                    Some((at, (name, known))) => {
                        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                        join(known, names.below(at), value, &path, diagnostics);
                    }
                    None => entries.push((key, value)),
                }
            }
        }
        (NodeKind::Seq(routes), NodeKind::Seq(others)) if is_routes(path) => routes.extend(others),
        (_, NodeKind::Null) => {}
        (kind @ NodeKind::Null, other) => {
            *kind = other;
            node.span = more.span;
        }
        (kind, other) if path == IMPORT || is_same(kind, &other) => {}
        _ => {
            diagnostics
                .error(more.span.key(), format!("`{path}` has another value here than"))
                .beside(" at", node.span.key())
                .help("files of a folder are parts of one configuration, and none wins over another: set the key in one of them");
        }
    }
}

/// Returns true for the path of a list of routes.
fn is_routes(path: &str) -> bool {
    path == "routes" || path.ends_with(".routes") && ["spring.", "tollgate."].iter().any(|root| path.starts_with(root))
}

fn is_same(a: &NodeKind, b: &NodeKind) -> bool {
    match (a, b) {
        (NodeKind::Scalar(a), NodeKind::Scalar(b)) => a == b,
        (NodeKind::Seq(a), NodeKind::Seq(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(&a.kind, &b.kind))
        }
        (NodeKind::Map(a), NodeKind::Map(b)) => {
            let is_same_entry =
                |((a, of_a), (b, of_b)): (&(String, Node), &(String, Node))| a == b && is_same(&of_a.kind, &of_b.kind);
            a.len() == b.len() && a.iter().zip(b).all(is_same_entry)
        }
        (a, b) => matches!((a, b), (NodeKind::Null, NodeKind::Null)),
    }
}
