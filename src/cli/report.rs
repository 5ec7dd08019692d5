//! Reports of a running gateway, as `tollgate status` and `tollgate reload` print them.

use std::io::{self, Write};
use std::process::ExitCode;

use serde_json::Value;

use crate::cli::admin_client::{CallError, printable};

/// Prints a report, or the error. The exit code is 0 if the report is good, otherwise 1.
pub(super) fn print(result: Result<(bool, String), CallError>) -> ExitCode {
    match result {
        Ok((is_good, text)) => {
            let written = io::stdout().lock().write_all(text.as_bytes());
            ExitCode::from(u8::from(!is_good || written.is_err()))
        }
        Err(error) => {
            eprintln!("tollgate: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the warnings and notes of a configuration, one a line.
pub(super) fn warnings(config: &Value) -> String {
    let lines = config["warnings"].as_array().into_iter().flatten().map(|warning| {
        let [severity, file, message] = ["severity", "file", "message"].map(|name| string(&warning[name]));
        format!("{file}:{}:{}: {severity}: {message}\n", warning["line"], warning["column"])
    });
    lines.collect()
}

/// Returns a text of the gateway without control characters.
pub(super) fn string(value: &Value) -> String {
    printable(value.as_str().unwrap_or_default())
}

/// Returns the first digits of a hash.
pub(super) fn short(hash: &Value) -> String {
    string(hash).chars().take(12).collect()
}
