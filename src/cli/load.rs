//! Parts that several commands share: files, profiles, and errors of a configuration.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use tollgate_config::{CommandLine, LoadError};

/// Arguments that select profiles.
#[derive(Debug, Args)]
pub(super) struct Profiles {
    /// Active profiles, comma-separated, as in Spring [default: SPRING_PROFILES_ACTIVE]
    #[arg(long = "profile", value_name = "NAMES")]
    pub(super) profiles: Option<String>,
}

/// Arguments that name additional configuration files.
#[derive(Debug, Args)]
pub(super) struct Overlays {
    /// Additional configuration file (repeatable); its values win over those of earlier files
    #[arg(long = "config", short = 'c', value_name = "FILE")]
    pub(super) files: Vec<PathBuf>,
}

impl Overlays {
    /// Returns `file`, if given, followed by the additional files.
    pub(super) fn over(&self, file: Option<PathBuf>) -> Vec<PathBuf> {
        file.into_iter().chain(self.files.iter().cloned()).collect()
    }
}

/// Environment variable that names the files if the command line names none, as in Spring Boot.
pub(super) const LOCATION: &str = "SPRING_CONFIG_LOCATION";

/// Returns true if the command line or [`LOCATION`] names files as in Spring Boot.
pub(super) fn has_location(command_line: &CommandLine) -> bool {
    command_line.has_location()
        || std::env::var_os(LOCATION).is_some_and(|list| !list.to_string_lossy().trim().is_empty())
}

/// Returns the names of `files` for a message; without files, the setting that names them.
pub(super) fn names(files: &[PathBuf], command_line: &CommandLine) -> String {
    if files.is_empty() {
        let option = "--spring.config.location";
        return if command_line.has_location() { option } else { LOCATION }.to_owned();
    }
    let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    names.join(", ")
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
