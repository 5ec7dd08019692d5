//! Pauses after failed requests to registries.

use std::time::Duration;

/// Pause after the first failure. It doubles with each further one …
const FIRST_RETRY: Duration = Duration::from_millis(500);
/// … up to this pause.
const LAST_RETRY: Duration = Duration::from_secs(8);

/// Returns the pause after a failure that followed `failures` others, randomized by a fifth: all gateways lose a registry
/// at the same moment.
pub(super) fn retry_after(failures: u32) -> Duration {
    let pause = FIRST_RETRY.saturating_mul(1 << failures.min(8)).min(LAST_RETRY);
    pause.mul_f64(0.8 + 0.4 * fastrand::f64())
}
