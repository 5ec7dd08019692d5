//! Errors of values.

use std::fmt;

use serde::de::{Expected, Unexpected};

use crate::yaml::Span;

/// Error of a value that its field cannot have, with the span of the value.
#[derive(Debug)]
pub(crate) struct DeError {
    pub(super) message: String,
    pub(super) span: Option<Span>,
    /// The required field that a struct lacks.
    pub(super) missing: Option<&'static str>,
}

impl DeError {
    /// Creates the error of the value at `span`.
    pub(super) fn at(span: Span, message: String) -> Self {
        Self { message, span: Some(span), missing: None }
    }
}

impl fmt::Display for DeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for DeError {}

impl serde::de::Error for DeError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self { message: message.to_string(), span: None, missing: None }
    }

    fn missing_field(field: &'static str) -> Self {
        Self { missing: Some(field), ..Self::custom(format_args!("`{field}` is missing")) }
    }

    fn invalid_value(found: Unexpected<'_>, wanted: &dyn Expected) -> Self {
        match found {
            // The message of `NonZero` names Rust types.
            Unexpected::Unsigned(0) => Self::custom("must be at least 1, got 0"),
            _ => Self::custom(format_args!("expected {wanted}, found {found}")),
        }
    }
}
