//! Which routes a request could belong to, by the first segments of its path and the last labels of its host.

use std::collections::HashMap;

use super::super::host;
use super::super::predicate::Predicate;
use super::super::request::RequestView;
use super::super::segment::{Text, cut};
use super::keys::{Start, endings, starts};

/// How many leading segments routes are told apart by: more than any table of routes has, and a bound for the walk.
const MAX_DEPTH: usize = 16;
/// A route of more pairs of starts and endings is looked up by its paths alone, so that no list of patterns can make the
/// index grow with the square of its length.
const MAX_PAIRS: usize = 1024;
/// Lists that are merged without an allocation.
const USUAL_LISTS: usize = 8;

/// A tree over the segments that path patterns start with, and at each node a map of the labels that host patterns end
/// in. A route stands where the fixed start of each of its patterns ends; one without a `Path` predicate stands at the
/// root. The routes along a path's ways down, whose hosts may end as the request's does, are therefore all that could
/// match.
#[derive(Debug, Default)]
pub(super) struct Index {
    root: Node,
}

/// Seeded anew in every process. What is looked up comes from clients, what is in it does not, so no client can make it
/// slow, and a fast hash will do.
type Map<V> = HashMap<Box<str>, V, foldhash::fast::RandomState>;

/// Places of routes in the table, in ascending order.
type Routes = Vec<usize>;

#[derive(Debug, Default)]
struct Node {
    /// Whose hosts nothing is known of.
    routes: Routes,
    hosts: Map<Routes>,
    children: Map<Node>,
    /// Where any segment leads.
    any: Option<Box<Node>>,
}

/// A few lists of routes, merged into one ascending order without repetition.
#[derive(Default)]
pub(super) struct Candidates<'i> {
    usual: [&'i [usize]; USUAL_LISTS],
    used: usize,
    /// What the other lists hold, in descending order once all are there: the next one stands last.
    more: Vec<usize>,
}

// === impl Index ===

impl Index {
    pub(super) fn new<'p>(routes: impl Iterator<Item = &'p [Predicate]>) -> Self {
        let mut index = Self::default();
        for (route, predicates) in routes.enumerate() {
            let starts = starts(predicates).unwrap_or_else(|| vec![Start::new()]);
            let endings = endings(predicates).filter(|endings| endings.len() * starts.len() <= MAX_PAIRS);
            for start in &starts {
                let start = start.get(..MAX_DEPTH).unwrap_or(start);
                index.root.descend(start).add(endings.as_deref(), route);
            }
        }
        index
    }

    /// Every route that could match, in order, and few others.
    pub(super) fn candidates(&self, request: &RequestView<'_>) -> Candidates<'_> {
        let mut candidates = Candidates::default();
        self.root.gather(request.path.strip_prefix('/'), request.host(), &mut candidates);
        candidates.more.sort_unstable_by(|one, other| other.cmp(one));
        candidates
    }
}

// === impl Node ===

impl Node {
    fn descend(&mut self, start: &[Option<&str>]) -> &mut Self {
        let Some((first, rest)) = start.split_first() else { return self };
        let child = match first {
            Some(text) => self.children.entry((*text).into()).or_default(),
            None => self.any.get_or_insert_default(),
        };
        child.descend(rest)
    }

    fn add(&mut self, endings: Option<&[String]>, route: usize) {
        let add = |routes: &mut Routes| {
            if routes.last() != Some(&route) {
                routes.push(route);
            }
        };
        match endings {
            None => add(&mut self.routes),
            Some(endings) => {
                endings.iter().for_each(|ending| add(self.hosts.entry(ending.as_str().into()).or_default()));
            }
        }
    }

    /// Goes every way that the segments left over allow, [`MAX_DEPTH`] steps at most.
    fn gather<'i>(&'i self, left: Option<&str>, host: Option<&str>, candidates: &mut Candidates<'i>) {
        candidates.push(&self.routes);
        if !self.hosts.is_empty()
            && let Some(host) = host
        {
            let known = host::endings(host).take(super::keys::MAX_LABELS).filter_map(|ending| self.hosts.get(ending));
            known.for_each(|routes| candidates.push(routes));
        }
        let Some(left) = left else { return };
        if self.children.is_empty() && self.any.is_none() {
            return;
        }
        let (segment, rest) = cut(left, '/');
        // As a pattern sees it: without matrix parameters, decoded.
        if let Some(child) = self.children.get(&*Text::of_path(segment).decoded()) {
            child.gather(rest, host, candidates);
        }
        if let Some(any) = &self.any {
            any.gather(rest, host, candidates);
        }
    }
}

// === impl Candidates ===

impl<'i> Candidates<'i> {
    fn push(&mut self, list: &'i [usize]) {
        if list.is_empty() {
            return;
        }
        match self.usual.get_mut(self.used) {
            Some(slot) => {
                *slot = list;
                self.used += 1;
            }
            None => self.more.extend_from_slice(list),
        }
    }
}

impl Iterator for Candidates<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let usual = self.usual.get_mut(..self.used)?;
        let next = usual.iter().filter_map(|list| list.first()).chain(self.more.last()).min().copied()?;
        for list in usual {
            if list.first() == Some(&next) {
                *list = list.get(1..).unwrap_or_default();
            }
        }
        while self.more.pop_if(|last| *last == next).is_some() {}
        Some(next)
    }
}
