//! Bound of the work for all expressions of a configuration.

use std::cell::Cell;

use regex_syntax::hir::{Class, Hir, HirKind};

use crate::error::RegexError;

/// Steps that the expressions compiled [`together`] may take: half a second, and a hundred megabytes.
const MAX_STEPS_TOGETHER: usize = 5_000_000;
/// Steps of the smallest expression.
const LEAST: usize = 100;
/// Steps of one range of a class of Unicode, of which each byte of UTF-8 is one.
const OF_RANGE: usize = 3;

thread_local! {
    static STEPS_LEFT: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Runs `read`. Expressions that it compiles on this thread are errors once they have taken 5,000,000 steps in all: characters, times
/// their repetitions, and 100 for each expression.
pub fn together<T>(read: impl FnOnce() -> T) -> T {
    let before = STEPS_LEFT.replace(Some(MAX_STEPS_TOGETHER));
    let result = read();
    STEPS_LEFT.set(before);
    result
}

/// Takes `steps` from those that are left.
pub(super) fn take(steps: usize) -> Result<(), RegexError> {
    let Some(left) = STEPS_LEFT.get() else { return Ok(()) };
    let rest = left.checked_sub(steps.saturating_add(LEAST));
    STEPS_LEFT.set(Some(rest.unwrap_or_default()));
    rest.map(|_| ()).ok_or(RegexError::TooLargeTogether)
}

/// Returns the steps that it takes to compile an expression.
pub(super) fn size(hir: &Hir) -> usize {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => 1,
        HirKind::Literal(literal) => literal.0.len(),
        HirKind::Class(Class::Bytes(class)) => class.ranges().len(),
        HirKind::Class(Class::Unicode(class)) => OF_RANGE * class.ranges().len(),
        HirKind::Repetition(repetition) => {
            let times = repetition.max.unwrap_or(repetition.min).max(1);
            size(&repetition.sub).saturating_mul(times as usize)
        }
        HirKind::Capture(capture) => size(&capture.sub).saturating_add(1),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => parts.iter().map(size).fold(1, usize::saturating_add),
    }
}
