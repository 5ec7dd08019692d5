//! Connect and response times of upstreams.

use std::sync::Arc;

use crate::http::time_histogram::TimeHistogram;

/// Name of the targets that filters set, of which clients may choose any number.
pub const DYNAMIC: &str = "dynamic";

/// Times of one upstream, as one worker sees them.
#[derive(Debug)]
pub struct UpstreamTimes {
    /// Name of a balanced upstream, host and port of another, or [`DYNAMIC`].
    pub name: Arc<str>,
    /// From the search for a connection until a new one is ready: lookup, TCP and TLS.
    pub connect: TimeHistogram,
    /// From sending a request to its response head.
    pub response: TimeHistogram,
}

impl UpstreamTimes {
    /// Creates the empty times of the upstream `name`.
    #[must_use]
    pub fn new(name: Arc<str>) -> Self {
        Self { name, connect: TimeHistogram::default(), response: TimeHistogram::default() }
    }
}
