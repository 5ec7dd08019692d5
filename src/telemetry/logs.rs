//! Log of the gateway: `tracing` events on standard error.

use std::io::IsTerminal;

use tracing_subscriber::filter::LevelFilter;

use tollgate_config::{LogFormat, Logging};

/// Starts logging to standard error. Further calls have no effect.
pub fn init(logging: &Logging) {
    let builder = tracing_subscriber::fmt()
        .with_max_level(LevelFilter::from_level(logging.level))
        .with_writer(std::io::stderr)
        .with_target(false)
        .with_ansi(std::io::stderr().is_terminal());
    let _ = match logging.format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
}
