//! Filters by name: what each does, its arguments, and how it is read. One table for dispatch, messages and
//! documentation.

mod answers;
pub(crate) mod edit_checks;
mod edits;
mod layers;
mod limits;
pub(crate) mod model;
mod parameters;
pub(crate) mod raw;
mod resilience;
mod responses;
mod targets;

use std::cell::RefCell;
use std::collections::BTreeSet;

use http::header::HeaderName;

use crate::check::Nodes;
use crate::diagnostics::{Diagnostics, closest};
use crate::model::Filter;
use crate::rate_limiter::Limits;
use crate::raw::RawConfig;
use crate::routes::definition::{Arg, Written};
use crate::sections::resilience::Resilience;
use crate::sections::upstreams::Named;
use crate::spring::names::{Known, look_up};
use crate::spring::switches::Switches;
use crate::yaml::Span;

pub(crate) use self::layers::cache_for_all;
pub(crate) use self::resilience::bind;

/// A filter that routes can have.
#[derive(Debug)]
pub struct Entry {
    /// Its name, as Spring Cloud Gateway has it where it is Spring's.
    pub name: &'static str,
    /// What it does, as one sentence of Markdown.
    pub doc: &'static str,
    /// Its arguments in the order of the shortcut `Name=a,b`. Filters that have rooms of their own in the documents
    /// list none.
    pub args: &'static [Argument],
    check: fn(&Call<'_>, &mut Diagnostics) -> Option<Filter>,
}

/// An argument of a filter.
#[derive(Clone, Copy, Debug)]
pub struct Argument {
    /// Its name.
    pub name: &'static str,
    /// What it says, with unit and default, as one sentence of Markdown.
    pub doc: &'static str,
}

/// What filters of one file have in common.
pub(crate) struct Settings<'s> {
    /// The file.
    pub(crate) raw: &'s RawConfig,
    /// Its nodes.
    pub(crate) nodes: &'s Nodes<'s>,
    /// What is switched off.
    pub(crate) switches: &'s Switches,
    /// What limiters have in common.
    pub(crate) limits: Limits<'s>,
    /// Circuit breakers by name.
    pub(crate) resilience: Resilience,
    /// The names of those that routes have, as they are met.
    pub(crate) breakers: RefCell<BTreeSet<String>>,
    /// Paths that requests are forwarded to within the gateway, as they are met.
    pub(crate) forwards: RefCell<Vec<(Span, String)>>,
    /// `set-status.original-status-header-name`.
    pub(crate) original_status_header: Option<HeaderName>,
    /// `upstreams`.
    pub(crate) upstreams: Named,
}

/// A filter as written, about to be read.
struct Call<'c> {
    written: &'c Written,
    args: &'static [Argument],
    settings: &'c Settings<'c>,
}

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
    match look_up(name) {
        Known::Later => diagnostics
            .error(written.span, format!("filter `{name}` is not supported yet"))
            .help("remove it, or keep this route on Spring Cloud Gateway for now"),
        Known::Refused(why, instead) => {
            diagnostics.error(written.span, format!("filter `{name}` cannot be used: {why}")).help(instead)
        }
        Known::No => {
            diagnostics.error(written.span, format!("unknown filter `{name}`")).help(match closest(name, names()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("filters: {}", names().join(", ")),
            })
        }
    }
}

impl Argument {
    /// The argument `name`, which `doc` tells about.
    pub(super) const fn new(name: &'static str, doc: &'static str) -> Self {
        Self { name, doc }
    }
}

impl<'c> Call<'c> {
    /// The first `N` arguments of the entry, which has as many: those that are written.
    fn bind<const N: usize>(&self, diagnostics: &mut Diagnostics) -> [Option<&'c Arg>; N] {
        let names = std::array::from_fn(|at| self.args.get(at).map_or("", |argument| argument.name));
        self.written.bind(names, diagnostics)
    }

    /// As [`Self::bind`], and every one must be there.
    fn texts<const N: usize>(&self, diagnostics: &mut Diagnostics) -> Option<[&'c str; N]> {
        let bound = self.bind::<N>(diagnostics);
        let mut texts = [""; N];
        for ((text, arg), argument) in texts.iter_mut().zip(bound).zip(self.args) {
            *text = &self.written.required(arg, argument.name, diagnostics)?.value;
        }
        Some(texts)
    }
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
