//! Path prefixes and host suffixes of a route's predicates: the keys of the index.

use crate::path::PathPattern;
use crate::predicate::{Combination, Predicate};

/// Number of host labels that the index distinguishes: `tenant.eu.shop.example.com` has five.
pub(super) const MAX_LABELS: usize = 6;

/// The leading segments of a path; `None` is any segment.
pub(super) type PathPrefix<'p> = Vec<Option<&'p str>>;

/// Returns path prefixes of which each matching path has at least one; `None` if the predicates do not limit the path.
///
/// All predicates must hold, so the prefixes of any one of them are sufficient. Chosen is the list whose shortest prefix is
/// the longest: it excludes the most routes.
pub(super) fn path_prefixes<'p>(predicates: impl IntoIterator<Item = &'p Predicate>) -> Option<Vec<PathPrefix<'p>>> {
    let known = predicates.into_iter().filter_map(prefixes_of);
    known.max_by_key(|prefixes| prefixes.iter().map(Vec::len).min())
}

fn prefixes_of(predicate: &Predicate) -> Option<Vec<PathPrefix<'_>>> {
    match predicate.combination() {
        Some(Combination::All(members)) => path_prefixes(members),
        Some(Combination::Any(members)) => {
            let all: Option<Vec<_>> = members.iter().map(prefixes_of).collect();
            all.map(|lists| lists.into_iter().flatten().collect())
        }
        None => Some(predicate.path_patterns()?.iter().map(prefix_of).collect()),
    }
}

fn prefix_of(pattern: &PathPattern) -> PathPrefix<'_> {
    let mut prefix: PathPrefix<'_> = pattern.prefix().collect();
    // Trailing wildcards do not distinguish routes.
    prefix.truncate(prefix.iter().rposition(Option::is_some).map_or(0, |last| last + 1));
    prefix
}

/// Returns host suffixes of which each matching host has at least one; `None` if the predicates do not limit the host.
pub(super) fn host_suffixes<'p>(predicates: impl IntoIterator<Item = &'p Predicate>) -> Option<Vec<String>> {
    let known = predicates.into_iter().filter_map(suffixes_of);
    known.max_by_key(|suffixes| suffixes.iter().map(String::len).min())
}

fn suffixes_of(predicate: &Predicate) -> Option<Vec<String>> {
    match predicate.combination() {
        Some(Combination::All(members)) => host_suffixes(members),
        Some(Combination::Any(members)) => {
            let all: Option<Vec<_>> = members.iter().map(suffixes_of).collect();
            all.map(|lists| lists.into_iter().flatten().collect())
        }
        None => predicate.host_patterns()?.iter().map(|pattern| pattern.literal_suffix(MAX_LABELS)).collect(),
    }
}
