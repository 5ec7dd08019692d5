//! Errors of values.

use std::fmt;

use serde::de::{Expected, Unexpected};

use crate::yaml::Span;

/// Separates the help from the message of an error.
pub(super) const HELP: char = '\u{1f}';

/// Returns the text of an error with its help.
pub(crate) fn with_help(message: &str, help: &str) -> String {
    format!("{message}{HELP}{help}")
}

/// Error of a value that its field cannot have, with the span of the value.
#[derive(Debug)]
pub(crate) struct DeError {
    pub(super) message: String,
    pub(super) span: Option<Span>,
    /// The required field that a struct lacks.
    pub(super) missing: Option<&'static str>,
    /// True if the message is about a key that it does not name yet.
    lacks_key: bool,
}

impl DeError {
    /// Creates the error of the value at `span`.
    pub(super) fn at(span: Span, message: String) -> Self {
        Self { message, span: Some(span), missing: None, lacks_key: false }
    }

    /// Names the key of the value, if the message is about it.
    pub(super) fn of_key(self, key: Option<&String>) -> Self {
        match key {
            Some(key) if self.lacks_key => {
                Self { message: format!("`{key}` {}", self.message), lacks_key: false, ..self }
            }
            _ => self,
        }
    }

    /// Adds the span, if there is none.
    pub(super) fn or_at(self, span: Span) -> Self {
        Self { span: self.span.or(Some(span)), ..self }
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
        Self { message: message.to_string(), span: None, missing: None, lacks_key: false }
    }

    fn missing_field(field: &'static str) -> Self {
        Self { missing: Some(field), ..Self::custom(format_args!("`{field}` is missing")) }
    }

    fn invalid_value(found: Unexpected<'_>, wanted: &dyn Expected) -> Self {
        let message = match found {
            // The message of `NonZero` names Rust types.
            Unexpected::Unsigned(0) => "must be at least 1, got 0".to_owned(),
            // A value outside its range.
            Unexpected::Other(found) => format!("must be {wanted}, {found}"),
            _ => return Self::custom(format_args!("expected {wanted}, found {found}")),
        };
        Self { lacks_key: true, ..Self::custom(message) }
    }
}
