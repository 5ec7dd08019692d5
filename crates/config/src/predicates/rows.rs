//! Predicates by the rows of `tollgate-routing`: reads their values, and reports their remarks.

use crate::diagnostics::Diagnostics;
use crate::predicates::entry::{Checked, PredicateInput, take_named};
use tollgate_routing::{PredicateForm, PredicateRow};

/// Makes the predicate of `row`. Reports missing and unknown values, and the row's remark.
pub(super) fn check(row: &PredicateRow, input: &PredicateInput<'_>, diagnostics: &mut Diagnostics) -> Checked {
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
            new(text)?
        }
        PredicateForm::OneWithSettings(_, new) => {
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
