//! One request of a log.

use std::net::IpAddr;

use http::{HeaderName, HeaderValue, Method};

/// Time of an arrival or of a decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogTime {
    /// Microseconds since 1970.
    pub us: u64,
    /// Position among the decisions of the same microsecond.
    pub order: u64,
}

impl LogTime {
    /// End of all times.
    pub const MAX: Self = Self { us: u64::MAX, order: u64::MAX };
}

/// One request of a log.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Arrival in microseconds since 1970.
    pub time_us: u64,
    /// Times of the store's decisions, in their order; empty if the log has none.
    pub decided: Vec<LogTime>,
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
    /// Reason of a response that the gateway made.
    pub reason: Option<String>,
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
    pub fn at(&self) -> LogTime {
        self.decided.first().copied().unwrap_or(LogTime { us: self.time_us, order: 0 })
    }
}
