//! The tree of a YAML document.

use std::collections::HashMap;

use crate::yaml::key::same_name;
use crate::yaml::span::Span;

/// One YAML value. Its span identifies it: no two nodes share one.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Its place.
    pub span: Span,
    /// Its content.
    pub kind: NodeKind,
}

/// Content of a [`Node`]. Scalars stay text until a typed field reads them.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeKind {
    /// Nothing.
    Null,
    /// A text, a number or a word.
    Scalar(String),
    /// A list.
    Seq(Vec<Node>),
    /// A map, in the order of the file. Keys are unique.
    Map(Vec<(String, Node)>),
}

impl Node {
    /// Returns the entries of a map.
    pub fn entries(&self) -> Option<&[(String, Node)]> {
        if let NodeKind::Map(entries) = &self.kind { Some(entries) } else { None }
    }

    /// Returns the value of `key`, compared exactly.
    pub fn get(&self, key: &str) -> Option<&Node> {
        let is_it = |(name, _): &&(String, Self)| {
            #[cfg(debug_assertions)]
            crate::steps::count();
            name == key
        };
        self.entries()?.iter().find(is_it).map(|(_, value)| value)
    }

    /// Follows one step of a dotted name: a key in any spelling, or `[n]` into a list.
    pub fn step(&self, step: &str) -> Option<&Node> {
        match &self.kind {
            NodeKind::Map(entries) => {
                let exact = entries.iter().find(|(name, _)| name == step);
                let entry = exact.or_else(|| entries.iter().find(|(name, _)| same_name(name, step)));
                entry.map(|(_, value)| value)
            }
            NodeKind::Seq(items) => items.get(step.strip_prefix('[')?.strip_suffix(']')?.parse::<usize>().ok()?),
            NodeKind::Null | NodeKind::Scalar(_) => None,
        }
    }

    /// Follows `path`, one key a step, compared exactly.
    pub fn at(&self, path: &[&str]) -> Option<&Node> {
        path.iter().try_fold(self, |node, key| node.get(key))
    }

    /// Follows `path`, one [step](Self::step) after the other.
    pub fn follow(&self, path: &[&str]) -> Option<&Node> {
        path.iter().try_fold(self, |node, step| node.step(step))
    }

    /// Returns true for a text that equals `value`, but for capitals and spaces around it.
    pub fn is_text(&self, value: &str) -> bool {
        self.scalar().is_some_and(|text| text.trim().eq_ignore_ascii_case(value))
    }

    /// Returns the text of a scalar.
    pub fn scalar(&self) -> Option<&str> {
        match &self.kind {
            NodeKind::Scalar(text) => Some(text),
            _ => None,
        }
    }

    /// Sets the dotted names of the values below this map whose numbers are keys of `names`, but not of those in lists.
    pub fn name_paths(&self, names: &mut HashMap<u32, String>) {
        self.name_paths_below("", names);
    }

    fn name_paths_below(&self, above: &str, names: &mut HashMap<u32, String>) {
        for (key, value) in self.entries().unwrap_or_default() {
            #[cfg(debug_assertions)]
            crate::steps::count();
            let is_wanted = names.contains_key(&value.span.node);
            if is_wanted || value.entries().is_some() {
                let path = if above.is_empty() { key.clone() } else { format!("{above}.{key}") };
                value.name_paths_below(&path, names);
                if is_wanted {
                    names.insert(value.span.node, path);
                }
            }
        }
    }

    /// Returns the number of values: this one and those below it.
    pub fn count(&self) -> usize {
        1 + match &self.kind {
            NodeKind::Null | NodeKind::Scalar(_) => 0,
            NodeKind::Seq(items) => items.iter().map(Self::count).sum(),
            NodeKind::Map(entries) => entries.iter().map(|(_, value)| value.count()).sum(),
        }
    }

    /// Returns the number of values, in which each 32 bytes of text count as one more: what copies of the value take.
    pub fn weight(&self) -> usize {
        1 + match &self.kind {
            NodeKind::Null => 0,
            NodeKind::Scalar(text) => text_nodes(text),
            NodeKind::Seq(items) => items.iter().map(Self::weight).sum(),
            NodeKind::Map(entries) => entries.iter().map(|(key, value)| text_nodes(key) + value.weight()).sum(),
        }
    }

    /// Returns true if `holds` for this value or one below it.
    pub fn any(&self, holds: &dyn Fn(&Node) -> bool) -> bool {
        holds(self)
            || match &self.kind {
                NodeKind::Null | NodeKind::Scalar(_) => false,
                NodeKind::Seq(items) => items.iter().any(|item| item.any(holds)),
                NodeKind::Map(entries) => entries.iter().any(|(_, value)| value.any(holds)),
            }
    }

    /// Describes the value for a message.
    pub fn describe(&self) -> String {
        match &self.kind {
            NodeKind::Null => "nothing".to_owned(),
            NodeKind::Scalar(text) => format!("`{text}`"),
            NodeKind::Seq(_) => "a list".to_owned(),
            NodeKind::Map(_) => "a map".to_owned(),
        }
    }
}

/// Nodes of a file at most, and of a configuration: a bound for aliases that multiply each other, and for the time of checks.
pub const MAX_NODES: usize = 250_000;
/// Depth of lists and maps at most.
pub(super) const MAX_DEPTH: usize = 128;

/// Bytes of text that count as one more node: a long text may be repeated, too.
const TEXT_BYTES: usize = 32;

pub(super) const TOO_LARGE: &str =
    "more than 250,000 nodes, with those that anchors and aliases repeat; 32 bytes of text count as one";
pub(super) const TOO_DEEP: &str = "recursion limit exceeded";

/// Returns the number of nodes that `text` counts as, beside its own.
pub(super) fn text_nodes(text: &str) -> usize {
    text.len() / TEXT_BYTES
}

/// Returns a copy of `node` for an alias at `depth`, with nodes of its own, which it counts. The error says what is exceeded.
pub(super) fn copied(node: &Node, depth: usize, nodes: &mut usize) -> Result<Node, &'static str> {
    *nodes += 1 + match &node.kind {
        NodeKind::Scalar(text) => text_nodes(text),
        NodeKind::Map(entries) => entries.iter().map(|(key, _)| text_nodes(key)).sum(),
        NodeKind::Null | NodeKind::Seq(_) => 0,
    };
    if *nodes > MAX_NODES {
        return Err(TOO_LARGE);
    }
    let kind = match &node.kind {
        NodeKind::Seq(_) | NodeKind::Map(_) if depth >= MAX_DEPTH => return Err(TOO_DEEP),
        NodeKind::Seq(items) => {
            let items: Result<_, _> = items.iter().map(|item| copied(item, depth + 1, nodes)).collect();
            NodeKind::Seq(items?)
        }
        NodeKind::Map(entries) => {
            let mut copies = Vec::with_capacity(entries.len());
            for (key, value) in entries {
                copies.push((key.clone(), copied(value, depth + 1, nodes)?));
            }
            NodeKind::Map(copies)
        }
        kind => kind.clone(),
    };
    Ok(Node { span: node.span.again(), kind })
}
