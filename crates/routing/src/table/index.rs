//! An index of routes by the first segments of their paths and the last labels of their hosts.

use std::cell::LazyCell;
use std::collections::HashMap;

use crate::host::{HostPattern, suffixes};
use crate::path::PathPattern;
use crate::predicate::{Combination, Predicate};
use crate::request::RequestView;
use crate::segment::{SegmentText, split_segment};

/// Number of leading path segments that the index distinguishes; it bounds the depth of a look-up.
const MAX_DEPTH: usize = 16;
/// Maximum number of pairs of a prefix and a suffix for one route. A route with more is indexed by its paths only, so
/// that the index does not grow with the square of the number of patterns.
const MAX_PAIRS: usize = 1024;
/// Number of routes that [`Index::covering`] returns at least, if there are as many; the first ones.
pub(super) const MAX_COVERING: usize = 1_000;
/// Number of route lists that are merged without an allocation.
const INLINE_LISTS: usize = 8;

/// A tree over the leading segments of path patterns, with a map from host suffixes to routes in each node.
///
/// A route is stored at the end of each of its path prefixes; a route without a `Path` predicate is stored at the root.
/// A look-up visits every node on the request's path and collects the routes without a host suffix and those whose suffix
/// the request's host has. All routes that can match are among them.
#[derive(Debug, Default)]
pub(super) struct Index {
    root: Node,
}

/// A map with a fast hash, seeded once per process. Clients choose the keys that are looked up but not the stored keys,
/// so they cannot cause collisions.
type Map<V> = HashMap<Box<str>, V, foldhash::fast::RandomState>;

/// Positions of routes in the table, in ascending order.
type Routes = Vec<usize>;

#[derive(Debug, Default)]
struct Node {
    /// Routes for any host.
    routes: Routes,
    /// Routes by text: a host suffix, unless the index has other keys.
    texts: Map<Routes>,
    children: Map<Node>,
    /// The child for any segment.
    wildcard: Option<Box<Node>>,
}

/// Iterator that merges lists of routes into ascending order without duplicates.
#[derive(Default)]
pub(super) struct Candidates<'i> {
    inline: [&'i [usize]; INLINE_LISTS],
    used: usize,
    /// The routes of all further lists, in descending order: the next one is last.
    overflow: Vec<usize>,
}

// === impl Index ===

impl Index {
    pub(super) fn new<'p>(routes: impl Iterator<Item = &'p [Predicate]>) -> Self {
        Self::of_keys(routes.map(|predicates| (path_prefixes(predicates), host_suffixes(predicates))))
    }

    /// Creates an index of routes by path prefixes and texts; `None` stands for any path and any text.
    pub(super) fn of_keys<'p>(
        routes: impl Iterator<Item = (Option<Vec<PathPrefix<'p>>>, Option<Vec<String>>)>,
    ) -> Self {
        let mut index = Self::default();
        for (route, (prefixes, texts)) in routes.enumerate() {
            let prefixes = prefixes.unwrap_or_else(|| vec![PathPrefix::new()]);
            let texts = texts.filter(|texts| texts.len() * prefixes.len() <= MAX_PAIRS);
            for prefix in &prefixes {
                let prefix = prefix.get(..MAX_DEPTH).unwrap_or(prefix);
                index.root.descend(prefix).add(texts.as_deref(), route);
            }
        }
        index
    }

    /// Returns the positions of all routes that can match, and of few others, in ascending order.
    #[inline]
    pub(super) fn candidates(&self, request: &RequestView<'_>) -> Candidates<'_> {
        let mut candidates = Candidates::default();
        let host = LazyCell::new(|| request.host());
        self.root.collect(request.path.strip_prefix('/'), &host, &mut candidates);
        candidates.sort();
        candidates
    }

    /// Returns the positions of all routes with a path prefix that one of `paths` has, too, and any text or one of `texts`,
    /// in ascending order. Any segment of a path has only the prefixes with any segment there.
    pub(super) fn covering(&self, paths: &[PathPrefix<'_>], texts: &[String]) -> Candidates<'_> {
        let mut candidates = Candidates::default();
        self.root.collect_texts(texts, &mut candidates);
        paths.iter().for_each(|path| self.root.collect_below(path, texts, &mut candidates));
        candidates.sort();
        candidates
    }
}

// === impl Node ===

impl Node {
    fn descend(&mut self, prefix: &[Option<&str>]) -> &mut Self {
        let Some((first, rest)) = prefix.split_first() else { return self };
        let child = match first {
            Some(text) => self.children.entry((*text).into()).or_default(),
            None => self.wildcard.get_or_insert_default(),
        };
        child.descend(rest)
    }

    fn add(&mut self, suffixes: Option<&[String]>, route: usize) {
        let add = |routes: &mut Routes| {
            if routes.last() != Some(&route) {
                routes.push(route);
            }
        };
        match suffixes {
            None => add(&mut self.routes),
            Some(suffixes) => {
                suffixes.iter().for_each(|suffix| add(self.texts.entry(suffix.as_str().into()).or_default()));
            }
        }
    }

    /// Adds the routes of this node, and of the nodes below it on the path `remaining`. The depth is at most [`MAX_DEPTH`].
    /// The host is looked up for nodes with hosts only.
    fn collect<'i, 'r, F: FnOnce() -> Option<&'r str>>(
        &'i self,
        remaining: Option<&str>,
        host: &LazyCell<Option<&'r str>, F>,
        candidates: &mut Candidates<'i>,
    ) {
        candidates.push(&self.routes);
        if !self.texts.is_empty()
            && let Some(host) = **host
        {
            let lists = suffixes(host).take(MAX_LABELS).filter_map(|suffix| self.texts.get(suffix));
            lists.for_each(|routes| candidates.push(routes));
        }
        let Some(remaining) = remaining else { return };
        if self.children.is_empty() && self.wildcard.is_none() {
            return;
        }
        let (segment, rest) = split_segment(remaining, '/');
        // Patterns are matched without matrix parameters and decoded.
        if let Some(child) = self.children.get(&*SegmentText::of_path(segment).decoded()) {
            child.collect(rest, host, candidates);
        }
        if let Some(wildcard) = &self.wildcard {
            wildcard.collect(rest, host, candidates);
        }
    }
}

impl Node {
    fn collect_texts<'i>(&'i self, texts: &[String], candidates: &mut Candidates<'i>) {
        let texts = texts.iter().filter_map(|text| self.texts.get(&**text));
        for routes in std::iter::once(&self.routes).chain(texts) {
            candidates.push(routes.get(..MAX_COVERING).unwrap_or(routes));
        }
    }

    /// Adds the routes of the nodes below this one on `path`.
    fn collect_below<'i>(&'i self, path: &[Option<&str>], texts: &[String], candidates: &mut Candidates<'i>) {
        let Some((first, rest)) = path.split_first() else { return };
        let child = first.and_then(|text| self.children.get(text));
        for node in child.into_iter().chain(self.wildcard.as_deref()) {
            node.collect_texts(texts, candidates);
            node.collect_below(rest, texts, candidates);
        }
    }
}

// === impl Candidates ===

impl<'i> Candidates<'i> {
    fn sort(&mut self) {
        self.overflow.sort_unstable_by(|one, other| other.cmp(one));
    }

    fn push(&mut self, list: &'i [usize]) {
        if list.is_empty() {
            return;
        }
        match self.inline.get_mut(self.used) {
            Some(slot) => {
                *slot = list;
                self.used += 1;
            }
            None => self.overflow.extend_from_slice(list),
        }
    }
}

impl Iterator for Candidates<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let inline = self.inline.get_mut(..self.used)?;
        let next = inline.iter().filter_map(|list| list.first()).chain(self.overflow.last()).min().copied()?;
        for list in inline {
            if list.first() == Some(&next) {
                *list = list.get(1..).unwrap_or_default();
            }
        }
        while self.overflow.pop_if(|last| *last == next).is_some() {}
        Some(next)
    }
}

/// Number of host labels that the index distinguishes: `tenant.eu.shop.example.com` has five.
pub(super) const MAX_LABELS: usize = 6;

/// The leading segments of a path; `None` is any segment.
pub(super) type PathPrefix<'p> = Vec<Option<&'p str>>;

/// Returns keys of which each request that `predicates` accept has at least one, such as path prefixes; `None` if the
/// predicates demand none. `of_one` returns the keys of a predicate without members.
///
/// All predicates must hold, so the keys of any one of them are sufficient: those of the highest `rank` exclude the most
/// routes.
pub(super) fn required_keys<'p, K, R: Ord>(
    predicates: &'p [Predicate],
    of_one: &impl Fn(&'p Predicate) -> Option<Vec<K>>,
    rank: &impl Fn(&[K]) -> R,
) -> Option<Vec<K>> {
    let of_each = |predicate: &'p Predicate| match predicate.combination() {
        Some(Combination::All(members)) => required_keys(members, of_one, rank),
        Some(Combination::Any(members)) => {
            let required = |member| required_keys(std::slice::from_ref(member), of_one, rank);
            let all: Option<Vec<_>> = members.iter().map(required).collect();
            all.map(|lists| lists.into_iter().flatten().collect())
        }
        None => of_one(predicate),
    };
    predicates.iter().filter_map(of_each).max_by_key(|keys| rank(keys))
}

/// Returns path prefixes of which each matching path has at least one: the list whose shortest prefix is the longest.
pub(super) fn path_prefixes(predicates: &[Predicate]) -> Option<Vec<PathPrefix<'_>>> {
    let of_one = |predicate| Some(Predicate::path_patterns(predicate)?.iter().map(prefix_of).collect());
    required_keys(predicates, &of_one, &|prefixes: &[PathPrefix<'_>]| prefixes.iter().map(Vec::len).min())
}

fn prefix_of(pattern: &PathPattern) -> PathPrefix<'_> {
    let mut prefix: PathPrefix<'_> = pattern.prefix().collect();
    // Trailing wildcards do not distinguish routes.
    prefix.truncate(prefix.iter().rposition(Option::is_some).map_or(0, |last| last + 1));
    prefix
}

/// Returns host suffixes of which each matching host has at least one: the list whose shortest suffix is the longest.
pub(super) fn host_suffixes(predicates: &[Predicate]) -> Option<Vec<String>> {
    let suffix_of = |pattern: &HostPattern| pattern.literal_suffix(MAX_LABELS);
    let of_one = |predicate: &Predicate| predicate.host_patterns()?.iter().map(suffix_of).collect();
    required_keys(predicates, &of_one, &|suffixes: &[String]| suffixes.iter().map(String::len).min())
}
