//! Endpoints with a reduced share for a while. One that an operator drains gets no new request until the time is over. In a slow
//! start, the share of one that joins others, or that is healthy again, grows with time.

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
    pub(in crate::upstream::balance) fn next_end(&self) -> Option<Instant> {
        self.entries.iter().flat_map(|entry| [entry.ejection.until, entry.drained_until]).flatten().min()
    }

    fn index(&self, address: &str) -> Option<usize> {
        self.entries.iter().position(|entry| entry.endpoint.to_string() == address)
    }
}

/// Share of an endpoint that has all of it, in percent.
const WHOLE: u32 = 100;
/// First share of an endpoint, in percent.
const FIRST: u32 = 10;
/// Time between two steps.
const STEP: Duration = Duration::from_secs(1);

impl EndpointSet {
    /// Sets the time in which the share of an endpoint grows.
    pub(in crate::upstream::balance) fn set_slow_start(&mut self, time: Option<Duration>) {
        self.slow_start = time;
    }

    /// Returns the start of an endpoint that gets requests from `now` on; `None` if it has its whole share at once: without
    /// slow start, or if there is no endpoint that could take the rest.
    pub(super) fn slow_since(&self, now: Instant) -> Option<Instant> {
        self.slow_start.filter(|_| !self.entries.is_empty()).map(|_| now)
    }

    /// Returns the shares of endpoints at `now`: 1 for each if all have theirs, otherwise percent.
    pub(super) fn shares(&self, now: Instant) -> impl Fn(&EndpointEntry) -> u32 {
        let time = self.slow_start.filter(|_| self.entries.iter().any(|entry| entry.slow_since.is_some()));
        move |entry| match (time, entry.slow_since) {
            (None, _) => 1,
            (Some(_), None) => WHOLE,
            (Some(time), Some(since)) => grown(now.saturating_duration_since(since), time),
        }
    }

    /// Ends the slow starts that are over at `now`. Returns true if there were any, so that the shares have changed.
    pub(in crate::upstream::balance) fn advance_slow_starts(&mut self, now: Instant) -> bool {
        let time = self.slow_start.unwrap_or_default();
        let mut slow = self.entries.iter_mut().filter(|entry| entry.slow_since.is_some()).peekable();
        let has_any = slow.peek().is_some();
        for entry in slow {
            entry.slow_since = entry.slow_since.filter(|since| *since + time > now);
        }
        has_any
    }

    /// Returns the time of the next step; `None` without slow starts.
    pub(in crate::upstream::balance) fn next_step(&self, now: Instant) -> Option<Instant> {
        self.entries.iter().any(|entry| entry.slow_since.is_some()).then(|| now + STEP)
    }
}

/// Returns the share after `elapsed` of `time`, in percent.
fn grown(elapsed: Duration, time: Duration) -> u32 {
    let percent = elapsed.as_millis() * u128::from(WHOLE) / time.as_millis().max(1);
    u32::try_from(percent).unwrap_or(WHOLE).clamp(FIRST, WHOLE)
}

#[cfg(test)]
mod tests {
    use crate::upstream::balance::endpoint_set::Health;
    use tollgate_config::{EndpointAddress, ListedEndpoint, Scheme};

    use super::*;

    fn listed(hosts: &[&str]) -> Vec<ListedEndpoint> {
        let endpoint = |host: &&str| ListedEndpoint {
            address: EndpointAddress {
                scheme: Scheme::Http,
                host: (*host).to_owned(),
                port: 80,
                name: (*host).to_owned(),
            },
            weight: 2,
            priority: 0,
        };
        hosts.iter().map(endpoint).collect()
    }

    fn weights(set: &EndpointSet, now: Instant) -> Vec<u32> {
        set.snapshot(now).healthy.iter().flatten().map(|endpoint| endpoint.weight).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn the_share_of_a_new_endpoint_grows_from_a_tenth_to_the_whole() {
        let (mut set, start) = (EndpointSet::default(), Instant::now());
        set.set_slow_start(Some(Duration::from_secs(30)));
        set.replace(&listed(&["a"]), start);
        assert_eq!((weights(&set, start), set.next_step(start)), (vec![2], None), "the first list is no addition");
        set.replace(&listed(&["a", "b"]), start);
        let after = |seconds| start + Duration::from_secs(seconds);
        for (seconds, share) in [(0, 10), (1, 10), (6, 20), (15, 50), (29, 96)] {
            assert!(set.advance_slow_starts(after(seconds)));
            assert_eq!(weights(&set, after(seconds)), [200, 2 * share], "after {seconds}s");
            assert_eq!(set.next_step(after(seconds)), Some(after(seconds + 1)));
        }
        assert!(set.advance_slow_starts(after(30)));
        assert_eq!((weights(&set, after(30)), set.next_step(after(30))), (vec![2, 2], None));
        assert!(!set.advance_slow_starts(after(31)));
    }

    #[tokio::test(start_paused = true)]
    async fn an_endpoint_that_is_healthy_again_starts_slowly() {
        let (mut set, start) = (EndpointSet::default(), Instant::now());
        set.set_slow_start(Some(Duration::from_secs(10)));
        set.replace(&listed(&["a", "b"]), start);
        let endpoints: Vec<_> = set.endpoints().cloned().collect();
        set.set_health(&endpoints[1], Health::Unhealthy, start);
        assert_eq!(weights(&set, start), [2]);
        set.set_health(&endpoints[1], Health::Healthy, start);
        assert_eq!(weights(&set, start), [200, 20]);
        set.set_slow_start(None);
        assert_eq!(weights(&set, start), [2, 2], "a reload without slow start");
    }
}
