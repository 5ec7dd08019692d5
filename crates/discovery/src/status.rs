//! State of the connection to a registry, for the log, metrics and the admin API.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::ignored::{IgnoredInstances, IgnoredLog, Source};
use tollgate_transport::error_chain::error_chain;

/// Minimum time between two log lines about failures of one registry: each of a thousand services may fail.
const LOG_EVERY: Duration = Duration::from_secs(10);

/// Maximum length of a text of an error, in characters: it may quote the response.
const MAX_ERROR: usize = 300;

/// State of the connection to a registry.
#[derive(Debug)]
pub struct RegistryStatus {
    kind: &'static str,
    server: String,
    succeeded: AtomicU64,
    failed: AtomicU64,
    state: Mutex<LatestRequests>,
}

#[derive(Debug, Default)]
struct LatestRequests {
    /// Time of the last success.
    confirmed: Option<Instant>,
    /// Text of the last failure, if no success followed.
    error: Option<String>,
    logged: Option<Instant>,
    ignored: IgnoredLog,
}

impl RegistryStatus {
    /// Creates the status of a registry without requests.
    #[must_use]
    pub(super) fn new(kind: &'static str, server: String) -> Self {
        let (succeeded, failed) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { kind, server, succeeded, failed, state: Mutex::default() }
    }

    /// Returns the kind of the registry: `consul`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// Returns its address, for people.
    #[must_use]
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Returns the number of requests that succeeded and failed.
    #[must_use]
    pub fn requests(&self) -> (u64, u64) {
        (self.succeeded.load(Relaxed), self.failed.load(Relaxed))
    }

    /// Returns the time since the last success.
    #[must_use]
    pub fn age(&self) -> Option<Duration> {
        self.state.lock().confirmed.map(|at| at.elapsed())
    }

    /// Returns the last failure; `None` if the last request succeeded, or if there was none.
    #[must_use]
    pub fn error(&self) -> Option<String> {
        self.state.lock().error.clone()
    }

    /// Counts a request that succeeded.
    pub(super) fn succeed(&self) {
        self.succeeded.fetch_add(1, Relaxed);
        let mut state = self.state.lock();
        state.confirmed = Some(Instant::now());
        if state.error.take().is_some() && state.logged.take().is_some() {
            drop(state);
            tracing::info!(registry = self.kind, server = %self.server, "registry responds again");
        }
    }

    /// Counts a request that failed, and logs it unless another failure was logged shortly before.
    pub(super) fn fail(&self, request: &str, error: &(dyn Error + 'static)) {
        self.failed.fetch_add(1, Relaxed);
        let text: String = error_chain(error).chars().take(MAX_ERROR).collect();
        let mut state = self.state.lock();
        let is_quiet = state.logged.is_some_and(|at| at.elapsed() < LOG_EVERY);
        let now = Instant::now();
        let age = state.confirmed.map(|at| in_seconds(now - at));
        state.error = Some(text.clone());
        if !is_quiet {
            state.logged = Some(now);
            drop(state);
            tracing::error!(registry = self.kind, server = %self.server, request, error = text, age, "registry request failed; known endpoints are kept");
        }
    }

    /// Logs the instances of a part of the registry that are ignored, again only after a change. `None`: there are none.
    pub(super) fn ignore(&self, part: &str, ignored: Option<IgnoredInstances>) {
        let source = Source { registry: self.kind, server: &self.server };
        self.state.lock().ignored.set(source, part, ignored);
    }

    /// Logs the instances of a whole registry that are ignored, again only after a change. `server` is the one that reports them.
    pub(super) fn ignore_all(&self, server: &str, ignored: BTreeMap<String, IgnoredInstances>) {
        self.state.lock().ignored.set_all(Source { registry: self.kind, server }, ignored);
    }
}

/// Returns a duration as text: `1.0s`.
fn in_seconds(duration: Duration) -> String {
    format!("{:.1}s", duration.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_is_in_seconds() {
        assert_eq!(in_seconds(Duration::from_micros(1_003_285)), "1.0s");
    }
}
