//! Facts that layers learn about a request while they handle it, for the access log.
//!
//! A worker handles all its requests on one thread, and the layers of a request run only while its future is polled. The
//! facts of that request are therefore in a thread-local slot, and layers need no reference to the record of the request.
//! Without an access log in JSON the slot is empty, and a report costs one comparison.

pub mod limiter;

use std::cell::Cell;
use std::time::Duration;

use http::HeaderValue;
use tokio::time::Instant;

use self::limiter::LimiterFacts;

/// Facts about one request.
#[derive(Debug, Default)]
pub struct RequestFacts {
    /// Attempts to forward the request.
    pub upstream: UpstreamFacts,
    /// Verdicts of limiters.
    pub limiter: LimiterFacts,
}

impl RequestFacts {
    /// Removes the facts, and keeps the memory for those of another request.
    pub fn clear(&mut self) {
        self.upstream = UpstreamFacts::default();
        self.limiter.decisions.clear();
        self.limiter.verdicts.clear();
    }
}

/// Attempts to forward a request.
#[derive(Debug, Default)]
pub struct UpstreamFacts {
    /// Endpoint of the last attempt, in the form of `Host`.
    pub endpoint: Option<HeaderValue>,
    /// Time that the last attempt took to connect; `None` on a pooled connection.
    pub connect: Option<Duration>,
    /// Time from sending the request of the last attempt to its response head.
    pub response: Option<Duration>,
    /// Number of attempts.
    pub attempts: u32,
}

thread_local! {
    static CURRENT: Cell<Option<Box<RequestFacts>>> = const { Cell::new(None) };
}

/// Calls `work`, and collects the facts that layers report meanwhile in `facts`.
#[inline]
pub fn collect<T>(facts: &mut Option<Box<RequestFacts>>, work: impl FnOnce() -> T) -> T {
    if facts.is_none() {
        return work();
    }
    let outer = CURRENT.replace(facts.take());
    let _restored = Collection { facts, outer };
    work()
}

/// Ends a collection when it is dropped, after a panic too.
struct Collection<'f> {
    facts: &'f mut Option<Box<RequestFacts>>,
    outer: Option<Box<RequestFacts>>,
}

impl Drop for Collection<'_> {
    fn drop(&mut self) {
        *self.facts = CURRENT.replace(self.outer.take());
    }
}

/// Calls `add` with the facts of the request that is polled, if they are collected.
#[inline]
pub fn report(add: impl FnOnce(&mut RequestFacts)) {
    if let Some(mut facts) = CURRENT.take() {
        add(&mut facts);
        CURRENT.set(Some(facts));
    }
}

/// Reports an attempt at `endpoint`.
#[inline]
pub fn report_attempt(endpoint: &HeaderValue) {
    report(|facts| {
        let attempts = facts.upstream.attempts.saturating_add(1);
        facts.upstream = UpstreamFacts { endpoint: Some(endpoint.clone()), attempts, ..UpstreamFacts::default() };
    });
}

/// Time of a step of an attempt, for the metrics and for the facts of the request.
#[derive(Clone, Copy, Debug)]
pub struct Timer(Instant);

impl Timer {
    /// Starts a timer.
    #[inline]
    #[must_use]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Returns the time of the start.
    #[inline]
    #[must_use]
    pub fn started(self) -> Instant {
        self.0
    }

    /// Reports the time since the start as the time of connecting, and returns it.
    pub fn connected(self) -> Duration {
        let elapsed = self.0.elapsed();
        report(|facts| facts.upstream.connect = Some(elapsed));
        elapsed
    }

    /// Reports the time since the start as the time of the response head, and returns it.
    pub fn responded(self) -> Duration {
        let elapsed = self.0.elapsed();
        report(|facts| facts.upstream.response = Some(elapsed));
        elapsed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_belong_to_the_request_that_is_polled() {
        let (mut outer, mut inner, mut off) = (Some(Box::default()), Some(Box::default()), None);
        let endpoint = HeaderValue::from_static("orders:8080");
        report_attempt(&endpoint);
        collect(&mut outer, || {
            report_attempt(&endpoint);
            Timer::start().connected();
            collect(&mut inner, || report_attempt(&endpoint));
            collect(&mut off, || report_attempt(&endpoint));
            report_attempt(&endpoint);
        });
        let attempts = |facts: &Option<Box<RequestFacts>>| facts.as_ref().map(|facts| facts.upstream.attempts);
        assert_eq!((attempts(&outer), attempts(&inner), attempts(&off)), (Some(3), Some(1), None));
        assert_eq!(outer.and_then(|facts| facts.upstream.connect), None, "the last attempt did not connect");
    }
}
