//! Errors with their causes, for log lines.

use std::error::Error;

/// Returns `error` and its causes, one after the other.
pub fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| (*error).source())
}

/// Formats `error` and its causes on one line.
#[must_use]
pub fn error_chain(error: &(dyn Error + 'static)) -> String {
    causes(error).map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
