//! A hot key: the rate of its requests, its lease, and the return of requests that the lease did not need.

use std::sync::Arc;

use redis::Value;
use tokio::runtime::Handle;

use super::check_set::CheckSet;
use super::lease::Lease;
use crate::store::redis::client::Request;
use crate::store::redis::command::LeaseTimes;
use crate::store::redis::invalidation::WatchedKeys;
use crate::store::redis::micros;

/// Requests in a period above which a key is hot. Below, a lease saves less than it may hold back unused.
const HOT: u64 = 8;

/// Most spare requests in one call.
const MAX_SPARE: u64 = 1_000;

/// Part of the remaining requests that one gateway may hold, so that others still find some.
const SHARE: u64 = 4;

/// Requests of one fingerprint.
#[derive(Default)]
pub(super) struct HotKey {
    pub(super) rate: RequestRate,
    pub(super) duration_us: u64,
    /// Further requests that Redis allowed in its last reply.
    pub(super) further_requests: u64,
    pub(super) lease: Option<(Lease, LeaseOrigin)>,
    /// True while a task waits for the end of the lease.
    pub(super) has_task: bool,
}

/// Checks and connection for returning unused requests.
#[derive(Clone)]
pub(super) struct LeaseOrigin {
    pub(super) checks: Arc<CheckSet>,
    pub(super) request: Request,
    /// Keys since the call was sent. An operator's change ends the lease.
    pub(super) keys: WatchedKeys,
}

/// Unused requests of a lease that is over.
pub(super) struct EndedLease {
    origin: LeaseOrigin,
    requests: u64,
    times: LeaseTimes,
}

/// Requests in the current period and in the one before it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RequestRate {
    since_us: u64,
    current: u64,
    previous: u64,
}

impl RequestRate {
    /// Counts a request, in periods of `period_us`.
    pub(super) fn record(&mut self, now_us: u64, period_us: u64) {
        let elapsed = now_us.saturating_sub(self.since_us);
        if elapsed >= period_us {
            self.previous = if elapsed < period_us.saturating_mul(2) { self.current } else { 0 };
            (self.since_us, self.current) = (now_us, 0);
        }
        self.current += 1;
    }

    /// Returns true if requests are frequent enough for a lease.
    pub(super) fn is_hot(&self) -> bool {
        self.previous.max(self.current) > HOT
    }

    /// Returns true if there was a request in the last two periods.
    pub(super) fn is_recent(&self, now_us: u64, period_us: u64) -> bool {
        now_us.saturating_sub(self.since_us) < period_us.saturating_mul(2)
    }

    /// Returns the number of spare requests to take, if Redis has room for `room` of them and `gateways` gateways share
    /// them. At most as many as a period needs, and none if little is left.
    pub(super) fn spare_requests(&self, room: u64, gateways: u64) -> u64 {
        if self.is_hot() {
            self.previous.max(self.current).min(room / SHARE / gateways.max(1)).min(MAX_SPARE)
        } else {
            0
        }
    }
}

impl HotKey {
    /// Ends the lease if there is one; `None`: there is nothing to return.
    pub(super) fn end(&mut self, now_us: u64) -> Option<EndedLease> {
        let (mut lease, origin) = self.lease.take()?;
        // Latest time at which Redis counts the return.
        let (requests, times) = lease.end(now_us.saturating_add(micros(origin.request.timeout())));
        (requests > 0).then_some(EndedLease { origin, requests, times })
    }
}

impl EndedLease {
    /// Returns the requests in a task.
    pub(super) fn spawn_return(self) {
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(self.return_requests());
        }
    }

    /// Returns the requests.
    pub(super) async fn return_requests(self) {
        let Self { origin: LeaseOrigin { checks, request, .. }, requests, times } = self;
        let call = checks.return_call(requests, times);
        // Failures are counted with the failed calls.
        let (cmd, keys) = (call.cmd(), checks.notice_keys());
        let _ = request.renew().run_returning(Some(&call.script), &cmd, &keys, is_reply).await;
    }
}

/// Reads the reply to a return or a revocation.
pub(crate) fn is_reply(reply: &Value) -> Option<()> {
    matches!(reply, Value::BulkString(_) | Value::Array(_)).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(before: u64, now: u64) -> RequestRate {
        let mut rate = RequestRate::default();
        (0..before).for_each(|_| rate.record(1_000, 100));
        (0..now).for_each(|_| rate.record(1_100, 100));
        rate
    }

    #[test]
    fn a_key_is_hot_while_one_of_the_last_periods_had_many_requests() {
        assert!(!rate(8, 8).is_hot() && rate(9, 1).is_hot() && rate(1, 9).is_hot());
        let mut cold = rate(100, 100);
        cold.record(1_300, 100);
        assert!(!cold.is_hot(), "there was no request for a whole period");
    }

    #[test]
    fn spare_requests_are_limited_by_the_rate_and_the_remaining_requests() {
        assert_eq!(rate(50, 3).spare_requests(1_000_000, 1), 50);
        assert_eq!(
            (rate(50, 3).spare_requests(100, 1), rate(50, 3).spare_requests(100, 5), rate(50, 3).spare_requests(3, 1)),
            (25, 5, 0)
        );
        assert_eq!((rate(5, 3).spare_requests(1_000, 1), rate(5_000, 3).spare_requests(1_000_000, 1)), (0, 1_000));
    }
}
