//! Viewers of the dashboard, and the snapshots that they share.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;

use crate::admin::events::history::History;

/// Maximum number of viewers, of 128 connections.
pub(super) const MAX_VIEWERS: usize = 32;

/// Viewers, and the snapshots that they share.
#[derive(Debug, Default)]
pub(crate) struct Hub(Mutex<Shared>);

#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) viewers: usize,
    /// Latest snapshot; `None` while no task makes snapshots.
    pub(super) snapshots: Option<watch::Receiver<Bytes>>,
    pub(super) history: History,
}

/// Slot of one viewer, freed when dropped.
#[derive(Debug)]
pub(super) struct ViewerSlot(Arc<Hub>);

impl Hub {
    /// Locks the shared state.
    pub(super) fn lock(&self) -> MutexGuard<'_, Shared> {
        self.0.lock()
    }

    /// Returns the number of viewers.
    #[cfg(test)]
    pub(crate) fn viewers(&self) -> usize {
        self.0.lock().viewers
    }
}

impl ViewerSlot {
    /// Takes a slot; `None` if all [`MAX_VIEWERS`] are taken.
    pub(super) fn take(hub: &Arc<Hub>) -> Option<Self> {
        let mut shared = hub.lock();
        if shared.viewers == MAX_VIEWERS {
            return None;
        }
        shared.viewers += 1;
        drop(shared);
        Some(Self(Arc::clone(hub)))
    }
}

impl Drop for ViewerSlot {
    fn drop(&mut self) {
        self.0.lock().viewers -= 1;
    }
}
