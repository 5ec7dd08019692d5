//! Owners of slots.

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Owner of a slot: 64 random bits for the process and a number for the request. Owners are unique, so only the owner
/// can renew or release a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner {
    process: u64,
    number: u64,
}

impl Owner {
    /// Greatest owner in order.
    pub(super) const LAST: Self = Self::new(u64::MAX, u64::MAX);

    /// Creates a new unique owner.
    #[must_use]
    pub fn fresh() -> Self {
        static PROCESS: LazyLock<u64> = LazyLock::new(random);
        static NUMBER: AtomicU64 = AtomicU64::new(1);
        Self { process: *PROCESS, number: NUMBER.fetch_add(1, Ordering::Relaxed) }
    }

    /// Creates the owner for request `number` of `process`.
    #[must_use]
    pub const fn new(process: u64, number: u64) -> Self {
        Self { process, number }
    }
}

impl fmt::Display for Owner {
    /// Formats the owner as in Redis: `8f3a09c1d2e4b576-2a`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}-{:x}", self.process, self.number)
    }
}

/// Returns random bits from the operating system, or from the standard library's `RandomState` if that fails.
fn random() -> u64 {
    getrandom::u64().unwrap_or_else(|_| RandomState::new().build_hasher().finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_share_the_process_and_differ_by_number() {
        let (one, other) = (Owner::fresh(), Owner::fresh());
        assert_ne!(one, other);
        assert_eq!(one.to_string()[..17], other.to_string()[..17]);
        assert_eq!(Owner::new(0x8f3a_09c1_d2e4_b576, 42).to_string(), "8f3a09c1d2e4b576-2a");
    }
}
