//! The name of `CircuitBreaker` in Spring Cloud Gateway 2.

use crate::migrate::print::{Item, Value};
use crate::spring::names::HYSTRIX;

/// Writes a filter `Hystrix` as `CircuitBreaker`.
pub(super) fn rename(filter: &mut Item) {
    let name = match &mut filter.value {
        Value::Scalar(text) => Some(text),
        Value::Map(fields) => fields.iter_mut().find_map(|(key, item)| match &mut item.value {
            Value::Scalar(name) if key == "name" => Some(name),
            _ => None,
        }),
        _ => None,
    };
    let Some(text) = name else { return };
    let rest = text.trim_start().strip_prefix(HYSTRIX);
    if let Some(rest) = rest.filter(|rest| rest.trim_start().is_empty() || rest.trim_start().starts_with('=')) {
        *text = format!("CircuitBreaker{}", rest.trim_start());
        filter.note("Was `Hystrix`.");
    }
}
