//! One endpoint, shared by all workers, with the outcomes of its latest attempts.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::time::SystemTime;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::upstream::balance::policy::hash;
use crate::upstream::origin::Origin;
use tollgate_config::{EndpointAddress, Http2, Scheme, Tls};

/// Endpoint of an upstream, with the counters of all workers.
#[derive(Debug)]
pub struct Endpoint {
    address: EndpointAddress,
    identity: u64,
    in_flight: AtomicU32,
    failures: AtomicU32,
    attempts: AttemptRecord,
    /// Set when it leaves the list of its upstream. It never comes back: its address then has a new endpoint.
    is_removed: AtomicBool,
    removal: Notify,
}

impl Endpoint {
    /// Creates an endpoint without history.
    pub(super) fn new(address: EndpointAddress) -> Self {
        let identity = hash(address.to_string().as_bytes());
        let (in_flight, failures, is_removed) = (AtomicU32::new(0), AtomicU32::new(0), AtomicBool::new(false));
        let (attempts, removal) = (AttemptRecord::default(), Notify::new());
        Self { address, identity, in_flight, failures, attempts, is_removed, removal }
    }

    /// Returns its address.
    pub fn address(&self) -> &EndpointAddress {
        &self.address
    }

    /// Returns a hash of its address, the same in every gateway.
    pub fn identity(&self) -> u64 {
        self.identity
    }

    /// Returns the number of requests of this process in flight to it.
    pub fn in_flight(&self) -> u32 {
        self.in_flight.load(Relaxed)
    }

    /// Returns the outcomes of its latest attempts.
    pub(super) fn attempts(&self) -> &AttemptRecord {
        &self.attempts
    }

    pub(super) fn request_started(&self) {
        self.in_flight.fetch_add(1, Relaxed);
    }

    pub(super) fn request_ended(&self) {
        self.in_flight.fetch_sub(1, Relaxed);
    }

    /// Marks it as removed, and wakes the requests that wait for it.
    pub(super) fn remove(&self) {
        self.is_removed.store(true, Release);
        self.removal.notify_waiters();
    }

    /// Waits until it is removed.
    pub(super) async fn removed(&self) {
        let mut notified = pin!(self.removal.notified());
        notified.as_mut().enable();
        if !self.is_removed.load(Acquire) {
            notified.await;
        }
    }

    /// Marks an endpoint as recovering: the next failure reaches `threshold` and ejects it again.
    pub(super) fn mark_recovering(&self, threshold: u32) {
        self.failures.store(threshold.saturating_sub(1), Relaxed);
    }

    /// Counts a failure and returns the number of consecutive failures.
    pub(super) fn count_failure(&self) -> u32 {
        self.failures.fetch_add(1, Relaxed).saturating_add(1)
    }

    /// Resets the consecutive failures. Writes only if there are any, because all workers read this cache line.
    pub(super) fn reset_failures(&self) {
        if self.failures.load(Relaxed) != 0 {
            self.failures.store(0, Relaxed);
        }
    }
}

/// Returns the origin of an endpoint. `scheme` overrides the scheme of `address`.
pub fn endpoint_origin(address: &EndpointAddress, scheme: Option<Scheme>, tls: &Arc<Tls>, http2: Http2) -> Origin {
    let EndpointAddress { host, name, port, .. } = address;
    let origin = Origin::new(scheme.unwrap_or(address.scheme), name, *port, tls, http2);
    Origin { address: host.parse().ok(), ..origin }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address.fmt(f)
    }
}

/// Outcomes of the latest attempts at an endpoint.
///
/// Successes write only if they change something, because all workers read this cache line.
#[derive(Debug, Default)]
pub(super) struct AttemptRecord {
    pub(super) has_responded: AtomicBool,
    /// Failures since the latest response.
    pub(super) failures: AtomicU32,
    pub(super) last_failure: Mutex<Option<AttemptFailure>>,
    /// Reason of the latest health check, if it failed.
    pub(super) check_error: Mutex<Option<String>>,
}

/// Failure of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptFailure {
    /// Time.
    pub at: SystemTime,
    /// Description with its causes.
    pub error: String,
}

impl AttemptRecord {
    /// Records a response, of any status.
    pub(super) fn responded(&self) {
        self.clear_failures();
        if !self.has_responded.load(Relaxed) {
            self.has_responded.store(true, Relaxed);
        }
    }

    /// Records a failure.
    pub(super) fn failed(&self, failure: AttemptFailure) {
        *self.last_failure.lock() = Some(failure);
        self.failures.fetch_add(1, Relaxed);
    }

    /// Resets the number of failures, but keeps the latest one.
    pub(super) fn clear_failures(&self) {
        if self.failures.load(Relaxed) != 0 {
            self.failures.store(0, Relaxed);
        }
    }

    /// Records the result of a health check.
    pub(super) fn checked(&self, error: Option<String>) {
        let mut latest = self.check_error.lock();
        if *latest != error {
            *latest = error;
        }
    }
}
