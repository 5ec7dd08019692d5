//! Who holds a lease.

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The holder of a lease: a process, by 64 random bits, and a request in it, by number. No two are alike, so nobody
/// gives back or renews what is another's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner {
    process: u64,
    number: u64,
}

impl Owner {
    /// Behind all others in order.
    pub(super) const LAST: Self = Self::new(u64::MAX, u64::MAX);

    /// One that never was before.
    #[must_use]
    pub fn fresh() -> Self {
        static PROCESS: LazyLock<u64> = LazyLock::new(random);
        static NUMBER: AtomicU64 = AtomicU64::new(1);
        Self { process: *PROCESS, number: NUMBER.fetch_add(1, Ordering::Relaxed) }
    }

    /// The request `number` of the process `process`.
    #[must_use]
    pub const fn new(process: u64, number: u64) -> Self {
        Self { process, number }
    }
}

impl fmt::Display for Owner {
    /// As it stands in Redis: `8f3a09c1d2e4b576-2a`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}-{:x}", self.process, self.number)
    }
}

/// From the operating system. Where it gives none, the standard library's own random state stands in.
fn random() -> u64 {
    getrandom::u64().unwrap_or_else(|_| RandomState::new().build_hasher().finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_are_of_one_process_and_differ() {
        let (one, other) = (Owner::fresh(), Owner::fresh());
        assert_ne!(one, other);
        assert_eq!(one.to_string()[..17], other.to_string()[..17]);
        assert_eq!(Owner::new(0x8f3a_09c1_d2e4_b576, 42).to_string(), "8f3a09c1d2e4b576-2a");
    }
}
