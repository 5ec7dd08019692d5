//! Path prefixes and host suffixes of a route's predicates: the keys of the index.

use crate::host::HostPattern;
use crate::path::PathPattern;
use crate::predicate::{Combination, Predicate};

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
