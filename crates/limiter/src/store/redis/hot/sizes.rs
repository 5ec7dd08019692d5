//! How many requests calls are made for.

use std::sync::atomic::{AtomicU64, Ordering};

/// Calls that decided requests, by for how many at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallSizes {
    /// Calls for at most 1, 2, 4, ... 1,024 requests, and more than in the one before.
    pub calls: [u64; 11],
    /// Requests in all.
    pub requests: u64,
}

impl CallSizes {
    /// Those of two clients.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let calls = std::array::from_fn(|at| self.calls[at] + other.calls[at]);
        Self { calls, requests: self.requests + other.requests }
    }
}

/// The running counts.
#[derive(Debug, Default)]
pub(in super::super) struct Sizes {
    calls: [AtomicU64; 11],
    requests: AtomicU64,
}

impl Sizes {
    pub(super) fn count(&self, requests: usize) {
        let at = requests.max(1).next_power_of_two().trailing_zeros() as usize;
        self.calls[at.min(self.calls.len() - 1)].fetch_add(1, Ordering::Relaxed);
        self.requests.fetch_add(requests as u64, Ordering::Relaxed);
    }

    pub(in super::super) fn read(&self) -> CallSizes {
        CallSizes {
            calls: self.calls.each_ref().map(|calls| calls.load(Ordering::Relaxed)),
            requests: self.requests.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_counted_by_powers_of_two() {
        let sizes = Sizes::default();
        [1, 2, 3, 4, 5, 1_024].into_iter().for_each(|requests| sizes.count(requests));
        let CallSizes { calls, requests } = sizes.read();
        assert_eq!((requests, &calls[..4], calls[10]), (1_039, &[1, 1, 2, 1][..], 1));
    }
}
