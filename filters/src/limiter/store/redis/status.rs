//! What readiness and metrics ask of a client.

use std::sync::atomic::{AtomicU64, Ordering};

use super::breaker::BreakerState;
use super::error::StoreError;
use super::hot::CallSizes;

/// How a client is doing.
#[derive(Clone, Debug)]
pub struct RedisStatus {
    /// Whether at least one connection is live.
    pub connected: bool,
    /// Live connections.
    pub live_connections: usize,
    /// Whether calls go through.
    pub breaker: BreakerState,
    /// Decisions that Redis did not make, by the reason.
    pub failures: [(StoreError, u64); StoreError::ALL.len()],
    /// Calls for which the script had to be loaded again.
    pub script_misses: u64,
    /// Connections that were made.
    pub connects: u64,
    /// Requests that were denied without a call, since Redis had said for how long they are.
    pub denied_from_memory: u64,
    /// Requests that passed without a call, since one before them had brought more than was asked for.
    pub paid_in_advance: u64,
    /// Calls that decided requests, by for how many at a time.
    pub call_sizes: CallSizes,
    /// What went wrong last, without secrets; `None` once a connection is live again.
    pub last_error: Option<String>,
}

/// The running counts behind a status.
#[derive(Debug, Default)]
pub(super) struct Counters {
    failures: [AtomicU64; StoreError::ALL.len()],
    pub(super) script_misses: AtomicU64,
    pub(super) connects: AtomicU64,
}

impl Counters {
    pub(super) fn failed(&self, kind: StoreError) {
        self.failures[kind.index()].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn failures(&self) -> [(StoreError, u64); StoreError::ALL.len()] {
        StoreError::ALL.map(|kind| (kind, self.failures[kind.index()].load(Ordering::Relaxed)))
    }
}
