//! A row of the table of predicates, the input of its check, and the check of the rows of `tollgate-routing`.

use crate::de::same_name;
use crate::diagnostics::{Diagnostics, Reported};
use crate::predicates::context::PredicateContext;
use crate::spec::{Arg, PredicateSpec, Rejection};
use tollgate_routing::{Predicate, PredicateArgument, PredicateError, PredicateForm, PredicateRow};

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
    pub(super) spec: &'c PredicateSpec<'c>,
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
        let args = self.arguments::<N>(diagnostics);
        let mut required = [""; R];
        for ((text, arg), argument) in required.iter_mut().zip(args).zip(self.args) {
            let spec = self.spec;
            let message = || format!("`{}` needs the argument `{}`", spec.name, argument.name);
            *text = &arg.ok_or_else(|| diagnostics.error(spec.span, message()).reported())?.value;
        }
        Ok((required, args.map(|arg| arg.map(|arg| arg.value.as_str()))))
    }
}

/// Removes the argument `name` from the list.
pub(super) fn take_named(spec: &mut PredicateSpec<'_>, name: &str) -> Option<Arg> {
    let is_it = |arg: &Arg| arg.name.as_deref().is_some_and(|given| same_name(given, name));
    let at = spec.args.iter().position(is_it)?;
    Some(spec.args.remove(at))
}

/// Makes the predicate of `row`. Reports missing and unknown values, and the row's remark.
pub(super) fn check_row(row: &PredicateRow, input: &PredicateInput<'_>, diagnostics: &mut Diagnostics) -> Checked {
    let mut spec = input.spec.clone();
    let option = match &row.form {
        PredicateForm::ListWithOption([_, option], _) => take_named(&mut spec, option.name),
        _ => None,
    };
    let input = PredicateInput { spec: &spec, ..*input };
    if let Some(remark) = row.remark.and_then(|remark| remark(&input.context.settings)) {
        match remark.is_mistake {
            true => diagnostics.mistake(spec.span, remark.message),
            false => diagnostics.warn(spec.span, remark.message),
        }
        .help(remark.help);
    }
    Ok(match row.form {
        PredicateForm::NoArguments(new) => {
            let [] = input.arguments(diagnostics);
            new()
        }
        PredicateForm::One(_, new) => {
            let ([text], [_]) = input.texts(diagnostics)?;
            new(text, &input.context.settings)?
        }
        PredicateForm::Two(_, new) => {
            let ([first, second], [_, _]) = input.texts(diagnostics)?;
            new(first, second)?
        }
        PredicateForm::OneOrTwo(_, new) => {
            let ([first], [_, second]) = input.texts(diagnostics)?;
            new(first, second)?
        }
        PredicateForm::List(_, new) => new(&input.list(diagnostics)?)?,
        PredicateForm::ListWithOption(_, new) => {
            new(&input.list(diagnostics)?, option.as_ref().map(|arg| arg.value.as_str()))?
        }
    })
}
