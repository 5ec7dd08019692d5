//! Instances that are ignored, each service logged again only after a change.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::instance::Unusable;

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
pub(super) struct IgnoredLog {
    logged: BTreeMap<String, IgnoredInstances>,
    since: Option<Instant>,
    lines: usize,
}

/// Registry and server that report ignored instances.
#[derive(Clone, Copy)]
pub(super) struct Source<'s> {
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
    pub(super) fn set_all(&mut self, source: Source<'_>, mut all: BTreeMap<String, IgnoredInstances>) {
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
