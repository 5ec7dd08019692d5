//! YAML text to a tree of [`Node`]s with spans.
//!
//! [`parse()`] reads values with `serde_yaml` (YAML 1.1 scalars, anchors, merges). A [`Span`] is an index into
//! [`Places`]: the document's number and the path of entry positions that leads to a node. [`locate`] turns spans into
//! lines and columns when there are diagnostics to report.

mod advice;
pub(crate) mod key;
pub(crate) mod locate;
mod maven;
mod names;
mod node;
mod parse;
mod span;

pub(crate) use names::NameIndex;
pub(crate) use node::{Node, NodeKind};
pub(crate) use parse::{Parsed, Problem, ProblemAt, parse, parse_json};
pub(crate) use span::{Place, Places, Span};
