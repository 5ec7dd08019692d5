//! Predicates by the rows of `tollgate-routing`: reads their values, and reports remarks at their places.

use crate::diagnostics::Diagnostics;
use crate::predicates::entry::{Checked, PredicateInput, take_named};
use crate::spec::PredicateSpec;
use crate::spec::definition::Arg;
use tollgate_routing::{PredicateForm, PredicateRow, PredicateValues, RemarkAbout};

/// Makes the predicate of `row`. Reports missing and unknown values, and the row's remarks.
pub(super) fn check(row: &PredicateRow, input: &PredicateInput<'_>, diagnostics: &mut Diagnostics) -> Checked {
    let mut spec = input.spec.clone();
    let option = match &row.form {
        PredicateForm::ListWithOption([_, option], _) => take_named(&mut spec, option.name),
        _ => None,
    };
    let input = PredicateInput { spec: &spec, ..*input };
    report_remarks(row, &input, option.as_ref(), diagnostics);
    Some(match row.form {
        PredicateForm::NoArguments(new) => {
            let [] = input.arguments(diagnostics);
            Ok(new())
        }
        PredicateForm::One(_, new) => {
            let ([text], [_]) = input.texts(diagnostics)?;
            new(text)
        }
        PredicateForm::OneWithSettings(_, new) => {
            let ([text], [_]) = input.texts(diagnostics)?;
            new(text, &input.context.settings)
        }
        PredicateForm::Two(_, new) => {
            let ([first, second], [_, _]) = input.texts(diagnostics)?;
            new(first, second)
        }
        PredicateForm::OneOrTwo(_, new) => {
            let ([first], [_, second]) = input.texts(diagnostics)?;
            new(first, second)
        }
        PredicateForm::List(_, new) => new(&input.list(diagnostics)?),
        PredicateForm::ListWithOption(_, new) => {
            new(&input.list(diagnostics)?, option.as_ref().map(|arg| arg.value.as_str()))
        }
    })
}

fn report_remarks(row: &PredicateRow, input: &PredicateInput<'_>, option: Option<&Arg>, diagnostics: &mut Diagnostics) {
    let Some(remarks) = row.remarks else { return };
    let spec: &PredicateSpec = input.spec;
    let texts: Vec<String> = spec.args.iter().map(|arg| arg.value.clone()).collect();
    let option_text = option.map(|arg| arg.value.as_str());
    let values = PredicateValues { texts: &texts, option: option_text, settings: &input.context.settings };
    for remark in remarks(&values) {
        let place = match remark.about {
            RemarkAbout::Predicate => None,
            RemarkAbout::Text(index) => spec.args.get(index).map(|arg| arg.span),
            RemarkAbout::Option => option.map(|arg| arg.span.key()),
        };
        let place = place.unwrap_or(spec.span);
        match remark.is_mistake {
            true => diagnostics.mistake(place, remark.message),
            false => diagnostics.warn(place, remark.message),
        }
        .help(remark.help);
    }
}
