//! YAML text to a tree of [`Node`]s with spans.
//!
//! [`parse()`] builds the tree from the events of a parser of YAML 1.2, which knows the bytes of each. It resolves words and
//! numbers of scalars, anchors and merges itself. A [`Span`] is the position of a node, and of its key, in bytes; lines and
//! columns are computed when diagnostics are reported.

mod builder;
pub mod key;
mod names;
mod node;
mod parse;
mod scalar;
mod span;
mod syntax;
#[cfg(test)]
mod tests;

pub use names::NameIndex;
pub use node::{MAX_NODES, Node, NodeKind};
pub use parse::{Overridden, Parsed, Problem, Unused, parse, parse_json};
pub use span::{Bytes, Span, Spans, lines};
