//! Counters of calls of Redis.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use super::error::StoreError;
use super::micros;

crate::labelled! {
    /// Purpose of a call.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Operation {
        /// Decides a request.
        Decide = "decide",
        /// Corrects the cost of a request.
        Settle = "settle",
        /// Acquires, renews or releases slots of a concurrency limiter.
        Slot = "lease",
        /// Looks up the plan of a key.
        Plan = "plan",
        /// Looks up an API key.
        ApiKey = "api-key",
        /// Lists, counts or changes API keys.
        ApiKeys = "api-keys",
        /// Reads, sets, grants or withdraws prepaid quota.
        Quota = "stock",
        /// Delivers usage counts.
        Metering = "metering",
        /// Reports that a gateway is running, and counts gateways.
        Heartbeat = "heartbeat",
        /// Reads a server's `INFO`.
        Info = "info",
        /// Reads, sets or removes temporary overrides of limits.
        Overrides = "overrides",
    }
}

/// Histogram with fixed bounds.
#[derive(Debug)]
pub struct Histogram {
    bounds: &'static [u64],
    buckets: Box<[AtomicU64]>,
    sum: AtomicU64,
}

/// Number of events since the start.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

/// Failed calls by reason.
#[derive(Debug, Default)]
pub struct FailureCounts([Counter; StoreError::ALL.len()]);

/// Counters of one or more clients. They outlive a client, so its successor may continue them.
///
/// Share one value among the clients of one thread, and none between threads: an uncontended counter is cheap.
#[derive(Debug)]
#[non_exhaustive]
pub struct RedisStats {
    /// Decisions that Redis did not make.
    pub failures: FailureCounts,
    latencies: [Histogram; Operation::ALL.len()],
    /// Calls that had to load their script again.
    pub script_misses: Counter,
    /// Connections established.
    pub connects: Counter,
    /// Requests denied from the denial cache, without a call.
    pub denial_cache_hits: Counter,
    /// Requests allowed from a lease, without a call.
    pub lease_hits: Counter,
    /// Requests in each call that decided requests. A batch is one call.
    pub call_sizes: Histogram,
}

/// Upper bounds in microseconds. A Redis in the same network replies within the first three; the default timeout of a
/// decision is the tenth.
const LATENCY_BOUNDS_US: [u64; 13] =
    [100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000];

/// Upper bounds of the requests in one call.
const CALL_SIZE_BOUNDS: [u64; 11] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024];

// === impl Operation ===

impl Operation {
    pub(crate) fn runs_script(self) -> bool {
        !matches!(self, Self::Plan | Self::ApiKey | Self::ApiKeys | Self::Info)
    }

    /// Returns true if requests depend on the call. Failures of other calls do not count as failed decisions.
    pub(crate) fn serves_requests(self) -> bool {
        !matches!(self, Self::ApiKeys | Self::Heartbeat | Self::Info | Self::Overrides)
    }
}

// === impl Histogram ===

impl Histogram {
    fn new(bounds: &'static [u64]) -> Self {
        let buckets = std::iter::repeat_with(AtomicU64::default).take(bounds.len() + 1).collect();
        Self { bounds, buckets, sum: AtomicU64::new(0) }
    }

    /// Records a value.
    pub(crate) fn observe(&self, value: u64) {
        self.buckets[self.bounds.partition_point(|bound| *bound < value)].fetch_add(1, Relaxed);
        self.sum.fetch_add(value, Relaxed);
    }

    /// Returns the upper bounds of the buckets; a last bucket holds larger values.
    #[must_use]
    pub fn bounds(&self) -> &'static [u64] {
        self.bounds
    }

    /// Returns the number of values in each bucket (not cumulative).
    #[must_use]
    pub fn buckets(&self) -> Vec<u64> {
        self.buckets.iter().map(|bucket| bucket.load(Relaxed)).collect()
    }

    /// Returns the sum of all values.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.sum.load(Relaxed)
    }
}

// === impl RedisStats ===

impl Default for RedisStats {
    fn default() -> Self {
        Self {
            failures: FailureCounts::default(),
            latencies: Operation::ALL.map(|_| Histogram::new(&LATENCY_BOUNDS_US)),
            script_misses: Counter::default(),
            connects: Counter::default(),
            denial_cache_hits: Counter::default(),
            lease_hits: Counter::default(),
            call_sizes: Histogram::new(&CALL_SIZE_BOUNDS),
        }
    }
}

impl RedisStats {
    /// Latencies of calls for `operation` in microseconds, from the start of a request to its reply or deadline. They include
    /// queueing and exclude calls that the caller dropped.
    #[must_use]
    pub fn latencies_us(&self, operation: Operation) -> &Histogram {
        &self.latencies[operation as usize]
    }

    pub(crate) fn record_latency(&self, operation: Operation, elapsed: Duration) {
        self.latencies_us(operation).observe(micros(elapsed));
    }
}

// === impl Counter ===

impl Counter {
    /// Returns the number.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    pub(crate) fn increment(&self) {
        self.0.fetch_add(1, Relaxed);
    }
}

// === impl FailureCounts ===

impl FailureCounts {
    /// Returns the number of failures for each reason.
    #[must_use]
    pub fn by_reason(&self) -> [(StoreError, u64); StoreError::ALL.len()] {
        StoreError::ALL.map(|kind| (kind, self.of(kind)))
    }

    /// Returns the number of failures for one reason.
    #[must_use]
    pub fn of(&self, kind: StoreError) -> u64 {
        self.0[kind as usize].get()
    }

    pub(crate) fn record(&self, kind: StoreError) {
        self.0[kind as usize].increment();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_counted_in_the_first_bucket_that_holds_it() {
        let latencies = Histogram::new(&LATENCY_BOUNDS_US);
        [0, 100, 101, 1_000_000, 1_000_001].into_iter().for_each(|us| latencies.observe(us));
        let buckets = latencies.buckets();
        assert_eq!((buckets[0], buckets[1], buckets[12], buckets[13]), (2, 1, 1, 1));
        assert_eq!((buckets.iter().sum::<u64>(), latencies.sum()), (5, 2_000_202));
    }

    #[test]
    fn call_sizes_are_counted_by_powers_of_two() {
        let sizes = RedisStats::default().call_sizes;
        [1, 2, 3, 4, 5, 1_024, 1_025].into_iter().for_each(|requests| sizes.observe(requests));
        assert_eq!((sizes.sum(), sizes.buckets()), (2_064, vec![1, 1, 2, 1, 0, 0, 0, 0, 0, 0, 1, 1]));
        sizes.observe(u64::MAX);
        assert_eq!(sizes.buckets()[11], 2);
    }
}
