//! Viewers of the dashboard, and the snapshots and the history that they share.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;

use crate::admin::events::rates::{Current, MAX_ROUTES, Rounded};

/// Maximum number of viewers, of 128 connections.
pub(super) const MAX_VIEWERS: usize = 32;
/// Number of points of a line.
const POINTS: usize = 120;

/// Viewers, and what they share.
#[derive(Debug, Default)]
pub(crate) struct Viewers(Mutex<SharedEvents>);

#[derive(Debug, Default)]
pub(super) struct SharedEvents {
    pub(super) viewers: usize,
    /// Latest snapshot; `None` while no task makes snapshots.
    pub(super) snapshots: Option<watch::Receiver<Bytes>>,
    pub(super) history: History,
}

/// Slot of one viewer, freed when dropped.
#[derive(Debug)]
pub(super) struct ViewerSlot(Arc<Viewers>);

/// Rates of the last two minutes, for the sparklines of a page that is opened.
#[reply(Clone, Debug, Default)]
pub(in crate::admin) struct History {
    all: Line,
    routes: BTreeMap<String, Line>,
}

/// Rates per second, the oldest first.
#[reply(Clone, Debug, Default)]
struct Line {
    requests: VecDeque<Rounded>,
    denied: VecDeque<Rounded>,
}

impl Viewers {
    /// Locks the shared state.
    pub(super) fn lock(&self) -> MutexGuard<'_, SharedEvents> {
        self.0.lock()
    }

    /// Returns the number of viewers.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.0.lock().viewers
    }
}

impl ViewerSlot {
    /// Takes a slot; `None` if all [`MAX_VIEWERS`] are taken.
    pub(super) fn take(viewers: &Arc<Viewers>) -> Option<Self> {
        let mut shared = viewers.lock();
        if shared.viewers == MAX_VIEWERS {
            return None;
        }
        shared.viewers += 1;
        drop(shared);
        Some(Self(Arc::clone(viewers)))
    }
}

impl Drop for ViewerSlot {
    fn drop(&mut self) {
        self.0.lock().viewers -= 1;
    }
}

impl History {
    /// Adds the rates of one more second.
    pub(super) fn push(&mut self, current: &Current) {
        self.all.push(current.all.requests, current.all.denied);
        for (id, rates) in &current.routes {
            if self.routes.len() < MAX_ROUTES && !self.routes.contains_key(&**id) {
                self.routes.insert(id.to_string(), Line::default());
            }
            if let Some(line) = self.routes.get_mut(&**id) {
                line.push(rates.requests, rates.denied);
            }
        }
    }
}

impl Line {
    fn push(&mut self, requests: Rounded, denied: Rounded) {
        for (points, rate) in [(&mut self.requests, requests), (&mut self.denied, denied)] {
            if points.len() == POINTS {
                points.pop_front();
            }
            points.push_back(rate);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::events::rates::RouteRates;

    #[test]
    fn lines_and_their_number_are_bounded() {
        let mut history = History::default();
        for second in 0..200_u32 {
            let rates = RouteRates { requests: Rounded(f64::from(second)), ..RouteRates::default() };
            let routes = (0..MAX_ROUTES + 10).map(|route| (format!("route-{route}").into(), rates.clone()));
            let routes: BTreeMap<Arc<str>, RouteRates> = routes.collect();
            history.push(&Current { all: rates, unrouted: Rounded(0.0), routes });
        }
        let described = serde_json::to_value(&history).unwrap_or_default();
        assert_eq!(described["routes"].as_object().map(serde_json::Map::len), Some(MAX_ROUTES));
        let points = described["all"]["requests"].as_array().cloned().unwrap_or_default();
        assert_eq!((points.len(), &points[0], &points[119]), (120, &80.into(), &199.into()));
    }
}
