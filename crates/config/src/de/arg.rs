//! Arguments of predicates and filters as text.

use crate::yaml::{Kind, Node, Span};

/// One argument of a predicate or filter.
#[derive(Clone, Debug)]
pub(crate) struct Arg {
    /// Name; `None` in the shortcut form, where the position counts.
    pub(crate) name: Option<String>,
    pub(crate) value: String,
    pub(crate) span: Span,
}

/// Appends the scalars below `node` as arguments, named `a.b` and `a[0]` as in Spring.
pub(crate) fn flatten(prefix: &str, node: &Node, into: &mut Vec<Arg>) {
    flatten_into(prefix, node, into, &mut Vec::new());
}

/// As [`flatten`]; arguments without a value, and empty maps and lists, go to `empty`.
pub(crate) fn flatten_into(prefix: &str, node: &Node, into: &mut Vec<Arg>, empty: &mut Vec<Arg>) {
    let arg = |value: String| Arg { name: Some(prefix.to_owned()), value, span: node.span };
    match &node.kind {
        Kind::Scalar(text) => into.push(arg(text.clone())),
        Kind::Seq(items) if !items.is_empty() => {
            for (index, item) in items.iter().enumerate() {
                flatten_into(&format!("{prefix}[{index}]"), item, into, empty);
            }
        }
        Kind::Map(entries) if !entries.is_empty() => {
            for (key, value) in entries {
                let name = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
                flatten_into(&name, value, into, empty);
            }
        }
        Kind::Null | Kind::Seq(_) | Kind::Map(_) => empty.push(arg(node.describe())),
    }
}
