//! State of the connection to a registry, for the log, metrics and the admin API, and log of the instances that are ignored:
//! each service is logged again only after a change.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::instance::Unusable;
use tollgate_transport::error_chain;

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
    pub(super) fn new(kind: &'static str, server: String) -> Self {
        let (succeeded, failed) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { kind, server, succeeded, failed, state: Mutex::default() }
    }

    /// Returns the kind of the registry: `consul`.
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// Returns its address, for people.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Returns the number of requests that succeeded and failed.
    pub fn requests(&self) -> (u64, u64) {
        (self.succeeded.load(Relaxed), self.failed.load(Relaxed))
    }

    /// Returns the time since the last success.
    pub fn age(&self) -> Option<Duration> {
        self.state.lock().confirmed.map(|at| at.elapsed())
    }

    /// Returns the last failure; `None` if the last request succeeded, or if there was none.
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

/// Maximum number of log lines about ignored instances of one registry within [`WINDOW`].
const MAX_LINES: usize = 20;
/// Time within which at most [`MAX_LINES`] are logged.
const WINDOW: Duration = Duration::from_secs(10);
/// Maximum number of services that are remembered.
const MAX_LOGGED: usize = 10_000;
/// Maximum length of a name in the log, in characters.
const MAX_NAME: usize = 100;

/// Ignored instances of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct IgnoredInstances {
    pub(super) service: String,
    /// Their number.
    pub(super) count: usize,
    /// The first one, as the registry names it.
    pub(super) instance: String,
    /// Its reason.
    pub(super) reason: Unusable,
}

/// Ignored instances of one registry, by service, or by another part of a response.
#[derive(Debug, Default)]
struct IgnoredLog {
    logged: BTreeMap<String, IgnoredInstances>,
    since: Option<Instant>,
    lines: usize,
}

/// Registry and server that report ignored instances.
#[derive(Clone, Copy)]
struct Source<'s> {
    pub(super) registry: &'static str,
    pub(super) server: &'s str,
}

impl IgnoredInstances {
    /// Creates the entry of one instance.
    pub(super) fn one(service: &str, instance: &str, reason: Unusable) -> Self {
        Self { service: printable(service), count: 1, instance: printable(instance), reason }
    }

    /// Adds an instance to those of its service.
    pub(super) fn add(all: &mut Option<Self>, service: &str, instance: &str, reason: Unusable) {
        match all {
            Some(all) => all.count += 1,
            None => *all = Some(Self::one(service, instance, reason)),
        }
    }
}

impl IgnoredLog {
    /// Logs the ignored instances of a part of the registry, unless they were logged. `None`: it has none.
    pub(super) fn set(&mut self, source: Source<'_>, part: &str, ignored: Option<IgnoredInstances>) {
        let Some(ignored) = ignored else {
            self.logged.remove(part);
            return;
        };
        if self.logged.get(part) == Some(&ignored) || self.logged.len() >= MAX_LOGGED && !self.logged.contains_key(part)
        {
            return;
        }
        let Source { registry, server } = source;
        if self.since.is_none_or(|since| since.elapsed() >= WINDOW) {
            (self.since, self.lines) = (Some(Instant::now()), 0);
        }
        self.lines += 1;
        if self.lines > MAX_LINES {
            // Not added to the logged ones, so that a later call logs them if they are still ignored.
            if self.lines == MAX_LINES + 1 {
                tracing::warn!(registry, server, "instances of more services ignored");
            }
            return;
        }
        let IgnoredInstances { service, count, instance, reason } = &ignored;
        tracing::warn!(registry, server, service, instance, ignored = count, %reason, "instances ignored");
        self.logged.insert(part.to_owned(), ignored);
    }

    /// Logs the ignored instances of a whole registry, unless they were logged.
    fn set_all(&mut self, source: Source<'_>, mut all: BTreeMap<String, IgnoredInstances>) {
        self.logged.retain(|part, _| all.contains_key(part));
        while let Some((part, ignored)) = all.pop_first() {
            self.set(source, &part, Some(ignored));
        }
    }
}

/// Returns a name from a registry for the log. Characters that names and addresses do not have become `?`. Its length is
/// bounded.
fn printable(name: &str) -> String {
    let fits = |c: char| c.is_alphanumeric() || "-_.:/@[]#".contains(c);
    name.chars().map(|c| if fits(c) { c } else { '?' }).take(MAX_NAME).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_is_in_seconds() {
        assert_eq!(in_seconds(Duration::from_micros(1_003_285)), "1.0s");
    }

    fn ignored(service: &str, count: usize) -> IgnoredInstances {
        IgnoredInstances { service: service.to_owned(), count, instance: String::new(), reason: Unusable::Host }
    }

    #[tokio::test(start_paused = true)]
    async fn known_instances_are_not_logged_again_and_lines_are_bounded() {
        let source = Source { registry: "consul", server: "a" };
        let mut log = IgnoredLog::default();
        for _ in 0..5 {
            log.set(source, "orders", Some(ignored("orders", 1)));
        }
        assert_eq!(log.lines, 1);
        log.set(source, "orders", Some(ignored("orders", 2)));
        log.set(source, "orders", None);
        log.set(source, "orders", Some(ignored("orders", 2)));
        assert_eq!((log.lines, log.logged.len()), (3, 1));
        let all = || (0..100).map(|number| (format!("s{number}"), ignored("s", 1))).collect();
        log.set_all(source, all());
        assert_eq!(log.logged.len(), MAX_LINES - 3, "the others come later");
        tokio::time::advance(WINDOW).await;
        log.set_all(source, all());
        assert_eq!(log.logged.len(), MAX_LINES - 3 + MAX_LINES);
    }

    #[test]
    fn names_in_the_log_are_printable_and_bounded() {
        let mut all = None;
        IgnoredInstances::add(&mut all, "a\r\nb", &"x".repeat(500), Unusable::Port);
        IgnoredInstances::add(&mut all, "a", "c", Unusable::Host);
        let all = all.map(|all| (all.service, all.count, all.instance.len(), all.reason));
        assert_eq!(all, Some(("a??b".to_owned(), 2, MAX_NAME, Unusable::Port)));
    }
}
