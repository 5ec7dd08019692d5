//! Which routes a path could belong to, by its first segments.

use std::collections::HashMap;

use super::super::predicate::Predicate;
use super::super::segment::{Text, cut};

/// How many leading segments routes are told apart by. `/api/v1/orders/**` and its like are common; more would only
/// make the look-up longer.
const MAX_DEPTH: usize = 4;

/// A tree over the literal segments that path patterns start with. A route stands where the literal start of each of
/// its patterns ends; one without a `Path` predicate stands at the root. The routes along a path's way down are
/// therefore all that could match.
#[derive(Debug, Default)]
pub(super) struct Index {
    root: Node,
}

#[derive(Debug, Default)]
struct Node {
    /// In ascending order.
    routes: Vec<usize>,
    /// Seeded anew in every process. What is looked up comes from clients, what is in it does not, so no client can
    /// make it slow, and a fast hash will do.
    children: HashMap<Box<str>, Node, foldhash::fast::RandomState>,
}

/// The routes of a few nodes, merged into one ascending order without repetition.
pub(super) struct Candidates<'i> {
    lists: [&'i [usize]; MAX_DEPTH + 1],
    used: usize,
}

// === impl Index ===

impl Index {
    pub(super) fn new<'p>(routes: impl Iterator<Item = &'p [Predicate]>) -> Self {
        let mut index = Self::default();
        for (route, predicates) in routes.enumerate() {
            match narrowest(predicates) {
                Some(prefixes) => prefixes.into_iter().for_each(|prefix| index.root.add(prefix, route)),
                None => index.root.add(Vec::new(), route),
            }
        }
        index
    }

    /// Every route that could match `path`, in order, and few others.
    pub(super) fn candidates(&self, path: &str) -> Candidates<'_> {
        let mut node = &self.root;
        let mut candidates = Candidates { lists: [&[]; MAX_DEPTH + 1], used: 0 };
        candidates.push(&node.routes);
        let mut left = path.strip_prefix('/');
        while let Some(here) = left
            && !node.children.is_empty()
        {
            let (segment, rest) = cut(here, '/');
            // As a pattern sees it: without matrix parameters, decoded.
            let Some(child) = node.children.get(&*Text::of_path(segment).decoded()) else { break };
            candidates.push(&child.routes);
            node = child;
            left = rest;
        }
        candidates
    }
}

/// The prefixes of one `Path` predicate: all of them must hold, so any one narrows correctly; the one whose shortest
/// prefix is longest narrows best.
fn narrowest(predicates: &[Predicate]) -> Option<Vec<Vec<&str>>> {
    predicates
        .iter()
        .filter_map(Predicate::path_patterns)
        .map(|patterns| patterns.iter().map(|pattern| pattern.literal_prefix().take(MAX_DEPTH).collect()).collect())
        .max_by_key(|prefixes: &Vec<Vec<&str>>| prefixes.iter().map(Vec::len).min())
}

// === impl Node ===

impl Node {
    fn add(&mut self, prefix: Vec<&str>, route: usize) {
        let mut node = self;
        for segment in prefix {
            node = node.children.entry(segment.into()).or_default();
        }
        if node.routes.last() != Some(&route) {
            node.routes.push(route);
        }
    }
}

// === impl Candidates ===

impl<'i> Candidates<'i> {
    fn push(&mut self, list: &'i [usize]) {
        if !list.is_empty()
            && let Some(slot) = self.lists.get_mut(self.used)
        {
            *slot = list;
            self.used += 1;
        }
    }
}

impl Iterator for Candidates<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let lists = self.lists.get_mut(..self.used)?;
        let next = lists.iter().filter_map(|list| list.first()).min().copied()?;
        for list in lists {
            if list.first() == Some(&next) {
                *list = list.get(1..).unwrap_or_default();
            }
        }
        Some(next)
    }
}
