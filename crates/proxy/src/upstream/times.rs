//! Connect and response times of upstreams, their failures, and the measurement of the attempts of one request.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime};

use http::{HeaderMap, StatusCode};
use parking_lot::Mutex;

use crate::http::attempts::{AttemptObserver, AttemptOutcome, ObservedAttempts};
use crate::http::facts;
use crate::http::failure::Failure;
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
    failed_attempts: AtomicU64,
    latest_failure: Mutex<Option<LatestFailure>>,
}

/// Latest attempt that got no response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LatestFailure {
    /// Time.
    pub at: SystemTime,
    /// Description.
    pub error: String,
    /// Failed attempts in a row.
    pub in_a_row: u32,
    /// Responses before.
    responses: u64,
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
        let (connect, response) = (TimeHistogram::default(), TimeHistogram::default());
        Self { name, connect, response, failed_attempts: AtomicU64::new(0), latest_failure: Mutex::default() }
    }

    /// Returns the number of attempts that got no response.
    #[must_use]
    pub fn failed_attempts(&self) -> u64 {
        self.failed_attempts.load(Relaxed)
    }

    /// Returns the latest failed attempt, unless a response came after it.
    #[must_use]
    pub fn present_failure(&self) -> Option<LatestFailure> {
        let latest = self.latest_failure.lock();
        latest.as_ref().filter(|latest| latest.responses == self.response.count()).cloned()
    }

    /// Counts an attempt that got no response. A response costs nothing more: its histogram tells that it came.
    fn failed(&self, error: String) {
        self.failed_attempts.fetch_add(1, Relaxed);
        let before = self.present_failure().map_or(0, |latest| latest.in_a_row);
        let (at, in_a_row, responses) = (SystemTime::now(), before.saturating_add(1), self.response.count());
        *self.latest_failure.lock() = Some(LatestFailure { at, error, in_a_row, responses });
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

    /// Returns the number of durations.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets().iter().sum()
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

    /// Counts an attempt for which the upstream is to blame.
    pub(super) fn blame(&self, error: &ForwardError) {
        if matches!(
            error.failure(),
            Failure::Unreachable | Failure::ConnectTimeout | Failure::ResponseTimeout | Failure::BadGateway
        ) {
            self.times.failed(error.chain());
        }
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
