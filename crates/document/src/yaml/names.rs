//! Nodes by name: positions of entries, so that a map with many is built in linear time, and the map that is being read.

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};

use crate::yaml::key::{canonical, same_name};
use crate::yaml::node::{Node, NodeKind};
use crate::yaml::parse::{Overridden, Parsed, Problem, Unused};
use crate::yaml::span::Bytes;

/// Largest number of entries that are searched one by one, without a map.
const FEW: usize = 16;

/// Positions of the entries of one map by name, and of the maps below it. Entries may be added at the end; any other change
/// needs a [`clear`](Self::clear).
#[derive(Debug)]
pub struct NameIndex {
    is_exact: bool,
    hasher: RandomState,
    /// Positions by the hash of the common form of a name, which takes less memory than the name; empty for few entries. Of two
    /// names with one hash, the first one has it.
    by_name: HashMap<u64, usize>,
    /// Number of entries in `by_name`, from the first on.
    indexed: usize,
    below: HashMap<usize, NameIndex>,
}

// === impl NameIndex ===

impl NameIndex {
    /// Creates an index in which spelling variants are the same name.
    pub fn relaxed() -> Self {
        Self::new(false)
    }

    /// Creates an index of exact names.
    pub fn exact() -> Self {
        Self::new(true)
    }

    fn new(is_exact: bool) -> Self {
        Self { is_exact, hasher: RandomState::new(), by_name: HashMap::new(), indexed: 0, below: HashMap::new() }
    }

    /// Returns the position of the first of `entries` with this name.
    pub fn find(&mut self, entries: &[(String, Node)], name: &str) -> Option<usize> {
        let is_exact = self.is_exact;
        let is_it = |(known, _): &(String, Node)| if is_exact { known == name } else { same_name(known, name) };
        if entries.len() <= FEW {
            return entries.iter().position(is_it);
        }
        for (at, (known, _)) in entries.iter().enumerate().skip(self.indexed) {
            self.by_name.entry(self.hash(known)).or_insert(at);
        }
        self.indexed = entries.len();
        let at = *self.by_name.get(&self.hash(name))?;
        if entries.get(at).is_some_and(is_it) { Some(at) } else { entries.iter().position(is_it) }
    }

    /// Returns the index of the map that is the value at `position`.
    pub fn below(&mut self, position: usize) -> &mut Self {
        let is_exact = self.is_exact;
        self.below.entry(position).or_insert_with(|| Self::new(is_exact))
    }

    /// Returns the value at `path` below `root`, whose names are in this index: each step is a key, or `[n]` into a list.
    pub fn follow<'n>(&mut self, root: &'n Node, path: &[&str]) -> Option<&'n Node> {
        let (mut node, mut index) = (root, self);
        for step in path {
            let (at, value) = match &node.kind {
                NodeKind::Map(entries) => {
                    let at = index.find(entries, step)?;
                    (at, entries.get(at).map(|(_, value)| value))
                }
                NodeKind::Seq(items) => {
                    let at = step.strip_prefix('[')?.strip_suffix(']')?.parse().ok()?;
                    (at, items.get(at))
                }
                NodeKind::Null | NodeKind::Scalar(_) => return None,
            };
            node = value?;
            index = index.below(at);
        }
        Some(node)
    }

    /// Forgets all names.
    pub fn clear(&mut self) {
        *self = Self::new(self.is_exact);
    }

    fn hash(&self, name: &str) -> u64 {
        let is_common = self.is_exact || name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        let form = if is_common { Cow::Borrowed(name) } else { Cow::Owned(canonical(name)) };
        self.hasher.hash_one(&form)
    }
}

/// A map that is not complete yet.
pub(super) struct Map {
    entries: Vec<(String, Node)>,
    names: NameIndex,
    /// Values of merge keys, each with the position of its key.
    merged: Vec<(u32, Node)>,
    /// The key whose value follows.
    pub(super) key: Option<(String, Bytes)>,
}

// === impl Map ===

impl Map {
    pub(super) fn new() -> Self {
        Self { entries: Vec::new(), names: NameIndex::exact(), merged: Vec::new(), key: None }
    }

    /// Adds the value of the key.
    pub(super) fn put(&mut self, value: Node, parsed: &mut Parsed) {
        let (key, bytes) = self.key.take().unwrap_or_default();
        if key == "<<" {
            self.merged.push((bytes.start, value));
        } else if let Some(at) = self.names.find(&self.entries, &key) {
            let message = format!("duplicate key `{key}`");
            let first = self.entries.get(at).map(|(_, first)| first.span.key());
            let help = Some(
                "remove one of the two, or join their values; a further item of a list begins with `- `".to_owned(),
            );
            parsed.problems.push(Problem { at: value.span.key(), message, help, first });
            parsed.unused.push(unused(key, value));
        } else {
            self.entries.push((key, value));
        }
    }

    /// Returns the whole map, with the entries of merge keys.
    pub(super) fn complete(mut self, parsed: &mut Parsed) -> NodeKind {
        std::mem::take(&mut self.merged).into_iter().for_each(|(at, value)| self.merge(at, value, parsed));
        NodeKind::Map(self.entries)
    }

    /// Applies YAML's merge key `<<` at `at`: adds the entries of a map, or of each map of a list, that are not present yet.
    /// Others are unused. Those of an alias are not listed: they stand before `at`, in the tree, and may be repeated without
    /// bound.
    fn merge(&mut self, at: u32, value: Node, parsed: &mut Parsed) {
        match value.kind {
            NodeKind::Map(more) => {
                for (key, value) in more {
                    let Some((_, own)) = self.names.find(&self.entries, &key).and_then(|known| self.entries.get(known))
                    else {
                        self.entries.push((key, value));
                        continue;
                    };
                    let by = own.span.node;
                    if value.span.bytes().start > at {
                        parsed.unused.push(unused(key.clone(), value.clone()));
                    }
                    if !matches!(value.kind, NodeKind::Map(_) | NodeKind::Null) {
                        parsed.overridden.push(Overridden { key, list: value, by });
                    }
                }
            }
            NodeKind::Seq(items) => items.into_iter().for_each(|item| self.merge(at, item, parsed)),
            NodeKind::Null | NodeKind::Scalar(_) => {
                let message = "`<<` merges a map or a list of maps, not a plain value".to_owned();
                parsed.problems.push(Problem { at: value.span, message, help: None, first: None });
                parsed.unused.push(unused(String::new(), value));
            }
        }
    }
}

fn unused(key: String, value: Node) -> Unused {
    Unused { above: String::new(), entry: (key, value) }
}
