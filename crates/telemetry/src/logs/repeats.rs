//! Bound on repeated warnings and errors, which clients or upstreams can cause at any rate.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt::{Debug, Write};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tracing::callsite::Identifier;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

/// Lines of one kind in a period; further lines are suppressed and counted.
const LINES: u32 = 20;
/// Period of the bound.
const PERIOD: Duration = Duration::from_secs(10);
/// Events that are never suppressed: diagnostics of a configuration, and the reports of this module.
const EXEMPT: [&str; 2] = ["tollgate_config", module_path!()];

static REPEATS: LazyLock<Mutex<Repeats>> = LazyLock::new(Mutex::default);
static SUPPRESSED: AtomicU64 = AtomicU64::new(0);

/// Layer that suppresses repeated warnings and errors. An event's kind is its place in the code.
#[derive(Clone, Copy, Debug)]
pub struct RepeatLimit;

impl<S: Subscriber> Layer<S> for RepeatLimit {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        let metadata = event.metadata();
        if *metadata.level() > Level::WARN || EXEMPT.iter().any(|target| metadata.target().starts_with(target)) {
            return true;
        }
        let is_written = REPEATS.lock().admit(metadata.callsite(), Instant::now(), || message(event));
        if !is_written {
            SUPPRESSED.fetch_add(1, Relaxed);
        }
        is_written
    }
}

/// Returns the number of suppressed lines.
pub fn suppressed() -> u64 {
    SUPPRESSED.load(Relaxed)
}

/// Reports the suppressed lines of finished periods.
pub(super) fn report() {
    log(REPEATS.lock().take_finished(Instant::now()));
}

/// Reports all suppressed lines, at the end of the process.
pub(super) fn report_all() {
    log(REPEATS.lock().take_finished(Instant::now() + PERIOD));
}

fn log(finished: Vec<(String, u64)>) {
    for (message, lines) in finished {
        tracing::warn!(lines, event = message, "repeated log lines suppressed");
    }
}

/// Kinds of events in the current period.
#[derive(Debug, Default)]
struct Repeats(HashMap<Identifier, Window>);

#[derive(Debug)]
struct Window {
    since: Instant,
    written: u32,
    suppressed: u64,
    /// Message of the first suppressed event.
    message: String,
}

impl Repeats {
    /// Returns true if an event of this kind may be written now.
    fn admit(&mut self, kind: Identifier, now: Instant, message: impl FnOnce() -> String) -> bool {
        let window = match self.0.entry(kind) {
            Entry::Occupied(existing) => existing.into_mut(),
            Entry::Vacant(free) => {
                free.insert(Window { since: now, written: 0, suppressed: 0, message: String::new() })
            }
        };
        // A period with suppressed lines ends with its report.
        if window.suppressed == 0 && now.duration_since(window.since) >= PERIOD {
            (window.since, window.written) = (now, 0);
        }
        if window.written < LINES {
            window.written += 1;
            return true;
        }
        if window.suppressed == 0 {
            window.message = message();
        }
        window.suppressed += 1;
        false
    }

    /// Ends the periods that are over; returns message and count of suppressed lines.
    fn take_finished(&mut self, now: Instant) -> Vec<(String, u64)> {
        let over = self.0.extract_if(|_, window| now.duration_since(window.since) >= PERIOD);
        over.filter(|(_, window)| window.suppressed > 0)
            .map(|(_, window)| (window.message, window.suppressed))
            .collect()
    }
}

/// Returns the message of an event, without its fields.
fn message(event: &Event<'_>) -> String {
    struct Message(String);
    impl Visit for Message {
        fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
            if field.name() == "message" {
                let _ = write!(self.0, "{value:?}");
            }
        }
    }
    let mut message = Message(String::new());
    event.record(&mut message);
    message.0
}

#[cfg(test)]
mod tests {
    use tracing::Callsite;

    use super::*;

    fn kind() -> Identifier {
        Callsite::metadata(tracing::callsite!(name: "test", kind: tracing::metadata::Kind::EVENT, fields: x)).callsite()
    }

    #[test]
    fn the_first_lines_of_a_period_are_written_and_the_others_counted() {
        let (mut repeats, start) = (Repeats::default(), Instant::now());
        let written = (0..1000).filter(|_| repeats.admit(kind(), start, || "lost".into())).count();
        assert_eq!(written, LINES as usize);
        assert_eq!(repeats.take_finished(start + PERIOD / 2), [], "the period is not over");
        assert_eq!(repeats.take_finished(start + PERIOD), [("lost".to_owned(), 1000 - u64::from(LINES))]);
        assert!(repeats.admit(kind(), start + PERIOD, String::new));
    }

    #[test]
    fn rare_lines_are_never_suppressed() {
        let (mut repeats, start) = (Repeats::default(), Instant::now());
        for second in 0..1000 {
            assert!(repeats.admit(kind(), start + Duration::from_secs(second), String::new));
        }
        assert_eq!(repeats.take_finished(start + Duration::from_secs(2000)), []);
    }
}
