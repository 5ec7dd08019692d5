//! What is known of an upstream's endpoints, and who may be chosen: pure, with the time as an argument.
//!
//! A health check that fails is knowledge: an endpoint that is down gets no request, and when all are down there is
//! nobody. An ejection is a guess from what became of requests: it never takes more than a share of the endpoints, and
//! those that are ejected are asked after all when nobody else is left.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::upstream::balance::endpoint::Endpoint;
use tollgate_config::{Ejection, ListedEndpoint};

/// An upstream's endpoints.
#[derive(Debug, Default)]
pub(super) struct EndpointSet {
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    endpoint: Arc<Endpoint>,
    weight: u32,
    priority: u16,
    health: Health,
    ejection: Ejected,
}

/// What health checks say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Health {
    /// Nothing yet; taken for up.
    #[default]
    Unknown,
    /// It answers as it should.
    Healthy,
    /// It does not.
    Unhealthy,
}

/// Whether requests taught to leave it alone, and how often they did.
#[derive(Clone, Copy, Debug, Default)]
struct Ejected {
    /// Until when; `None`: it is not ejected.
    until: Option<Instant>,
    /// How many failures in a row brought it there.
    threshold: u32,
    /// How often in a row, less one for each `base-time` that it has served since.
    times: u32,
    returned: Option<Instant>,
}

/// How an endpoint stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EndpointState {
    /// It gets requests.
    Healthy,
    /// It fails its health checks.
    Unhealthy,
    /// It failed requests and is left alone for a while.
    Ejected,
}

/// Who may be chosen.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// Those that live, by priority: later ones stand in where the earlier are no choice.
    pub healthy: Vec<Vec<Member>>,
    /// Those that are ejected only, by priority: the last resort.
    pub ejected: Vec<Vec<Member>>,
}

/// An endpoint that may be chosen.
#[derive(Clone, Debug)]
pub struct Member {
    /// The endpoint.
    pub endpoint: Arc<Endpoint>,
    /// Its share.
    pub weight: u32,
}

/// What became of an endpoint, for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// It is in the list now.
    Added,
    /// It is no longer.
    Removed,
    /// It passes its health checks.
    Healthy,
    /// It fails them.
    Unhealthy,
    /// It is left alone for so long.
    Ejected(Duration),
    /// It gets requests again.
    Recovering,
}

impl EndpointSet {
    /// Makes the list `listed`. What stays keeps its health, its ejection and its counts. Says whether anything changed, and
    /// who came and went.
    pub(super) fn list(&mut self, listed: &[ListedEndpoint]) -> (bool, Vec<(Arc<Endpoint>, Change)>) {
        let mut before = std::mem::take(&mut self.entries);
        let mut changes = Vec::new();
        let mut differs = false;
        for ListedEndpoint { address, weight, priority } in listed {
            if self.entries.iter().any(|entry| entry.endpoint.address() == address) {
                continue;
            }
            let known = before.iter().position(|entry| entry.endpoint.address() == address);
            let mut entry = match known {
                Some(at) => before.remove(at),
                None => {
                    let endpoint = Arc::new(Endpoint::new(address.clone()));
                    changes.push((Arc::clone(&endpoint), Change::Added));
                    Entry { endpoint, weight: 0, priority: 0, health: Health::Unknown, ejection: Ejected::default() }
                }
            };
            differs |= (entry.weight, entry.priority) != (*weight, *priority);
            (entry.weight, entry.priority) = (*weight, *priority);
            self.entries.push(entry);
        }
        differs |= !before.is_empty() || !changes.is_empty();
        changes.extend(before.into_iter().map(|entry| (entry.endpoint, Change::Removed)));
        (differs, changes)
    }

    /// Everybody in the list.
    pub(super) fn endpoints(&self) -> impl Iterator<Item = &Arc<Endpoint>> {
        self.entries.iter().map(|entry| &entry.endpoint)
    }

    /// Everybody, and how each stands.
    pub(super) fn states(&self) -> impl Iterator<Item = (&Arc<Endpoint>, EndpointState)> {
        self.entries.iter().map(|entry| (&entry.endpoint, entry.state()))
    }

    /// What health checks say of `endpoint`.
    #[must_use]
    pub(super) fn health(&self, endpoint: &Arc<Endpoint>) -> Health {
        self.entries
            .iter()
            .find(|entry| Arc::ptr_eq(&entry.endpoint, endpoint))
            .map_or(Health::Unknown, |entry| entry.health)
    }

    /// Notes what health checks say of `endpoint` now.
    pub(super) fn set_health(&mut self, endpoint: &Arc<Endpoint>, health: Health) -> Option<Change> {
        let entry = self.entry(endpoint)?;
        let before = std::mem::replace(&mut entry.health, health);
        match (before, health) {
            (Health::Healthy | Health::Unknown, Health::Unhealthy) => Some(Change::Unhealthy),
            (Health::Unhealthy, Health::Healthy | Health::Unknown) => {
                entry.endpoint.succeed();
                Some(Change::Healthy)
            }
            _ => None,
        }
    }

    /// Leaves `endpoint` alone for a while, the longer the oftener, unless it is already or too many others are.
    pub(super) fn eject(&mut self, endpoint: &Arc<Endpoint>, settings: &Ejection, now: Instant) -> Option<Change> {
        let ejected = self.entries.iter().filter(|entry| entry.ejection.until.is_some()).count();
        if (ejected + 1) * 100 > self.entries.len() * usize::from(settings.max_percent) {
            return None;
        }
        let ejection = &mut self.entry(endpoint)?.ejection;
        if ejection.until.is_some() {
            return None;
        }
        let served = ejection.returned.map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        let forgiven = served.as_nanos() / settings.base_time.as_nanos().max(1);
        ejection.times = ejection.times.saturating_sub(u32::try_from(forgiven).unwrap_or(u32::MAX)).saturating_add(1);
        let time = settings.base_time.saturating_mul(ejection.times).min(settings.max_time.max(settings.base_time));
        ejection.until = Some(now + time);
        ejection.threshold = settings.consecutive_failures.get();
        Some(Change::Ejected(time))
    }

    /// Ends the ejections that are over at `now`.
    pub(super) fn end_ejections(&mut self, now: Instant) -> Vec<(Arc<Endpoint>, Change)> {
        self.end_ejections_if(now, |until| until <= now)
    }

    /// Ends all ejections: nobody is ejected any more.
    pub(super) fn clear_ejections(&mut self, now: Instant) -> Vec<(Arc<Endpoint>, Change)> {
        self.end_ejections_if(now, |_| true)
    }

    fn end_ejections_if(&mut self, now: Instant, over: impl Fn(Instant) -> bool) -> Vec<(Arc<Endpoint>, Change)> {
        let mut changes = Vec::new();
        for entry in &mut self.entries {
            if entry.ejection.until.is_some_and(&over) {
                entry.ejection.until = None;
                entry.ejection.returned = Some(now);
                entry.endpoint.mark_recovering(entry.ejection.threshold);
                changes.push((Arc::clone(&entry.endpoint), Change::Recovering));
            }
        }
        changes
    }

    /// When the next ejection ends.
    #[must_use]
    pub(super) fn next_return(&self) -> Option<Instant> {
        self.entries.iter().filter_map(|entry| entry.ejection.until).min()
    }

    /// Who may be chosen.
    #[must_use]
    pub(super) fn snapshot(&self) -> Snapshot {
        let in_state = |state: EndpointState| {
            let mut found: Vec<&Entry> =
                self.entries.iter().filter(|entry| entry.weight > 0 && entry.state() == state).collect();
            found.sort_by_key(|entry| entry.priority);
            let ranks = found.chunk_by(|one, next| one.priority == next.priority);
            ranks.map(|rank| rank.iter().map(|entry| entry.member()).collect()).collect()
        };
        Snapshot { healthy: in_state(EndpointState::Healthy), ejected: in_state(EndpointState::Ejected) }
    }

    fn entry(&mut self, endpoint: &Arc<Endpoint>) -> Option<&mut Entry> {
        self.entries.iter_mut().find(|entry| Arc::ptr_eq(&entry.endpoint, endpoint))
    }
}

impl Entry {
    fn state(&self) -> EndpointState {
        match (self.health, self.ejection.until) {
            (Health::Unhealthy, _) => EndpointState::Unhealthy,
            (_, Some(_)) => EndpointState::Ejected,
            (_, None) => EndpointState::Healthy,
        }
    }

    fn member(&self) -> Member {
        Member { endpoint: Arc::clone(&self.endpoint), weight: self.weight }
    }
}

impl Snapshot {
    /// Whether there is nobody.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.healthy.is_empty() && self.ejected.is_empty()
    }
}

impl EndpointState {
    /// The state's name in metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Healthy => "up",
            Self::Unhealthy => "down",
            Self::Ejected => "ejected",
        }
    }
}

#[cfg(test)]
mod tests;
