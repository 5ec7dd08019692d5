//! One row of the table of filters, and the settings that all rows read.

use std::cell::RefCell;
use std::collections::BTreeSet;

use http::header::HeaderName;

use crate::de::arg::Arg;
use crate::de::nodes::Nodes;
use crate::diagnostics::Diagnostics;
use crate::filters::raw::RawFilterSettings;
use crate::model::Filter;
use crate::rate_limiter::Limits;
use crate::sections::resilience::Resilience;
use crate::sections::upstreams::Named;
use crate::spring::names::KnownNames;
use crate::spring::spec::Written;
use crate::spring::switches::Switches;
use crate::yaml::Span;

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
    pub(super) check: fn(&Call<'_>, &mut Diagnostics) -> Option<Filter>,
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
    /// `filter`.
    pub(crate) raw: &'s RawFilterSettings,
    /// Nodes of the file.
    pub(crate) nodes: &'s Nodes<'s>,
    /// Names of predicates and filters.
    pub(crate) names: &'s KnownNames,
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
pub(crate) struct Call<'c> {
    pub(super) written: &'c Written,
    pub(super) args: &'static [Argument],
    pub(super) settings: &'c Settings<'c>,
}

impl Argument {
    /// The argument `name`, which `doc` tells about.
    pub(crate) const fn new(name: &'static str, doc: &'static str) -> Self {
        Self { name, doc }
    }
}

impl<'c> Call<'c> {
    /// The first `N` arguments of the entry, which has as many: those that are written.
    pub(super) fn bind<const N: usize>(&self, diagnostics: &mut Diagnostics) -> [Option<&'c Arg>; N] {
        let names = std::array::from_fn(|at| self.args.get(at).map_or("", |argument| argument.name));
        self.written.bind(names, diagnostics)
    }

    /// As [`Self::bind`], and every one must be there.
    pub(super) fn texts<const N: usize>(&self, diagnostics: &mut Diagnostics) -> Option<[&'c str; N]> {
        let bound = self.bind::<N>(diagnostics);
        let mut texts = [""; N];
        for ((text, arg), argument) in texts.iter_mut().zip(bound).zip(self.args) {
            *text = &self.written.required(arg, argument.name, diagnostics)?.value;
        }
        Some(texts)
    }
}
