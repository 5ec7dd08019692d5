//! Endpoints that an operator drains: they get no new request until the time is over.

use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::time::Instant;

use crate::upstream::balance::endpoint::Endpoint;
use crate::upstream::balance::endpoint_reports::{EndpointChange, EndpointChanges};
use crate::upstream::balance::endpoint_set::{EndpointEntry, EndpointSet, EndpointState};

/// Reason for which an endpoint is not drained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DrainError {
    /// No endpoint has this address.
    #[error("unknown endpoint")]
    Unknown,
    /// No other endpoint would get requests.
    #[error("no other endpoint gets requests")]
    Last,
}

impl EndpointSet {
    /// Drains the endpoint at `address` for `time`. Refuses the last endpoint that gets requests, unless `allows_last`.
    pub(in crate::upstream::balance) fn drain(
        &mut self,
        address: &str,
        time: Duration,
        allows_last: bool,
        now: Instant,
    ) -> Result<Arc<Endpoint>, DrainError> {
        let index = self.index(address).ok_or(DrainError::Unknown)?;
        let gets_requests = |entry: &EndpointEntry| {
            entry.weight > 0 && matches!(entry.state(), EndpointState::Healthy | EndpointState::Ejected)
        };
        let mut others = self.entries.iter().enumerate().filter(|(other, _)| *other != index);
        if !allows_last && !others.any(|(_, entry)| gets_requests(entry)) {
            return Err(DrainError::Last);
        }
        let entry = &mut self.entries[index];
        entry.drained_until = Some(now + time);
        Ok(Arc::clone(&entry.endpoint))
    }

    /// Ends the draining of the endpoint at `address`. Returns it if it was drained.
    pub(in crate::upstream::balance) fn end_drain(
        &mut self,
        address: &str,
    ) -> Result<Option<Arc<Endpoint>>, DrainError> {
        let index = self.index(address).ok_or(DrainError::Unknown)?;
        let entry = &mut self.entries[index];
        Ok(entry.drained_until.take().map(|_| Arc::clone(&entry.endpoint)))
    }

    /// Ends the drains that have expired at `now`.
    pub(in crate::upstream::balance) fn end_drains(&mut self, now: Instant) -> EndpointChanges {
        let expired = self.entries.iter_mut().filter(|entry| entry.drained_until.is_some_and(|until| until <= now));
        let end = |entry: &mut EndpointEntry| {
            entry.drained_until = None;
            (Arc::clone(&entry.endpoint), EndpointChange::DrainEnded)
        };
        expired.map(end).collect()
    }

    /// Returns the end of the draining of `endpoint`; `None` if it is not drained.
    pub(in crate::upstream::balance) fn drained_until(&self, endpoint: &Arc<Endpoint>) -> Option<Instant> {
        self.entries.iter().find(|entry| Arc::ptr_eq(&entry.endpoint, endpoint))?.drained_until
    }

    /// Returns the end of the next ejection or drain to expire.
    #[must_use]
    pub(in crate::upstream::balance) fn next_end(&self) -> Option<Instant> {
        self.entries.iter().flat_map(|entry| [entry.ejection.until, entry.drained_until]).flatten().min()
    }

    fn index(&self, address: &str) -> Option<usize> {
        self.entries.iter().position(|entry| entry.endpoint.to_string() == address)
    }
}
