//! `tollgate schema`: what editors complete and check a configuration from.

use std::io::{self, Write};
use std::process::ExitCode;

/// Prints the JSON Schema of the YAML.
pub(super) fn run() -> ExitCode {
    match writeln!(io::stdout().lock(), "{:#}", tollgate_config::schema()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
