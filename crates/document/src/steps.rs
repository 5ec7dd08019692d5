//! Count of the steps whose number depends on the size of a configuration, for tests of its growth.

use std::cell::Cell;

thread_local! {
    static STEPS: Cell<usize> = const { Cell::new(0) };
}

/// Counts a step: a name that is compared or a line that is read.
pub fn count() {
    STEPS.set(STEPS.get() + 1);
}

/// Returns the number of steps of `run` on this thread.
pub fn of(run: impl FnOnce()) -> usize {
    let before = STEPS.get();
    run();
    STEPS.get() - before
}
