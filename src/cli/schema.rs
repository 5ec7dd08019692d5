//! `tollgate schema`: JSON Schema for editors.

use std::io::{self, Write};
use std::process::ExitCode;

/// Prints the JSON Schema of the configuration.
pub(super) fn run() -> ExitCode {
    match io::stdout().lock().write_all(tollgate_config::SCHEMA.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
