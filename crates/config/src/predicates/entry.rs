//! Rows of the table of predicates, and the input of their checks.

use crate::de::same_name;
use crate::diagnostics::{Diagnostics, Reported};
use crate::predicates::context::PredicateContext;
use crate::spec::PredicateSpec;
use crate::spec::definition::Arg;
use crate::spec::rejection::Rejection;
use tollgate_routing::{Predicate, PredicateArgument, PredicateError, PredicateRow};

/// A predicate that routes can have.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Its name, as Spring Cloud Gateway has it.
    pub name: &'static str,
    /// Its condition, as one sentence of Markdown.
    pub doc: &'static str,
    /// Its arguments in the order of the shortcut `Name=a,b`.
    pub(crate) args: &'static [PredicateArgument],
    pub(super) check: Check,
}

/// Check of a predicate's arguments.
#[derive(Clone, Copy, Debug)]
pub(super) enum Check {
    /// A check of its own.
    Own(fn(&PredicateInput<'_>, &mut Diagnostics) -> Checked),
    /// Passes the values to the constructor of a row.
    Row(&'static PredicateRow),
}

/// A predicate, or the reason why there is none.
pub(super) type Checked = Result<Predicate, Rejection<PredicateError>>;

/// The specification of a predicate, and what its check needs.
#[derive(Clone, Copy)]
pub(super) struct PredicateInput<'c> {
    pub(super) spec: &'c PredicateSpec,
    pub(super) args: &'static [PredicateArgument],
    pub(super) context: &'c PredicateContext<'c>,
}

impl Entry {
    /// Creates the entry of `row`.
    pub(super) fn of_row(row: &'static PredicateRow) -> Self {
        Self { name: row.name, doc: row.doc, args: row.form.arguments(), check: Check::Row(row) }
    }
}

impl<'c> PredicateInput<'c> {
    /// Returns the first `N` arguments of the entry, if the file has them.
    pub(super) fn arguments<const N: usize>(&self, diagnostics: &mut Diagnostics) -> [Option<&'c Arg>; N] {
        let names = std::array::from_fn(|at| self.args.get(at).map_or("", |argument| argument.name));
        self.spec.arguments(names, diagnostics)
    }

    /// Returns the values of the first `N` arguments of the entry, the first `R` also as texts. Reports missing ones of
    /// the first `R`.
    pub(super) fn texts<const R: usize, const N: usize>(
        &self,
        diagnostics: &mut Diagnostics,
    ) -> Result<([&'c str; R], [Option<&'c str>; N]), Reported> {
        let found = self.arguments::<N>(diagnostics);
        let mut required = [""; R];
        for ((text, arg), argument) in required.iter_mut().zip(found).zip(self.args) {
            *text = &self.spec.required(arg, argument.name, diagnostics)?.value;
        }
        Ok((required, found.map(|arg| arg.map(|arg| arg.value.as_str()))))
    }
}

/// Removes the argument `name` from the list.
pub(super) fn take_named(spec: &mut PredicateSpec, name: &str) -> Option<Arg> {
    let is_it = |arg: &Arg| arg.name.as_deref().is_some_and(|given| same_name(given, name));
    let at = spec.args.iter().position(is_it)?;
    Some(spec.args.remove(at))
}
