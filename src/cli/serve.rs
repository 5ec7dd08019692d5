//! `tollgate`, `tollgate serve` and `tollgate demo`: run the gateway.

use std::process::ExitCode;

use crate::app::Startup;
use crate::app::signals::HeldSignals;
use crate::app::source::Source;
use crate::cli::load;
use crate::cli::report::fail;
use tollgate_config::{LoadError, Loaded};
use tollgate_telemetry::logs;

/// Runs the gateway with the configuration that `load` returns, or reports the errors of loading. Signals that were `held` take
/// effect later.
pub(super) fn start(
    load: impl FnOnce() -> Result<Loaded, LoadError>,
    source: &Source,
    held: Option<HeldSignals>,
) -> Result<ExitCode, ExitCode> {
    let startup = Startup::new(held).map_err(|error| fail(1, &error))?;
    let (loaded, files) = tollgate_bounded_file::recorded(load);
    let loaded = loaded.map_err(|error| load::report(&error))?;
    let log =
        logs::init(&loaded.config.logging).map_err(|error| fail(1, &format_args!("cannot start the log: {error}")))?;
    logs::mask(loaded.notes.secret_values());
    loaded.notes.log();
    startup.run(source, (loaded, files)).map(|()| ExitCode::SUCCESS).map_err(|error| {
        log.print(&format!("tollgate: {error}"));
        ExitCode::from(1)
    })
}

/// Configuration of the demo.
const DEMO: &str = include_str!("../../config/tollgate.yaml");

/// Runs the demo.
pub(super) fn demo(held: Option<HeldSignals>) -> Result<ExitCode, ExitCode> {
    let environment = |name: &str| std::env::var(name).ok();
    let load = || tollgate_config::parse("demo", DEMO, &environment).map_err(LoadError::Invalid);
    start(load, &Source::Embedded, held)
}
