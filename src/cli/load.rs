//! Parts that several commands share: profiles, and errors of a configuration.

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::Args;
use tollgate_config::LoadError;

/// Arguments that select profiles.
#[derive(Debug, Args)]
pub(super) struct Profiles {
    /// Active profiles, comma-separated, as in Spring [default: SPRING_PROFILES_ACTIVE]
    #[arg(long = "profile", value_name = "NAMES")]
    pub(super) profiles: Option<String>,
}

/// Prints the errors of a configuration to standard error. Returns 1 if the file has errors, 2 if it cannot be read.
pub(super) fn report(error: &LoadError) -> ExitCode {
    eprint!("{}", error.render(wants_color()));
    ExitCode::from(if matches!(error, LoadError::Invalid(_)) { 1 } else { 2 })
}

/// True if diagnostics are coloured: on a terminal, unless `NO_COLOR` is set (no-color.org).
pub(super) fn wants_color() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none()
}
