//! Measurement and observation of the attempts to forward one request.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, StatusCode};

use crate::http::attempts::{AttemptOutcome, ObservedAttempts};
use crate::http::facts;
use crate::upstream::error::ForwardError;
use crate::upstream::origin::Origin;
use crate::upstream::times::UpstreamTimes;

/// Measures the attempts of one request, and reports them to its observer.
pub(super) struct Monitor {
    times: Arc<UpstreamTimes>,
    observer: Option<ObservedAttempts>,
}

impl Monitor {
    pub(super) fn new(times: Arc<UpstreamTimes>, observer: Option<ObservedAttempts>) -> Self {
        Self { times, observer }
    }

    /// Begins an attempt at `origin`.
    pub(super) fn begin(&self, origin: &Origin) {
        facts::report_attempt(&origin.authority);
        if let Some(ObservedAttempts(observer)) = &self.observer {
            observer.begin(&origin.host, origin.port);
        }
    }

    /// Counts a new connection, established in `elapsed`.
    pub(super) fn connected(&self, elapsed: Duration) {
        self.times.connect.observe(elapsed);
    }

    /// Adds the fields that propagate the trace of the attempt.
    pub(super) fn propagate(&self, headers: &mut HeaderMap) {
        if let Some(ObservedAttempts(observer)) = &self.observer {
            observer.propagate(headers);
        }
    }

    /// Counts a response head that arrived in `elapsed`.
    pub(super) fn responded(&self, status: StatusCode, elapsed: Duration) {
        self.times.response.observe(elapsed);
        if let Some(ObservedAttempts(observer)) = &self.observer {
            observer.end(AttemptOutcome::Response(status));
        }
    }

    /// Ends the attempt with an error.
    pub(super) fn failed(&self, error: &ForwardError) {
        if let Some(ObservedAttempts(observer)) = &self.observer {
            observer.end(AttemptOutcome::Failed(error.failure().reason()));
        }
    }
}

impl Drop for Monitor {
    /// Ends an attempt that the client did not wait for.
    fn drop(&mut self) {
        if let Some(ObservedAttempts(observer)) = &self.observer {
            observer.end(AttemptOutcome::Failed("canceled"));
        }
    }
}
