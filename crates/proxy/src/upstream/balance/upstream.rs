//! Upstreams of the process, shared by all workers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::upstream::balance::endpoint::Endpoint;
use crate::upstream::balance::endpoint_reports::{EndpointChange, EndpointStatus, log_changes};
use crate::upstream::balance::endpoint_set::{DrainError, EndpointSet, EndpointState, Health, Snapshot};
use tollgate_config::{Ejection, ListedEndpoint};
use tollgate_discovery::{Instance, RegistryStatus};

/// Upstream with the states of its endpoints, kept across reloads.
#[derive(Debug)]
pub struct Upstream {
    name: Arc<str>,
    endpoint_set: Mutex<EndpointSet>,
    snapshot: ArcSwap<Snapshot>,
    /// Incremented after each new snapshot.
    version: AtomicU64,
    /// Incremented when the list of endpoints changes.
    listed: watch::Sender<u64>,
    /// Notified when an endpoint is ejected, drained or new.
    pub(super) expiring: Notify,
    stats: UpstreamStats,
    /// Registry that listed the endpoints.
    source: Mutex<Option<RegistrySource>>,
}

/// Registry that listed the endpoints of an upstream.
#[derive(Clone, Debug)]
pub struct RegistrySource {
    /// The registry.
    pub registry: Arc<RegistryStatus>,
    /// Time of its last response about this service.
    pub confirmed: Instant,
    /// Instances that it listed.
    pub instances: Arc<[Instance]>,
}

/// Counters of an upstream.
#[derive(Debug, Default)]
pub struct UpstreamStats {
    /// Ejections.
    pub ejections: AtomicU64,
    /// Requests for which no endpoint was available.
    pub unavailable: AtomicU64,
    /// Passed health checks.
    pub checks_passed: AtomicU64,
    /// Failed health checks.
    pub checks_failed: AtomicU64,
    /// Failed or empty DNS lookups.
    pub failed_lookups: AtomicU64,
}

/// Upstreams of the process by name.
#[derive(Debug, Default)]
pub struct Upstreams {
    all: Mutex<BTreeMap<Arc<str>, Arc<Upstream>>>,
    registries: Mutex<Vec<Arc<RegistryStatus>>>,
}

impl Upstreams {
    /// Returns the upstream `name`. A new one has no endpoints.
    pub fn get(&self, name: &Arc<str>) -> Arc<Upstream> {
        let mut all = self.all.lock();
        Arc::clone(all.entry(Arc::clone(name)).or_insert_with(|| Arc::new(Upstream::new(Arc::clone(name)))))
    }

    /// Returns all upstreams.
    pub fn all(&self) -> Vec<Arc<Upstream>> {
        self.all.lock().values().cloned().collect()
    }

    /// Returns the states of the registries.
    pub fn registries(&self) -> Vec<Arc<RegistryStatus>> {
        self.registries.lock().clone()
    }

    pub(super) fn set_registries(&self, registries: Vec<Arc<RegistryStatus>>) {
        *self.registries.lock() = registries;
    }

    /// Removes the upstreams for which `is_kept` is false. Requests in flight keep theirs.
    pub(super) fn retain(&self, is_kept: impl Fn(&str) -> bool) {
        self.all.lock().retain(|name, _| is_kept(name));
    }
}

impl Upstream {
    fn new(name: Arc<str>) -> Self {
        Self {
            name,
            endpoint_set: Mutex::default(),
            snapshot: ArcSwap::default(),
            version: AtomicU64::new(1),
            listed: watch::Sender::new(0),
            expiring: Notify::new(),
            stats: UpstreamStats::default(),
            source: Mutex::default(),
        }
    }

    /// Returns its name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Returns its counters.
    pub fn stats(&self) -> &UpstreamStats {
        &self.stats
    }

    /// Returns all endpoints with their states.
    pub fn states(&self) -> Vec<(Arc<Endpoint>, EndpointState)> {
        self.endpoint_set.lock().states().map(|(endpoint, state)| (Arc::clone(endpoint), state)).collect()
    }

    /// Returns all endpoints with the knowledge about them.
    pub fn statuses(&self) -> Vec<EndpointStatus> {
        self.endpoint_set.lock().statuses().collect()
    }

    /// Returns the version of the latest snapshot. A worker compares it with the version of its view.
    pub fn version(&self) -> u64 {
        self.version.load(Acquire)
    }

    /// Returns the endpoints that may be selected now.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    /// Returns the registry that listed the endpoints; `None` for endpoints of the file or of DNS.
    pub fn source(&self) -> Option<RegistrySource> {
        self.source.lock().clone()
    }

    pub(super) fn set_source(&self, source: Option<RegistrySource>) {
        *self.source.lock() = source;
    }

    /// Notes that the registry still lists the same endpoints.
    pub(super) fn confirm_source(&self) {
        if let Some(source) = &mut *self.source.lock() {
            source.confirmed = Instant::now();
        }
    }

    /// Subscribes to changes of the list of endpoints.
    pub(super) fn listings(&self) -> watch::Receiver<u64> {
        self.listed.subscribe()
    }

    /// Replaces the list of endpoints.
    pub(super) fn list(&self, listed: &[ListedEndpoint]) {
        let mut endpoint_set = self.endpoint_set.lock();
        let (differs, changes) = endpoint_set.replace(listed, Instant::now());
        if !differs {
            return;
        }
        self.publish(endpoint_set, &changes);
        // Requests that wait for them select from the new list, which is published by now.
        for (endpoint, _) in changes.iter().filter(|(_, change)| *change == EndpointChange::Removed) {
            endpoint.remove();
        }
        self.listed.send_modify(|version| *version += 1);
        self.expiring.notify_one();
    }

    /// Sets the time in which the share of a new endpoint grows.
    pub(super) fn set_slow_start(&self, time: Option<Duration>) {
        self.endpoint_set.lock().set_slow_start(time);
    }

    pub(super) fn endpoints(&self) -> Vec<Arc<Endpoint>> {
        self.endpoint_set.lock().endpoints().cloned().collect()
    }

    pub(super) fn health(&self, endpoint: &Arc<Endpoint>) -> Health {
        self.endpoint_set.lock().health(endpoint)
    }

    /// Stores the result of the health checks of `endpoint`.
    pub(super) fn set_health(&self, endpoint: &Arc<Endpoint>, health: Health) {
        let mut endpoint_set = self.endpoint_set.lock();
        if let Some(change) = endpoint_set.set_health(endpoint, health, Instant::now()) {
            self.publish(endpoint_set, &[(Arc::clone(endpoint), change)]);
            self.expiring.notify_one();
        }
    }

    /// Ejects `endpoint`, unless too many others are ejected.
    pub(super) fn eject(&self, endpoint: &Arc<Endpoint>, settings: &Ejection) {
        let mut endpoint_set = self.endpoint_set.lock();
        if let Some(change) = endpoint_set.eject(endpoint, settings, Instant::now()) {
            self.publish(endpoint_set, &[(Arc::clone(endpoint), change)]);
            self.stats.ejections.fetch_add(1, Relaxed);
            self.expiring.notify_one();
        }
    }

    /// Ends the ejections and drains that have expired, and takes the next step of slow starts. Returns the time of the next
    /// change.
    pub(super) fn end_expired(&self) -> Option<Instant> {
        let mut endpoint_set = self.endpoint_set.lock();
        let now = Instant::now();
        let changes = [endpoint_set.end_ejections(now), endpoint_set.end_drains(now)].concat();
        let has_new_shares = endpoint_set.advance_slow_starts(now);
        let next = [endpoint_set.next_end(), endpoint_set.next_step(now)].into_iter().flatten().min();
        if has_new_shares || !changes.is_empty() {
            self.publish(endpoint_set, &changes);
        }
        next
    }

    /// Ends all ejections.
    pub(super) fn clear_ejections(&self) {
        let mut endpoint_set = self.endpoint_set.lock();
        let changes = endpoint_set.clear_ejections(Instant::now());
        if !changes.is_empty() {
            self.publish(endpoint_set, &changes);
        }
    }

    /// Drains the endpoint at `address` for `time`: it gets no new request.
    ///
    /// # Errors
    /// The endpoint is unknown, or the last one that gets requests and `allows_last` is false. Nothing changes.
    pub fn drain(&self, address: &str, time: Duration, allows_last: bool) -> Result<(), DrainError> {
        let mut endpoint_set = self.endpoint_set.lock();
        let drained = endpoint_set.drain(address, time, allows_last, Instant::now())?;
        self.publish(endpoint_set, &[(drained, EndpointChange::Drained(time))]);
        self.expiring.notify_one();
        Ok(())
    }

    /// Ends the draining of the endpoint at `address`.
    ///
    /// # Errors
    /// The endpoint is unknown.
    pub fn end_drain(&self, address: &str) -> Result<(), DrainError> {
        let mut endpoint_set = self.endpoint_set.lock();
        if let Some(endpoint) = endpoint_set.end_drain(address)? {
            self.publish(endpoint_set, &[(endpoint, EndpointChange::DrainEnded)]);
        }
        Ok(())
    }

    /// Returns the time that the draining of `endpoint` still lasts; `None` if it is not drained.
    pub fn drained_for(&self, endpoint: &Arc<Endpoint>) -> Option<Duration> {
        let until = self.endpoint_set.lock().drained_until(endpoint)?;
        Some(until.saturating_duration_since(Instant::now()))
    }

    /// Publishes a snapshot of the changed endpoints, and logs the changes.
    fn publish(&self, endpoint_set: MutexGuard<'_, EndpointSet>, changes: &[(Arc<Endpoint>, EndpointChange)]) {
        let snapshot = Arc::new(endpoint_set.snapshot(Instant::now()));
        let is_empty = snapshot.is_empty();
        let was_empty = self.snapshot.swap(snapshot).is_empty();
        let is_first = self.version.fetch_add(1, AcqRel) == 1;
        drop(endpoint_set);
        match (was_empty, is_empty) {
            _ if is_first => {}
            (false, true) => tracing::error!(upstream = %self.name, "no healthy endpoint: requests are refused"),
            (true, false) => tracing::info!(upstream = %self.name, "upstream available again"),
            _ => {}
        }
        log_changes(&self.name, changes);
    }
}
