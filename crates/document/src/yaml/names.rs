//! Positions of a map's entries by name, so that a map with many entries is built in linear time.

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};

use crate::yaml::key::{canonical, same_name};
use crate::yaml::{Node, NodeKind};

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
