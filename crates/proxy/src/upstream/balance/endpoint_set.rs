//! Health and ejections of an upstream's endpoints. Pure: the time is an argument.
//!
//! A failed health check is certain: an unhealthy endpoint gets no request, and if all are unhealthy, none is available.
//! An ejection is inferred from failed requests. It never affects more than a configured share of the endpoints, and
//! ejected endpoints are used if no other one is available.

mod reduced;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

pub use self::reduced::DrainError;
use crate::upstream::balance::endpoint::Endpoint;
use crate::upstream::balance::endpoint_reports::{EndpointChange, EndpointChanges, EndpointStatus};
use tollgate_config::{Ejection, ListedEndpoint};

/// Endpoints of an upstream.
#[derive(Debug, Default)]
pub(super) struct EndpointSet {
    entries: Vec<EndpointEntry>,
    /// Time in which the share of an endpoint grows; `None`: it has all of it at once.
    slow_start: Option<Duration>,
}

#[derive(Debug)]
struct EndpointEntry {
    endpoint: Arc<Endpoint>,
    weight: u32,
    priority: u16,
    health: Health,
    ejection: EjectionState,
    /// End of its draining; `None` if it is not drained.
    drained_until: Option<Instant>,
    /// Time at which its share began to grow; `None` once it has all of it.
    slow_since: Option<Instant>,
}

/// Result of health checks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Health {
    /// No result yet; treated as healthy.
    #[default]
    Unknown,
    /// Checks pass.
    Healthy,
    /// Checks fail.
    Unhealthy,
}

/// Ejections of an endpoint.
#[derive(Clone, Copy, Debug, Default)]
struct EjectionState {
    /// End of the current ejection; `None` if it is not ejected.
    until: Option<Instant>,
    /// Number of consecutive failures that caused it.
    threshold: u32,
    /// Number of consecutive ejections, less one for each `base-time` without one.
    times: u32,
    recovered_at: Option<Instant>,
}

tollgate_limiter::labelled! {
    /// State of an endpoint, with its label in metrics.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum EndpointState {
        /// It gets requests.
        Healthy = "up",
        /// It fails its health checks.
        Unhealthy = "down",
        /// It failed requests and gets none for a while.
        Ejected = "ejected",
        /// An operator drains it: it gets no new request.
        Drained = "drained",
    }
}

/// Endpoints that may be selected.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// Healthy endpoints by priority. A later tier is used if no endpoint of the earlier ones is available.
    pub healthy: Vec<Vec<WeightedEndpoint>>,
    /// Ejected endpoints by priority, used if no healthy one is available.
    pub ejected: Vec<Vec<WeightedEndpoint>>,
}

/// Endpoint with its share of requests.
#[derive(Clone, Debug)]
pub struct WeightedEndpoint {
    /// Endpoint.
    pub endpoint: Arc<Endpoint>,
    /// Share in proportion to the other endpoints of the tier.
    pub weight: u32,
}

impl EndpointSet {
    /// Replaces the list. Endpoints that remain keep their health, ejections and counters. Returns true if anything
    /// changed, and the endpoints that were added and removed.
    pub(super) fn replace(&mut self, listed: &[ListedEndpoint], now: Instant) -> (bool, EndpointChanges) {
        let slow_since = self.slow_since(now);
        let mut before: Vec<_> = std::mem::take(&mut self.entries).into_iter().map(Some).collect();
        let positions: HashMap<_, _> =
            before.iter().flatten().map(|entry| entry.endpoint.address().clone()).zip(0..).collect();
        let mut listed_before = HashSet::with_capacity(listed.len());
        let mut changes = Vec::new();
        let mut differs = false;
        for ListedEndpoint { address, weight, priority } in listed {
            if !listed_before.insert(address) {
                continue;
            }
            let mut entry = match positions.get(address).and_then(|at: &usize| before[*at].take()) {
                Some(entry) => entry,
                None => {
                    let endpoint = Arc::new(Endpoint::new(address.clone()));
                    changes.push((Arc::clone(&endpoint), EndpointChange::Added));
                    EndpointEntry::new(endpoint, slow_since)
                }
            };
            differs |= (entry.weight, entry.priority) != (*weight, *priority);
            (entry.weight, entry.priority) = (*weight, *priority);
            self.entries.push(entry);
        }
        let mut removed = before.into_iter().flatten().peekable();
        differs |= removed.peek().is_some() || !changes.is_empty();
        changes.extend(removed.map(|entry| (entry.endpoint, EndpointChange::Removed)));
        (differs, changes)
    }

    /// Returns all endpoints.
    pub(super) fn endpoints(&self) -> impl Iterator<Item = &Arc<Endpoint>> {
        self.entries.iter().map(|entry| &entry.endpoint)
    }

    /// Returns all endpoints with their states.
    pub(super) fn states(&self) -> impl Iterator<Item = (&Arc<Endpoint>, EndpointState)> {
        self.entries.iter().map(|entry| (&entry.endpoint, entry.state()))
    }

    /// Returns all endpoints with the knowledge about them.
    pub(super) fn statuses(&self) -> impl Iterator<Item = EndpointStatus> {
        self.entries.iter().map(|entry| EndpointStatus::new(&entry.endpoint, entry.state(), entry.health))
    }

    /// Returns the result of the health checks of `endpoint`.
    pub(super) fn health(&self, endpoint: &Arc<Endpoint>) -> Health {
        self.entries
            .iter()
            .find(|entry| Arc::ptr_eq(&entry.endpoint, endpoint))
            .map_or(Health::Unknown, |entry| entry.health)
    }

    /// Stores the result of the health checks of `endpoint`.
    pub(super) fn set_health(
        &mut self,
        endpoint: &Arc<Endpoint>,
        health: Health,
        now: Instant,
    ) -> Option<EndpointChange> {
        let slow_since = self.slow_since(now);
        let entry = self.entry(endpoint)?;
        let before = std::mem::replace(&mut entry.health, health);
        match (before, health) {
            (Health::Healthy | Health::Unknown, Health::Unhealthy) => Some(EndpointChange::Unhealthy),
            (Health::Unhealthy, Health::Healthy | Health::Unknown) => {
                entry.endpoint.reset_failures();
                entry.endpoint.attempts().clear_failures();
                entry.slow_since = slow_since;
                Some(EndpointChange::Healthy)
            }
            _ => None,
        }
    }

    /// Ejects `endpoint`, for longer at each consecutive ejection. Does nothing if it is ejected already, or if too many
    /// others are.
    pub(super) fn eject(
        &mut self,
        endpoint: &Arc<Endpoint>,
        settings: &Ejection,
        now: Instant,
    ) -> Option<EndpointChange> {
        let ejected = self.entries.iter().filter(|entry| entry.ejection.until.is_some()).count();
        if (ejected + 1) * 100 > self.entries.len() * usize::from(settings.max_percent.get()) {
            return None;
        }
        let ejection = &mut self.entry(endpoint)?.ejection;
        if ejection.until.is_some() {
            return None;
        }
        let served = ejection.recovered_at.map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        let base_time = settings.base_time.get();
        let forgiven = served.as_nanos() / base_time.as_nanos().max(1);
        ejection.times = ejection.times.saturating_sub(u32::try_from(forgiven).unwrap_or(u32::MAX)).saturating_add(1);
        let time = base_time.saturating_mul(ejection.times).min(settings.max_time.get().max(base_time));
        ejection.until = Some(now + time);
        ejection.threshold = settings.consecutive_failures.get().get();
        Some(EndpointChange::Ejected(time))
    }

    /// Ends the ejections that have expired at `now`.
    pub(super) fn end_ejections(&mut self, now: Instant) -> EndpointChanges {
        self.end_ejections_if(now, |until| until <= now)
    }

    /// Ends all ejections.
    pub(super) fn clear_ejections(&mut self, now: Instant) -> EndpointChanges {
        self.end_ejections_if(now, |_| true)
    }

    fn end_ejections_if(&mut self, now: Instant, is_over: impl Fn(Instant) -> bool) -> EndpointChanges {
        let mut changes = Vec::new();
        for entry in &mut self.entries {
            if entry.ejection.until.is_some_and(&is_over) {
                entry.ejection.until = None;
                entry.ejection.recovered_at = Some(now);
                entry.endpoint.mark_recovering(entry.ejection.threshold);
                changes.push((Arc::clone(&entry.endpoint), EndpointChange::Recovering));
            }
        }
        changes
    }

    /// Returns the endpoints that may be selected.
    pub(super) fn snapshot(&self, now: Instant) -> Snapshot {
        let share = self.shares(now);
        let in_state = |state: EndpointState| {
            let mut entries: Vec<&EndpointEntry> =
                self.entries.iter().filter(|entry| entry.weight > 0 && entry.state() == state).collect();
            entries.sort_by_key(|entry| entry.priority);
            let tiers = entries.chunk_by(|one, next| one.priority == next.priority);
            tiers.map(|tier| tier.iter().map(|entry| entry.weighted(share(entry))).collect()).collect()
        };
        Snapshot { healthy: in_state(EndpointState::Healthy), ejected: in_state(EndpointState::Ejected) }
    }

    fn entry(&mut self, endpoint: &Arc<Endpoint>) -> Option<&mut EndpointEntry> {
        self.entries.iter_mut().find(|entry| Arc::ptr_eq(&entry.endpoint, endpoint))
    }
}

impl EndpointEntry {
    fn new(endpoint: Arc<Endpoint>, slow_since: Option<Instant>) -> Self {
        Self {
            endpoint,
            weight: 0,
            priority: 0,
            health: Health::Unknown,
            ejection: EjectionState::default(),
            drained_until: None,
            slow_since,
        }
    }

    fn state(&self) -> EndpointState {
        match (self.health, self.ejection.until) {
            _ if self.drained_until.is_some() => EndpointState::Drained,
            (Health::Unhealthy, _) => EndpointState::Unhealthy,
            (_, Some(_)) => EndpointState::Ejected,
            (_, None) => EndpointState::Healthy,
        }
    }

    fn weighted(&self, share: u32) -> WeightedEndpoint {
        WeightedEndpoint { endpoint: Arc::clone(&self.endpoint), weight: self.weight.saturating_mul(share) }
    }
}

impl Snapshot {
    /// Returns true if no endpoint may be selected.
    pub fn is_empty(&self) -> bool {
        self.healthy.is_empty() && self.ejected.is_empty()
    }
}

#[cfg(test)]
mod tests;
