//! Connect and response times of upstreams, and the measurement of the attempts of one request.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use http::{HeaderMap, StatusCode};

use crate::http::attempts::{AttemptObserver, AttemptOutcome, ObservedAttempts};
use crate::http::facts;
use crate::upstream::error::ForwardError;
use crate::upstream::origin::Origin;

/// Name of the targets that filters set, of which clients may choose any number.
pub const DYNAMIC: &str = "dynamic";

/// Times of one upstream, as one worker sees them.
#[derive(Debug)]
pub struct UpstreamTimes {
    /// Name of a balanced upstream, host and port of another, or [`DYNAMIC`].
    pub name: Arc<str>,
    /// From the search for a connection until a new one is ready: lookup, TCP and TLS.
    pub connect: TimeHistogram,
    /// From sending a request to its response head.
    pub response: TimeHistogram,
}

/// Histogram of durations. One worker writes it.
#[derive(Debug, Default)]
pub struct TimeHistogram {
    buckets: [AtomicU64; Self::BOUNDS_US.len() + 1],
    sum_us: AtomicU64,
}

impl UpstreamTimes {
    /// Creates the empty times of the upstream `name`.
    #[must_use]
    pub fn new(name: Arc<str>) -> Self {
        Self { name, connect: TimeHistogram::default(), response: TimeHistogram::default() }
    }
}

impl TimeHistogram {
    /// Upper bounds of the buckets, in microseconds. A last bucket has no bound.
    pub const BOUNDS_US: [u64; 15] = [
        250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000,
        5_000_000, 10_000_000,
    ];

    /// Counts a duration.
    pub fn observe(&self, duration: Duration) {
        let us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let bucket = Self::BOUNDS_US.iter().position(|bound| us <= *bound).unwrap_or(Self::BOUNDS_US.len());
        // One worker writes: a load and a store suffice, without an atomic add.
        let add = |counter: &AtomicU64, value| counter.store(counter.load(Relaxed).saturating_add(value), Relaxed);
        add(&self.buckets[bucket], 1);
        add(&self.sum_us, us);
    }

    /// Returns the counts of the buckets.
    #[must_use]
    pub fn buckets(&self) -> [u64; Self::BOUNDS_US.len() + 1] {
        self.buckets.each_ref().map(|count| count.load(Relaxed))
    }

    /// Returns the sum of all durations, in microseconds.
    #[must_use]
    pub fn sum_us(&self) -> u64 {
        self.sum_us.load(Relaxed)
    }
}

/// Measures the attempts of one request, and reports them to its observer.
pub(super) struct Monitor {
    times: Arc<UpstreamTimes>,
    observer: Option<ObservedAttempts>,
}

impl Monitor {
    pub(super) fn new(times: Arc<UpstreamTimes>, observer: Option<ObservedAttempts>) -> Self {
        Self { times, observer }
    }

    fn observe(&self, report: impl FnOnce(&dyn AttemptObserver)) {
        if let Some(ObservedAttempts(observer)) = &self.observer {
            report(&**observer);
        }
    }

    /// Begins an attempt at `origin`.
    pub(super) fn begin(&self, origin: &Origin) {
        facts::report_attempt(&origin.authority);
        self.observe(|observer| observer.begin(&origin.host, origin.port));
    }

    /// Counts a new connection, established in `elapsed`.
    pub(super) fn connected(&self, elapsed: Duration) {
        self.times.connect.observe(elapsed);
    }

    /// Adds the fields that propagate the trace of the attempt.
    pub(super) fn propagate(&self, headers: &mut HeaderMap) {
        self.observe(|observer| observer.propagate(headers));
    }

    /// Counts a response head that arrived in `elapsed`.
    pub(super) fn responded(&self, status: StatusCode, elapsed: Duration) {
        self.times.response.observe(elapsed);
        self.observe(|observer| observer.end(AttemptOutcome::Response(status)));
    }

    /// Ends the attempt with an error.
    pub(super) fn failed(&self, error: &ForwardError) {
        self.observe(|observer| observer.end(AttemptOutcome::Failed(error.failure().reason())));
    }
}

impl Drop for Monitor {
    /// Ends an attempt that the client did not wait for.
    fn drop(&mut self) {
        self.observe(|observer| observer.end(AttemptOutcome::Failed("canceled")));
    }
}
