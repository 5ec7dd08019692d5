//! `tollgate schema`: JSON Schema for editors.

use std::io::{self, Write};
use std::process::ExitCode;

/// Prints the JSON Schema of the configuration.
pub(super) fn run() -> ExitCode {
    match writeln!(io::stdout().lock(), "{:#}", tollgate_config::schema()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
