//! Log of the gateway: `tracing` events on standard error.
//!
//! Lines pass through a bounded queue to a thread, so that an unread pipe stops no request. Repeated warnings are
//! suppressed and counted ([`repeats`]); field values are escaped ([`fields`]).

pub mod fields;
pub mod repeats;

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
use std::panic::PanicHookInfo;
use std::sync::OnceLock;
use std::time::Duration;

use parking_lot::Mutex;
use tracing::Level;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::layer;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, reload};

use self::repeats::RepeatLimit;
use crate::log_writer::{LogOptions, LogWriter, Target};
use tollgate_config::{LogFormat, Logging, SecretValues};

/// Bound of the queue in bytes.
const MAX_QUEUED_BYTES: usize = 1 << 20;
/// Bound of one line in bytes; longer lines are cut.
const MAX_LINE_BYTES: usize = 16 * 1024;
/// Time for the last lines when the process ends.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);

/// Writer of the process. There is one log, as there is one `tracing` subscriber.
static WRITER: OnceLock<LogWriter> = OnceLock::new();

/// Filter of the process, which [`set_level`] changes.
static LEVEL: OnceLock<reload::Handle<LevelFilter, Registry>> = OnceLock::new();

/// Secrets of the configuration in use, and of the one before, whose connections may still fail.
static SECRETS: Mutex<[SecretValues; 2]> = Mutex::new([SecretValues::NONE, SecretValues::NONE]);

/// Masks `secrets`, and those that it masked before, in lines from now on.
pub fn mask(secrets: SecretValues) {
    let mut masked = SECRETS.lock();
    masked.swap(0, 1);
    masked[0] = secrets;
}

/// Guard of the log: writes the last lines when it is dropped.
#[derive(Debug)]
pub struct LogGuard(());

/// Starts logging to standard error, panics included. Further calls have no effect.
///
/// # Errors
/// The thread of the log cannot be created.
pub fn init(logging: &Logging) -> io::Result<LogGuard> {
    if WRITER.get().is_none() {
        let options = LogOptions {
            name: "log",
            max_queued_bytes: MAX_QUEUED_BYTES,
            is_gateway_log: true,
            on_tick: repeats::report,
        };
        let writer = LogWriter::start(Target::Stderr, options)?;
        let (filter, level) = reload::Layer::new(LevelFilter::from_level(logging.level()));
        let _ = LEVEL.set(level);
        let registry = tracing_subscriber::registry().with(filter).with(RepeatLimit);
        let is_json = logging.format.0 == LogFormat::Json;
        let lines = layer().with_writer(move || LineWriter { is_json }).with_target(false).log_internal_errors(false);
        let lines = match logging.format.0 {
            LogFormat::Text => lines.with_ansi(io::stderr().is_terminal()).fmt_fields(fields::escaped()).boxed(),
            LogFormat::Json => lines.json().flatten_event(true).boxed(),
        };
        // The writer is set first: nothing that the subscriber passes on is lost.
        let _ = WRITER.set(writer);
        let _ = registry.with(lines).try_init();
        std::panic::set_hook(Box::new(log_panic));
    }
    Ok(LogGuard(()))
}

/// Logs events of `level` and more severe ones from now on.
pub fn set_level(level: Level) {
    if let Some(filter) = LEVEL.get() {
        // It fails only if a thread panicked while it changed the filter.
        let _ = filter.modify(|filter| *filter = LevelFilter::from_level(level));
    }
}

/// Returns the least severe level that is logged.
pub fn level() -> Level {
    let filter = LEVEL.get().and_then(reload::Handle::clone_current);
    filter.and_then(LevelFilter::into_level).unwrap_or(Level::INFO)
}

/// Returns the number of lines that could not be written.
pub fn lost() -> u64 {
    WRITER.get().map_or(0, LogWriter::lost)
}

impl LogGuard {
    /// Writes `line` as it is, but for secrets. As all lines, it is lost if nothing reads the log.
    pub fn print(&self, line: &str) {
        if let Some(writer) = WRITER.get() {
            writer.write(masked(format!("{line}\n").as_bytes()).into_owned(), 1);
        }
    }
}

impl Drop for LogGuard {
    fn drop(&mut self) {
        repeats::report_all();
        if let Some(writer) = WRITER.get() {
            // What cannot be written now has no reader.
            let _ = writer.close(CLOSE_TIMEOUT);
        }
    }
}

/// Writer of one line. Never fails and never blocks.
struct LineWriter {
    /// True for lines whose unsafe characters are not yet escaped.
    is_json: bool,
}

impl Write for LineWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if let Some(writer) = WRITER.get() {
            // A line that is cut may end within a secret.
            let line = bounded(&masked(line));
            writer.write(if self.is_json { escaped_json(line) } else { line }, 1);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn escaped_json(line: Vec<u8>) -> Vec<u8> {
    match String::from_utf8_lossy(&line) {
        Cow::Borrowed(text) => match fields::printable_json(text) {
            Cow::Owned(escaped) => escaped.into_bytes(),
            Cow::Borrowed(_) => line,
        },
        Cow::Owned(text) => text.into_bytes(),
    }
}

/// Returns a line without secrets.
fn masked(line: &[u8]) -> Cow<'_, [u8]> {
    let all = SECRETS.lock().clone();
    let all = all.iter().filter(|secrets| !secrets.is_empty());
    all.fold(Cow::Borrowed(line), |line, secrets| secrets.mask(&String::from_utf8_lossy(&line)).into_bytes().into())
}

/// Copies a line, and cuts it at the bound.
fn bounded(line: &[u8]) -> Vec<u8> {
    if line.len() <= MAX_LINE_BYTES {
        return line.to_vec();
    }
    let text = String::from_utf8_lossy(&line[..MAX_LINE_BYTES]);
    format!("{} [cut, {} bytes]\n", text.trim_end_matches('\u{fffd}'), line.len()).into_bytes()
}

/// Logs a panic. The hook of the standard library writes to standard error, and blocks if nothing reads it.
fn log_panic(info: &PanicHookInfo<'_>) {
    let payload = info.payload();
    let text = payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let location = info.location().map(ToString::to_string).unwrap_or_default();
    let backtrace = std::backtrace::Backtrace::capture();
    let backtrace = match backtrace.status() {
        std::backtrace::BacktraceStatus::Captured => format!("\n{backtrace}"),
        _ => String::new(),
    };
    tracing::error!(location, text = text.unwrap_or("unknown"), "panic{backtrace}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_is_cut_at_a_character_and_says_so() {
        assert_eq!(bounded(b"short\n"), b"short\n");
        let long = format!("a{}\n", "é".repeat(MAX_LINE_BYTES));
        let cut = String::from_utf8(bounded(long.as_bytes())).unwrap_or_default();
        assert!(
            cut.len() < MAX_LINE_BYTES + 100 && cut.ends_with(&format!("é [cut, {} bytes]\n", long.len())),
            "{cut}"
        );
    }

    #[test]
    fn lines_of_both_formats_have_no_secrets_of_this_configuration_and_the_one_before() {
        let load = |secret: &str| {
            let text = format!("redis: {{host: a, password: '{secret}'}}\nroutes: []\n");
            let loaded = tollgate_config::parse("a.yaml", &text, &|_| None);
            mask(loaded.map(|loaded| loaded.notes.secret_values()).unwrap_or_default());
        };
        let secrets = ["first-secret", "wm52-ty9p", "zq81\"kx7v"];
        secrets.iter().for_each(|secret| load(secret));
        for (line, shown) in [
            ("WARN redis connection lost error=WM52-TY9P\n", "WARN redis connection lost error=****\n"),
            (r#"{"message":"a","error":"of zq81\"kx7v"}"#, r#"{"message":"a","error":"of ****"}"#),
            ("first-secret", "first-secret"),
        ] {
            assert_eq!(String::from_utf8_lossy(&masked(line.as_bytes())), shown);
        }
    }
}
