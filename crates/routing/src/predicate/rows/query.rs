//! `Query`: the parameters of the query.

use std::borrow::Cow;
use std::fmt;

use crate::decision::Decision;
use crate::error::PredicateError;
use crate::normalize::hex;
use crate::predicate::Predicate;
use crate::predicate::condition::{Condition, OrNull, observe_values};
use crate::predicate::row::{PredicateArgument, PredicateForm, PredicateRow};
use crate::predicate::value_regex::{OPTIONAL_REGEXP, ValueRegex};
use crate::request::{RequestPart, RequestView};

pub(super) const QUERY: PredicateRow = PredicateRow {
    name: "Query",
    doc: "A value of the parameter matches; without `regexp`, the parameter exists.",
    form: PredicateForm::OneOrTwo(
        [PredicateArgument::text("param", "Parameter name."), OPTIONAL_REGEXP],
        Predicate::query,
    ),
    remark: None,
};

#[derive(Clone, Debug, PartialEq)]
struct Query {
    param: Box<str>,
    regexp: Option<ValueRegex>,
}

impl Predicate {
    /// `Query`: a value of the parameter matches the whole of `regexp`. Without `regexp`, the parameter must be present.
    ///
    /// Names and values are decoded, `+` to a space. A parameter without `=` has no value, so no expression matches it.
    ///
    /// # Errors
    /// Returns an error for an empty name, or for an invalid expression.
    pub fn query(param: &str, regexp: Option<&str>) -> Result<Self, PredicateError> {
        if param.is_empty() {
            return Err(PredicateError::NoValues { kind: "parameter name" });
        }
        Ok(Self::other(Query { param: param.into(), regexp: ValueRegex::parse_optional(regexp)? }))
    }
}

impl Condition for Query {
    fn decide(&self, request: &RequestView<'_>) -> Decision {
        Decision::any(query_values(request, &self.param).map(|value| match (&self.regexp, value) {
            (Some(regexp), Some(value)) => regexp.decide(&value),
            (Some(_), None) => Decision::No,
            (None, _) => Decision::Yes,
        }))
    }

    fn observe(&self, request: &RequestView<'_>) -> String {
        let values: Vec<_> = query_values(request, &self.param).map(Option::unwrap_or_default).collect();
        observe_values("parameter", &self.param, &values)
    }

    fn reads(&self) -> Vec<RequestPart<'_>> {
        vec![RequestPart::Query]
    }
}

impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Query: param={} regexp=", self.param)?;
        OrNull(&self.regexp).fmt(f)
    }
}

/// Returns the decoded values of `param`; `None` for a parameter without `=`.
pub(in crate::predicate) fn query_values<'r>(
    request: &RequestView<'r>,
    param: &str,
) -> impl Iterator<Item = Option<Cow<'r, str>>> {
    request.query.unwrap_or_default().split('&').filter_map(move |pair| {
        let (name, value) = pair.split_once('=').map_or((pair, None), |(name, value)| (name, Some(value)));
        (!name.is_empty() && decode(name) == param).then(|| value.map(decode))
    })
}

/// Decodes a name or value in `application/x-www-form-urlencoded`. A `%` that starts no escape is kept.
fn decode(text: &str) -> Cow<'_, str> {
    if !text.bytes().any(|byte| matches!(byte, b'%' | b'+')) {
        return Cow::Borrowed(text);
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, others @ ..] = rest {
        let escaped = match others {
            [high, low, after @ ..] if *first == b'%' => {
                hex(*high).zip(hex(*low)).map(|(high, low)| (high << 4 | low, after))
            }
            _ => None,
        };
        let plain = if *first == b'+' { b' ' } else { *first };
        let (byte, after) = escaped.unwrap_or((plain, others));
        bytes.push(byte);
        rest = after;
    }
    Cow::Owned(String::from_utf8_lossy(&bytes).into_owned())
}
