//! Slow start: the share of an endpoint that joins others, or that is healthy again, grows with time.

use std::time::Duration;

use tokio::time::Instant;

use crate::upstream::balance::endpoint_set::{EndpointEntry, EndpointSet};

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
    use tollgate_config::{EndpointAddress, ListedEndpoint, Scheme};

    use super::*;
    use crate::upstream::balance::endpoint_set::Health;

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
