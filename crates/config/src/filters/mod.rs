//! Filters by name: what each does, its arguments, and how it is read. One table for dispatch, messages and
//! documentation.

mod answers;
pub(crate) mod edit_checks;
mod edits;
mod entry;
pub(crate) mod forward;
mod layers;
mod limits;
mod parameters;
pub(crate) mod raw;
mod resilience;
mod responses;
mod targets;

use crate::diagnostics::{Diagnostics, closest};
use crate::model::Filter;
use crate::spring::names::refusal;
use crate::spring::spec::Written;

pub use self::entry::{Argument, Entry};
pub(crate) use self::entry::{Call, Settings};
pub(crate) use self::layers::cache_for_all;
pub(crate) use self::resilience::bind;

/// Every filter, by name.
pub fn filters() -> impl Iterator<Item = &'static Entry> {
    let tables = [
        answers::ENTRIES,
        edits::ENTRIES,
        layers::ENTRIES,
        limits::ENTRIES,
        parameters::ENTRIES,
        resilience::ENTRIES,
        responses::ENTRIES,
        targets::ENTRIES,
    ];
    tables.into_iter().flatten()
}

/// The names of all filters, sorted.
pub(crate) fn names() -> Vec<&'static str> {
    let mut names: Vec<_> = filters().map(|entry| entry.name).collect();
    names.sort_unstable();
    names
}

/// The filter that `written` means; `None` when it cannot be used, which `sink` then knows.
pub(crate) fn check(written: &Written, settings: &Settings<'_>, diagnostics: &mut Diagnostics) -> Option<Filter> {
    let Some(entry) = filters().find(|entry| entry.name == written.name) else {
        unknown(written, diagnostics);
        return None;
    };
    // Limiters have key resolvers and read all of theirs themselves.
    if !entry.args.is_empty() && written.refuse_expressions(diagnostics) {
        return None;
    }
    (entry.check)(&Call { written, args: entry.args, settings }, diagnostics)
}

fn unknown(written: &Written, diagnostics: &mut Diagnostics) {
    let name = written.name.as_str();
    if let Some(refusal) = refusal(name) {
        diagnostics
            .error(written.span, format!("filter `{name}` cannot be used: {}", refusal.reason))
            .help(refusal.instead);
        return;
    }
    diagnostics.error(written.span, format!("unknown filter `{name}`")).help(match closest(name, names()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("filters: {}", names().join(", ")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_filter_stands_in_the_table_once_and_says_what_it_does() {
        let mut seen = names();
        seen.dedup();
        assert_eq!(seen.len(), filters().count());
        for entry in filters() {
            assert!(entry.doc.ends_with('.'), "{}", entry.name);
            assert!(entry.args.iter().all(|argument| argument.doc.ends_with('.')), "{}", entry.name);
        }
    }
}
