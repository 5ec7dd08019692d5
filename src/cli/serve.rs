//! `tollgate` and `tollgate serve`: runs the gateway.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::app;
use crate::app::reload::Source;
use crate::cli::load;
use tollgate_config::{CommandLine, LoadError, Loaded};
use tollgate_proxy::telemetry::logs;

/// Configuration used without `--config`.
const DEFAULT: &str = "config/tollgate.yaml";
/// Environment variable that names the configuration.
const VARIABLE: &str = "TOLLGATE_CONFIG";

/// Runs the gateway with the configuration files `given`. Without them, uses the first of: `spring.config.location` on the
/// command line, [`VARIABLE`], [`load::LOCATION`], [`DEFAULT`].
pub(super) fn files(given: Vec<PathBuf>, command_line: CommandLine) -> ExitCode {
    let named = if given.is_empty() && !command_line.has_location() { from_environment() } else { given };
    let paths = match named.is_empty() {
        false => named,
        true if load::has_location(&command_line) => Vec::new(),
        true if Path::new(DEFAULT).exists() => vec![DEFAULT.into()],
        true => {
            eprintln!(
                "tollgate: no configuration: {DEFAULT} does not exist.\n\
                 Set --config FILE, TOLLGATE_CONFIG or SPRING_CONFIG_LOCATION, or run `tollgate demo`, which needs no file."
            );
            return ExitCode::from(2);
        }
    };
    start(tollgate_config::load(&paths, &command_line), &Source::Files { paths, command_line })
}

/// Returns the files that [`VARIABLE`] names, separated by commas. A value that is an existing path is one file.
fn from_environment() -> Vec<PathBuf> {
    let Some(value) = std::env::var_os(VARIABLE).filter(|value| !value.is_empty()) else { return Vec::new() };
    match value.to_str() {
        Some(list) if !Path::new(list).exists() => {
            list.split(',').map(str::trim).filter(|file| !file.is_empty()).map(PathBuf::from).collect()
        }
        _ => vec![value.into()],
    }
}

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
