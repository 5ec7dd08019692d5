//! What a route's predicates say of the paths and hosts that it could take.

use super::super::path::PathPattern;
use super::super::predicate::Predicate;

/// Labels that hosts are told apart by: `tenant.eu.shop.example.com` has five.
pub(super) const MAX_LABELS: usize = 6;

/// How paths may start: a text or anything, segment by segment.
pub(super) type Start<'p> = Vec<Option<&'p str>>;

/// One of the starts begins each path that the predicates match; none where nothing is known.
///
/// All predicates must hold, so any one's starts narrow correctly. Those whose shortest is longest narrow best.
pub(super) fn starts<'p>(predicates: impl IntoIterator<Item = &'p Predicate>) -> Option<Vec<Start<'p>>> {
    let known = predicates.into_iter().filter_map(starts_of);
    known.max_by_key(|starts| starts.iter().map(Vec::len).min())
}

fn starts_of(predicate: &Predicate) -> Option<Vec<Start<'_>>> {
    match predicate.members() {
        Some((members, true)) => starts(members),
        Some((members, false)) => {
            let all: Option<Vec<_>> = members.iter().map(starts_of).collect();
            all.map(|lists| lists.into_iter().flatten().collect())
        }
        None => Some(predicate.path_patterns()?.iter().map(start_of).collect()),
    }
}

fn start_of(pattern: &PathPattern) -> Start<'_> {
    let mut start: Start<'_> = pattern.start().collect();
    // What is anything to the end tells no routes apart.
    start.truncate(start.iter().rposition(Option::is_some).map_or(0, |last| last + 1));
    start
}

/// One of the endings ends each host that the predicates match; none where nothing is known.
pub(super) fn endings<'p>(predicates: impl IntoIterator<Item = &'p Predicate>) -> Option<Vec<String>> {
    let known = predicates.into_iter().filter_map(endings_of);
    known.max_by_key(|endings| endings.iter().map(String::len).min())
}

fn endings_of(predicate: &Predicate) -> Option<Vec<String>> {
    match predicate.members() {
        Some((members, true)) => endings(members),
        Some((members, false)) => {
            let all: Option<Vec<_>> = members.iter().map(endings_of).collect();
            all.map(|lists| lists.into_iter().flatten().collect())
        }
        None => predicate.host_patterns()?.iter().map(|pattern| pattern.literal_ending(MAX_LABELS)).collect(),
    }
}
