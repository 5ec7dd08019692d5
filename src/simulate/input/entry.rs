//! One request of a log.

use std::net::IpAddr;

use http::{HeaderName, HeaderValue, Method};

/// One request of a log.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Arrival in microseconds since 1970.
    pub time_us: u64,
    /// Times of the store's decisions in microseconds, in their order; empty if the log has none.
    pub decided_us: Vec<u64>,
    /// Client address.
    pub client: Option<IpAddr>,
    /// Method.
    pub method: Method,
    /// Path and query.
    pub target: String,
    /// Requested host.
    pub host: Option<String>,
    /// Status of the response.
    pub status: Option<u16>,
    /// Bytes of the request body.
    pub received_bytes: Option<u64>,
    /// Header fields of the request that the log has.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Work of the gateway that wrote the log.
    pub logged: Logged,
}

/// Work of the gateway that wrote a line.
#[derive(Clone, Debug, Default)]
pub struct Logged {
    /// Id of the route.
    pub route: Option<String>,
    /// Verdict of the limiters.
    pub verdict: Option<LoggedVerdict>,
    /// Tokens left, a tie-break between decisions of the same microsecond.
    pub remaining: Option<u64>,
    /// Keys by rule.
    pub keys: Vec<(String, String)>,
}

/// Verdict in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoggedVerdict {
    /// The request was allowed, or is exempt.
    Passed,
    /// The request was denied or blocked.
    Refused,
}

impl Entry {
    /// Returns the time at which the request is replayed.
    #[must_use]
    pub fn at_us(&self) -> u64 {
        self.decided_us.first().copied().unwrap_or(self.time_us)
    }

    /// Returns the sort key: time; of equal times, requests that were allowed first, with the most tokens left first.
    pub(super) fn sort_key(&self) -> (u64, bool, u64) {
        let is_refused = self.logged.verdict == Some(LoggedVerdict::Refused);
        (self.at_us(), is_refused, u64::MAX - self.logged.remaining.unwrap_or(0))
    }
}
