//! Predicates and filters as the file specifies them: `Name=a,b`, or a name and named arguments.
//!
//! [`parse`] reads the text or map into a [`Spec`]; [`tree`] turns its arguments into nodes for the positioned
//! deserializer.

mod argument_types;
mod definition;
mod keys;
mod masked;
mod parse;
#[cfg(test)]
mod schema;
mod tree;

use http::StatusCode;
use http::header::HeaderName;
use tollgate_limiter::rule::RuleError;
use tollgate_routing::PredicateError;

use crate::de::{Size, Spanned, parse_flag};
use crate::diagnostics::{Diagnostics, Reported};
use crate::spec::definition::Spec;
use crate::yaml::Span;

pub(crate) use self::argument_types::{
    BufferSize, Count, FieldName, Fraction, HeaderText, Instant, MAX_COUNT, MethodName, Number, Percent, Rate,
    Segments, Text, TimeArgument, time_argument,
};
pub use self::argument_types::{Status, time_with_unit};
pub(crate) use self::definition::{Arg, flatten};
pub(crate) use self::keys::key_of;
pub use self::keys::{redis_keys, with_keys};
pub use self::masked::Audience;
pub(crate) use self::parse::{NamedForm, Syntax};
#[cfg(test)]
pub(crate) use self::schema::{
    DocumentedEntry, argument_map, arguments, definition, describe_default, with_dotted_names, with_prefixed_names,
};
pub(crate) use self::tree::Shortcut;

/// A filter as the file specifies it.
pub(crate) type FilterSpec<'n> = Spec<'n>;
/// A predicate as the file specifies it.
pub(crate) type PredicateSpec<'n> = Spec<'n>;

/// Reason why arguments make no predicate or rule.
#[derive(Debug)]
pub(crate) enum Rejection<E> {
    /// An error is reported.
    Reported(Reported),
    /// The values are invalid, which is not reported yet.
    Invalid(E),
}

impl<E> Rejection<E> {
    /// Reports the error by `report`, unless it is reported.
    pub(crate) fn reported(self, report: impl FnOnce(&E) -> Reported) -> Reported {
        match self {
            Self::Reported(reported) => reported,
            Self::Invalid(error) => report(&error),
        }
    }
}

impl<E> From<Reported> for Rejection<E> {
    fn from(reported: Reported) -> Self {
        Self::Reported(reported)
    }
}

impl From<RuleError> for Rejection<RuleError> {
    fn from(error: RuleError) -> Self {
        Self::Invalid(error)
    }
}

impl From<PredicateError> for Rejection<PredicateError> {
    fn from(error: PredicateError) -> Self {
        Self::Invalid(error)
    }
}

/// Reads `true` or `false`.
pub(crate) fn flag(arg: &Arg, diagnostics: &mut Diagnostics) -> Result<bool, Reported> {
    parse_flag(&arg.value)
        .ok_or_else(|| diagnostics.error(arg.span, format!("expected true or false, found `{}`", arg.value)).reported())
}

/// Returns the status of refusals, or `default` if absent. Reports one that is not an error status.
pub(crate) fn refusal(
    status: Option<Spanned<Status>>,
    default: StatusCode,
    diagnostics: &mut Diagnostics,
) -> StatusCode {
    let Some(Spanned { value: Status(status), span }) = status else { return default };
    if !status.is_client_error() && !status.is_server_error() {
        diagnostics
            .mistake(span, format!("expected an error status from 400 to 599, found {}", status.as_u16()))
            .help("429 is Too Many Requests, 403 Forbidden, 503 Service Unavailable");
    }
    status
}

/// Reads a header name.
pub(crate) fn header_name(text: &str, at: Span, diagnostics: &mut Diagnostics) -> Option<HeaderName> {
    HeaderName::from_bytes(text.trim().as_bytes())
        .map_err(|_| diagnostics.error(at, format!("`{text}` is not a valid header name")))
        .ok()
}

/// Returns the bytes of `size`, or `default` if absent. Reports 0.
pub(crate) fn above_zero(size: Option<&Spanned<Size>>, default: u64, diagnostics: &mut Diagnostics) -> u64 {
    let Some(size) = size else { return default };
    if size.value.0 == 0 {
        diagnostics.error(size.span, "must be more than 0 bytes");
    }
    size.value.0
}
