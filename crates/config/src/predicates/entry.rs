//! One row of the table of predicates.

use tollgate_routing::{Predicate, PredicateError};

use crate::de::arg::Arg;
use crate::diagnostics::Diagnostics;
use crate::filters::Argument;
use crate::predicates::settings::Settings;
use crate::spring::spec::Written;

/// A predicate that routes can have.
#[derive(Debug)]
pub struct Entry {
    /// Its name, as Spring Cloud Gateway has it.
    pub name: &'static str,
    /// When it holds, as one sentence of Markdown.
    pub doc: &'static str,
    /// Its arguments in the order of the shortcut `Name=a,b`.
    pub args: &'static [Argument],
    /// How the arguments of the shortcut are divided.
    pub takes: Takes,
    pub(super) check: fn(&Call<'_>, &mut Diagnostics) -> Option<Result<Predicate, PredicateError>>,
}

/// How the arguments of a shortcut are divided between those of its predicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// One each.
    Each,
    /// All to the first, which is a list. Others are written by name.
    List,
    /// All to the first, but a last `true` or `false`, which is the second's.
    ListAndFlag,
}

/// A predicate as written, about to be read.
pub(super) struct Call<'c> {
    pub(super) written: &'c Written,
    pub(super) args: &'static [Argument],
    pub(super) settings: &'c Settings<'c>,
}

impl<'c> Call<'c> {
    /// The first `N` arguments of the entry, which has as many: those that are written.
    pub(super) fn bind<const N: usize>(&self, diagnostics: &mut Diagnostics) -> [Option<&'c Arg>; N] {
        let names = std::array::from_fn(|at| self.args.get(at).map_or("", |argument| argument.name));
        self.written.bind(names, diagnostics)
    }

    /// As [`Self::bind`], the first `R` of which must be there.
    pub(super) fn texts<const R: usize, const N: usize>(
        &self,
        diagnostics: &mut Diagnostics,
    ) -> Option<([&'c str; R], [Option<&'c str>; N])> {
        let bound = self.bind::<N>(diagnostics);
        let mut required = [""; R];
        for ((text, arg), argument) in required.iter_mut().zip(bound).zip(self.args) {
            *text = &self.written.required(arg, argument.name, diagnostics)?.value;
        }
        Some((required, bound.map(|arg| arg.map(|arg| arg.value.as_str()))))
    }
}
