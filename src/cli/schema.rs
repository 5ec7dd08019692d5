//! `tollgate schema`: what editors complete and check a configuration from.

use std::io::{self, Write};
use std::process::ExitCode;

use crate::config;

/// Prints the JSON Schema of the YAML.
pub(super) fn run() -> ExitCode {
    match writeln!(io::stdout().lock(), "{:#}", config::schema()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
