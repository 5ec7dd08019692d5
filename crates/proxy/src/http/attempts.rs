//! Observation of the attempts to forward one request.

use std::fmt::Debug;
use std::sync::Arc;

use http::{HeaderMap, StatusCode};

/// Observer of the attempts to forward one request, in its extensions. All clones share one observer.
#[derive(Clone, Debug)]
pub struct ObservedAttempts(pub Arc<dyn AttemptObserver>);

/// Receives the start and the end of each attempt. At most one attempt is open.
pub trait AttemptObserver: Debug + Send + Sync {
    /// Begins an attempt at `host` and `port`.
    fn begin(&self, host: &str, port: u16);
    /// Adds the fields that propagate the open attempt to the upstream.
    fn propagate(&self, headers: &mut HeaderMap);
    /// Ends the open attempt, if there is one.
    fn end(&self, outcome: AttemptOutcome);
}

/// Outcome of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptOutcome {
    /// The response head arrived.
    Response(StatusCode),
    /// The attempt failed, for a reason from a fixed list.
    Failed(&'static str),
}
