//! The trait of conditions, and helpers for their texts.

use std::any::Any;
use std::borrow::Cow;
use std::fmt;

use http::HeaderValue;

use crate::decision::Decision;
use crate::error::PredicateError;
use crate::request::{RequestPart, RequestView};

/// A condition on a request that contains no other predicates. `Display` shows it as Spring Cloud Gateway does.
pub(super) trait Condition: DynEq + fmt::Debug + fmt::Display + Send + Sync {
    /// Decides if the condition holds.
    fn decide(&self, request: &RequestView<'_>) -> Decision;

    /// Describes the values of `request` that the condition reads, as a clause: ``the path is `/a` ``.
    fn observe(&self, request: &RequestView<'_>) -> String;

    /// Returns the parts of requests that the condition reads.
    fn reads(&self) -> Vec<RequestPart<'_>>;
}

/// Equality of conditions of unknown types, from their `PartialEq`.
pub(super) trait DynEq: Any {
    /// Returns true if `other` has the same type and is equal.
    fn equals(&self, other: &dyn Any) -> bool;
}

impl<T: PartialEq + Any> DynEq for T {
    fn equals(&self, other: &dyn Any) -> bool {
        other.downcast_ref() == Some(self)
    }
}

impl PartialEq for dyn Condition {
    fn eq(&self, other: &Self) -> bool {
        self.equals(other)
    }
}

/// Parses each text. `kind` names the values in the error for an empty list.
pub(super) fn parse_each<T>(
    texts: &[String],
    kind: &'static str,
    parse: impl Fn(&str) -> Result<T, PredicateError>,
) -> Result<Box<[T]>, PredicateError> {
    if texts.is_empty() {
        return Err(PredicateError::NoValues { kind });
    }
    texts.iter().map(|text| parse(text)).collect()
}

/// Returns the value as text. Bytes that are not ASCII are read as ISO 8859-1, as in Java servers.
pub(super) fn header_text(value: &HeaderValue) -> Cow<'_, str> {
    match value.to_str() {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(value.as_bytes().iter().map(|&byte| char::from(byte)).collect()),
    }
}

/// Describes the values of a field or parameter: ``header `X-Id` is `1`, `2` ``.
pub(super) fn observe_values(kind: &str, name: &str, values: &[impl fmt::Display]) -> String {
    match values.is_empty() {
        true => format!("{kind} `{name}` is missing"),
        false => format!("{kind} `{name}` is {}", quoted_list(values)),
    }
}

/// Quotes each value and joins them with commas.
pub(super) fn quoted_list(values: &[impl fmt::Display]) -> String {
    let quoted: Vec<String> = values.iter().map(|value| format!("`{value}`")).collect();
    quoted.join(", ")
}

/// A list displayed as in Java: `[a, b]`.
pub(super) struct JavaList<'a, T>(pub(super) &'a [T]);

impl<T: fmt::Display> fmt::Display for JavaList<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (index, item) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{item}")?;
        }
        f.write_str("]")
    }
}

/// An optional value displayed as in Java: `null` if it is missing.
pub(super) struct OrNull<'a, T>(pub(super) &'a Option<T>);

impl<T: fmt::Display> fmt::Display for OrNull<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(value) => value.fmt(f),
            None => f.write_str("null"),
        }
    }
}
