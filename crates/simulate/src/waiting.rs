//! Requests that are in the layers of their routes.

use std::cmp::Ordering;

use crate::input::{LogTime, LoggedVerdict};
use tollgate_proxy::http::facts::RequestFacts;
use tollgate_proxy::http::service::ResponseFuture;

/// Request in the layers of its route.
pub(super) struct RunningRequest {
    /// Time of its next decision.
    pub(super) at: LogTime,
    pub(super) number: u64,
    /// Time under which it is counted.
    pub(super) second_us: u64,
    /// Position of its route.
    pub(super) route: usize,
    pub(super) logged: Option<LoggedVerdict>,
    /// True if the request is refused since an access list blocked it in the log.
    pub(super) is_blocked: bool,
    pub(super) response: ResponseFuture,
    pub(super) facts: Option<Box<RequestFacts>>,
}

/// Request that waits for a further decision, with the times of its decisions after that, last first.
pub(super) struct Waiting(pub(super) RunningRequest, pub(super) Vec<LogTime>);

impl Waiting {
    fn key(&self) -> (LogTime, u64) {
        (self.0.at, self.0.number)
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Waiting {}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiting {
    /// Orders the earliest as the greatest: the heap returns the greatest first.
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key())
    }
}
