//! An upstream as the whole process knows it, and all of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::upstream::balance::endpoint::Endpoint;
use crate::upstream::balance::endpoint_set::{Change, EndpointSet, EndpointState, Health, Snapshot};
use tollgate_config::{Ejection, ListedEndpoint};

/// One upstream: what is known of its endpoints, shared by all workers and kept over reloads.
#[derive(Debug)]
pub struct Upstream {
    name: Arc<str>,
    roster: Mutex<EndpointSet>,
    snapshot: ArcSwap<Snapshot>,
    /// Raised with each snapshot, after it can be read.
    version: AtomicU64,
    /// Raised when endpoints come or go.
    listed: watch::Sender<u64>,
    /// Somebody was ejected: an end is to be waited for.
    pub(super) ejected: Notify,
    stats: UpstreamStats,
}

/// What is counted of an upstream.
#[derive(Debug, Default)]
pub struct UpstreamStats {
    /// Ejections.
    pub ejections: AtomicU64,
    /// Requests for which no endpoint lived.
    pub unavailable: AtomicU64,
    /// Good answers to health checks.
    pub checks_passed: AtomicU64,
    /// Bad ones.
    pub checks_failed: AtomicU64,
    /// Questions to DNS that brought no endpoints.
    pub failed_lookups: AtomicU64,
}

/// The upstreams of the process, by name.
#[derive(Debug, Default)]
pub struct Upstreams(Mutex<BTreeMap<Arc<str>, Arc<Upstream>>>);

impl Upstreams {
    /// The upstream `name`, without endpoints where it is new.
    #[must_use]
    pub fn get(&self, name: &Arc<str>) -> Arc<Upstream> {
        let mut all = self.0.lock();
        Arc::clone(all.entry(Arc::clone(name)).or_insert_with(|| Arc::new(Upstream::new(Arc::clone(name)))))
    }

    /// Every upstream.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<Upstream>> {
        self.0.lock().values().cloned().collect()
    }

    /// Forgets those of which `stays` says no; requests under way keep theirs.
    pub(super) fn retain(&self, stays: impl Fn(&str) -> bool) {
        self.0.lock().retain(|name, _| stays(name));
    }
}

impl Upstream {
    fn new(name: Arc<str>) -> Self {
        Self {
            name,
            roster: Mutex::default(),
            snapshot: ArcSwap::default(),
            version: AtomicU64::new(1),
            listed: watch::Sender::new(0),
            ejected: Notify::new(),
            stats: UpstreamStats::default(),
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// What is counted of it.
    #[must_use]
    pub fn stats(&self) -> &UpstreamStats {
        &self.stats
    }

    /// Every endpoint and how it stands.
    #[must_use]
    pub fn states(&self) -> Vec<(Arc<Endpoint>, EndpointState)> {
        self.roster.lock().states().map(|(endpoint, state)| (Arc::clone(endpoint), state)).collect()
    }

    /// The number of the latest snapshot: a worker compares it with the one that it knows.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version.load(Acquire)
    }

    /// Who may be chosen now.
    #[must_use]
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    /// Tells of endpoints that come and go.
    pub(super) fn listings(&self) -> watch::Receiver<u64> {
        self.listed.subscribe()
    }

    /// Its endpoints are `listed` from now on.
    pub(super) fn list(&self, listed: &[ListedEndpoint]) {
        let (differs, changes) = self.change(|roster| {
            let (differs, changes) = roster.list(listed);
            (differs, (differs, changes))
        });
        if differs {
            self.listed.send_modify(|version| *version += 1);
        }
        self.tell(&changes);
    }

    pub(super) fn endpoints(&self) -> Vec<Arc<Endpoint>> {
        self.roster.lock().endpoints().cloned().collect()
    }

    pub(super) fn health(&self, endpoint: &Arc<Endpoint>) -> Health {
        self.roster.lock().health(endpoint)
    }

    /// Notes what health checks say of `endpoint`.
    pub(super) fn set_health(&self, endpoint: &Arc<Endpoint>, health: Health) {
        let change = self.change(|roster| {
            let change = roster.set_health(endpoint, health);
            (change.is_some(), change)
        });
        self.tell(change.map(|change| (Arc::clone(endpoint), change)).as_slice());
    }

    /// Leaves `endpoint` alone for a while, if too many others are not.
    pub(super) fn eject(&self, endpoint: &Arc<Endpoint>, settings: &Ejection) {
        let change = self.change(|roster| {
            let change = roster.eject(endpoint, settings, Instant::now());
            (change.is_some(), change)
        });
        if change.is_some() {
            self.stats.ejections.fetch_add(1, Relaxed);
            self.ejected.notify_one();
        }
        self.tell(change.map(|change| (Arc::clone(endpoint), change)).as_slice());
    }

    /// Brings back those whose ejection is over; when the next one's is.
    pub(super) fn end_ejections(&self) -> Option<Instant> {
        let (changes, next) = self.change(|roster| {
            let changes = roster.end_ejections(Instant::now());
            (!changes.is_empty(), (changes, roster.next_return()))
        });
        self.tell(&changes);
        next
    }

    /// Brings all back.
    pub(super) fn clear_ejections(&self) {
        let changes = self.change(|roster| {
            let changes = roster.clear_ejections(Instant::now());
            (!changes.is_empty(), changes)
        });
        self.tell(&changes);
    }

    /// Changes what is known, and publishes it where `change` says that something is different.
    fn change<T>(&self, change: impl FnOnce(&mut EndpointSet) -> (bool, T)) -> T {
        let mut roster = self.roster.lock();
        let (differs, outcome) = change(&mut roster);
        if differs {
            let snapshot = Arc::new(roster.snapshot());
            let is_empty = snapshot.is_empty();
            let was_empty = self.snapshot.swap(snapshot).is_empty();
            let is_first = self.version.fetch_add(1, AcqRel) == 1;
            drop(roster);
            match (was_empty, is_empty) {
                _ if is_first => {}
                (false, true) => tracing::error!(upstream = %self.name, "no endpoint lives: requests are refused"),
                (true, false) => tracing::info!(upstream = %self.name, "there are endpoints to ask"),
                _ => {}
            }
        }
        outcome
    }

    fn tell(&self, changes: &[(Arc<Endpoint>, Change)]) {
        let upstream = &self.name;
        for (endpoint, change) in changes {
            match change {
                Change::Added => tracing::debug!(%upstream, %endpoint, "endpoint joined"),
                Change::Removed => tracing::debug!(%upstream, %endpoint, "endpoint left"),
                Change::Healthy => tracing::info!(%upstream, %endpoint, "endpoint passes its health checks again"),
                Change::Unhealthy => {} // told by who checked it, with the reason
                Change::Ejected(time) => {
                    tracing::warn!(%upstream, %endpoint, ?time, "endpoint ejected: too many failures in a row");
                }
                Change::Recovering => tracing::info!(%upstream, %endpoint, "endpoint back after its ejection"),
            }
        }
    }
}
