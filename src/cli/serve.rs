//! `tollgate`, `tollgate serve` and `tollgate demo`: run the gateway.

use std::process::ExitCode;

use crate::app::Startup;
use crate::app::signals::HeldSignals;
use crate::app::source::Source;
use crate::cli::load;
use tollgate_config::{LoadError, Loaded};
use tollgate_telemetry::logs;

/// Runs the gateway with the configuration that `load` returns, or reports the errors of loading. Signals that were `held` take
/// effect later.
pub(super) fn start(
    load: impl FnOnce() -> Result<Loaded, LoadError>,
    source: &Source,
    held: Option<HeldSignals>,
) -> ExitCode {
    let startup = match Startup::new(held) {
        Ok(startup) => startup,
        Err(error) => {
            eprintln!("tollgate: {error}");
            return ExitCode::from(1);
        }
    };
    let (loaded, files) = match tollgate_bounded_file::recorded(load) {
        (Ok(loaded), files) => (loaded, files),
        (Err(error), _) => return load::report(&error),
    };
    let log = match logs::init(&loaded.config.logging) {
        Ok(log) => log,
        Err(error) => {
            eprintln!("tollgate: cannot start the log: {error}");
            return ExitCode::from(1);
        }
    };
    logs::mask(loaded.notes.secret_values());
    loaded.notes.log();
    match startup.run(source, (loaded, files)) {
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
pub(super) fn demo(held: Option<HeldSignals>) -> ExitCode {
    let environment = |name: &str| std::env::var(name).ok();
    let load = || tollgate_config::parse("demo", DEMO, &environment).map_err(LoadError::Invalid);
    start(load, &Source::Embedded, held)
}
