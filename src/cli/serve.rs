//! `tollgate`, `tollgate serve` and `tollgate demo`: run the gateway.

use std::process::ExitCode;

use crate::app;
use crate::app::reload::Source;
use crate::cli::load;
use tollgate_config::{LoadError, Loaded};
use tollgate_telemetry::logs;

/// Runs the gateway with a loaded configuration, or reports the errors of loading.
pub(super) fn start(loaded: Result<Loaded, LoadError>, source: &Source) -> ExitCode {
    let loaded = match loaded {
        Ok(loaded) => loaded,
        Err(error) => return load::report(&error),
    };
    let log = match logs::init(&loaded.config.logging) {
        Ok(log) => log,
        Err(error) => {
            eprintln!("tollgate: cannot start the log: {error}");
            return ExitCode::from(1);
        }
    };
    loaded.notes.log();
    match app::run(source, loaded) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            log.print(&format!("tollgate: {error}"));
            ExitCode::from(1)
        }
    }
}

/// Configuration of the demo.
const DEMO: &str = include_str!("../../config/tollgate.yaml");

/// Runs the demo.
pub(super) fn demo() -> ExitCode {
    let environment = |name: &str| std::env::var(name).ok();
    start(tollgate_config::parse("demo", DEMO, &environment).map_err(LoadError::Invalid), &Source::Embedded)
}
