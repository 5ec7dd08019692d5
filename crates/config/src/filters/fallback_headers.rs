//! `FallbackHeaders`.

use http::header::HeaderName;
use tollgate_filters::fallback_headers::HeaderNames;

use crate::diagnostics::Diagnostics;
use crate::filters::entry::{Arguments, Entry, FilterInput};
use crate::filters::model::Filter;
use crate::spec::argument::{Argument, ArgumentType};
use crate::spec::values::header_name;

pub(super) const ENTRIES: &[Entry] = &[Entry {
    name: "FallbackHeaders",
    doc: "Adds request headers that tell a circuit breaker's fallback about the failure.",
    args: Arguments::Listed(&[
        name("executionExceptionTypeHeaderName", "Header with the exception. Default `Execution-Exception-Type`."),
        name("executionExceptionMessageHeaderName", "Header with its message. Default `Execution-Exception-Message`."),
        name("rootCauseExceptionTypeHeaderName", "Header with its root cause. Default `Root-Cause-Exception-Type`."),
        name(
            "rootCauseExceptionMessageHeaderName",
            "Header with the message of the root cause. Default `Root-Cause-Exception-Message`.",
        ),
    ]),
    check,
}];

const fn name(name: &'static str, doc: &'static str) -> Argument {
    Argument::new(name, doc).of(ArgumentType::HeaderName)
}

fn check(input: &FilterInput<'_>, diagnostics: &mut Diagnostics) -> Option<Filter> {
    if let Some(arg) = input.spec.args.iter().find(|arg| arg.name.is_none()) {
        diagnostics
            .mistake(arg.span, format!("the shortcut form of `FallbackHeaders` has no argument for `{}`", arg.value))
            .help("use the long form for all arguments: `name: FallbackHeaders` and `args:`");
        return Some(Filter::FallbackHeaders(HeaderNames::default()));
    }
    let found: [_; 4] = input.arguments(diagnostics);
    let mut names = HeaderNames::default();
    let fields: [&mut HeaderName; 4] =
        [&mut names.execution_type, &mut names.execution_message, &mut names.root_type, &mut names.root_message];
    for (arg, field) in found.into_iter().zip(fields) {
        if let Some(arg) = arg {
            *field = header_name(&arg.value, arg.span, diagnostics)?;
        }
    }
    Some(Filter::FallbackHeaders(names))
}
