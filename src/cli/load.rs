//! Parts that several commands share: selection, names and errors of a configuration.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use crate::app::source::LOCATION;
use crate::cli::report::usage;
use tollgate_config::{CommandLine, LoadError, Loaded};

/// Arguments that select a configuration. They mean the same in every command.
#[derive(Debug, Args)]
pub(super) struct Selection {
    /// Configuration file after FILE (repeatable); values of later files win [default without FILE: TOLLGATE_CONFIG (comma-separated), otherwise SPRING_CONFIG_LOCATION, otherwise config/tollgate.yaml]
    #[arg(long = "config", short = 'c', value_name = "FILE")]
    config: Vec<PathBuf>,
    /// Active profiles, comma-separated, as in Spring [default: SPRING_PROFILES_ACTIVE]
    #[arg(long = "profile", value_name = "NAMES")]
    profiles: Option<String>,
}

/// Configuration used if nothing names one.
const DEFAULT: &str = "config/tollgate.yaml";
/// Environment variable that names the files if the command line names none.
const VARIABLE: &str = "TOLLGATE_CONFIG";

impl Selection {
    /// Returns true if `--config` is given.
    pub(super) fn names_files(&self) -> bool {
        !self.config.is_empty()
    }

    /// Adds the profiles to `command_line`.
    pub(super) fn with_profiles(&self, command_line: CommandLine) -> CommandLine {
        CommandLine { profiles: self.profiles.clone(), ..command_line }
    }

    /// Returns the files of the configuration: `file`, then those of `--config`. Without both, the files of [`VARIABLE`] or
    /// [`DEFAULT`]; none if a location as in Spring Boot names them.
    ///
    /// # Errors
    /// Nothing names a configuration, which is printed. Returns the exit code.
    pub(super) fn files(&self, file: Option<PathBuf>, command_line: &CommandLine) -> Result<Vec<PathBuf>, ExitCode> {
        let in_arguments: Vec<PathBuf> = file.into_iter().chain(self.config.iter().cloned()).collect();
        if !in_arguments.is_empty() || command_line.has_location() {
            return Ok(in_arguments);
        }
        let in_environment = from_environment();
        let has_location = || std::env::var_os(LOCATION).is_some_and(|list| !list.to_string_lossy().trim().is_empty());
        if !in_environment.is_empty() || has_location() {
            return Ok(in_environment);
        }
        Path::new(DEFAULT).exists().then(|| vec![DEFAULT.into()]).ok_or_else(|| {
            usage(format_args!(
                "no configuration: {DEFAULT} does not exist.\n\
                 Set --config FILE, {VARIABLE} or {LOCATION}, or run `tollgate demo`, which needs no file."
            ))
        })
    }
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

/// Loads the configuration in `files`.
///
/// # Errors
/// It has errors, which are printed. Returns the exit code.
pub(super) fn load(files: &[PathBuf], command_line: &CommandLine) -> Result<Loaded, ExitCode> {
    tollgate_config::load(files, command_line).map_err(|error| report(&error))
}

/// Prints the errors of a configuration to standard error. Returns 1 if the file has errors, 2 if it cannot be read.
pub(super) fn report(error: &LoadError) -> ExitCode {
    eprint!("{}", error.render(wants_color()));
    ExitCode::from(if matches!(error, LoadError::Invalid(_)) { 1 } else { 2 })
}

/// Returns true if diagnostics are coloured: on a terminal, unless `NO_COLOR` is set (no-color.org).
pub(super) fn wants_color() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none()
}
