//! `tollgate`, `tollgate serve`, `tollgate demo`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::app;
use crate::app::reload::Source;
use crate::cli::load;
use crate::telemetry::logs;
use tollgate_config::{LoadError, Loaded};

/// Configuration used without `--config`.
const DEFAULT: &str = "config/tollgate.yaml";
/// Configuration of the demo.
const DEMO: &str = include_str!("../../config/tollgate.yaml");

/// Runs the gateway with the configuration `file`, by default [`DEFAULT`]; `profiles` are the active profiles.
pub(super) fn file(file: Option<PathBuf>, profiles: Option<String>) -> ExitCode {
    let path = match file {
        Some(path) => path,
        None if Path::new(DEFAULT).exists() => DEFAULT.into(),
        None => {
            eprintln!(
                "tollgate: no configuration: {DEFAULT} does not exist.\n\
                 Set --config FILE or TOLLGATE_CONFIG, or run `tollgate demo`, which needs no file."
            );
            return ExitCode::from(2);
        }
    };
    start(tollgate_config::load_for(&path, profiles.as_deref()), &Source::File { path, profiles })
}

/// Runs the demo.
pub(super) fn demo() -> ExitCode {
    let environment = |name: &str| std::env::var(name).ok();
    start(tollgate_config::parse("demo", DEMO, &environment).map_err(LoadError::Invalid), &Source::Embedded)
}

fn start(loaded: Result<Loaded, LoadError>, source: &Source) -> ExitCode {
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
