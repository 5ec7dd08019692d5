//! YAML text to a tree of [`Node`]s with spans.
//!
//! [`parse()`] builds the tree from the events of a parser of YAML 1.2, which knows the bytes of each. It resolves words and
//! numbers of scalars, anchors and merges itself. A [`Span`] is the position of a node, and of its key, in bytes; lines and
//! columns are computed when diagnostics are reported.

mod alias;
mod builder;
pub mod key;
mod map;
mod maven;
mod names;
mod node;
mod parse;
mod position;
mod scalar;
mod span;
mod syntax;
#[cfg(test)]
mod tests;

pub use alias::MAX_NODES;
pub use names::NameIndex;
pub use node::{Node, NodeKind};
pub use parse::{Overridden, Parsed, Problem, Unused, parse, parse_json};
pub use position::lines;
pub use span::{Bytes, Span, Spans};
