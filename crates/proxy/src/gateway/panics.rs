//! Panics of a request, which end this request only.

use std::any::Any;

use crate::http::failure::Failure;

/// Logs a panic, and returns the failure to respond with.
pub(super) fn panic_failure(panic: &(dyn Any + Send)) -> Failure {
    tracing::error!(panic = panic_text(panic), "request failed: panic in the gateway");
    Failure::Internal
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&'static str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("unknown")
}
