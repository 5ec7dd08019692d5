//! Random pauses and identifiers.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

/// Returns 128 random bits in hexadecimal. The operating system seeds the standard library's generator.
pub(crate) fn random_id() -> String {
    format!("{:016x}{:016x}", random_u64(), random_u64())
}

/// Returns a random number from 0 to 1.
pub(crate) fn fraction() -> f64 {
    f64::from(random_u64() as u32) / f64::from(u32::MAX)
}

/// Returns a pause between half of `pause` and all of it, so that gateways that lost Redis together do not reconnect
/// together.
pub(crate) fn jittered(pause: Duration) -> Duration {
    pause / 2 + (pause / 2).mul_f64(fraction())
}

fn random_u64() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_varies_between_half_and_all_of_itself() {
        let longest = Duration::from_millis(500);
        let pauses: Vec<Duration> = (0..100).map(|_| jittered(longest)).collect();
        assert!(pauses.iter().all(|&pause| pause >= longest / 2 && pause <= longest));
        assert!(pauses.iter().any(|&pause| pause != pauses[0]));
    }
}
