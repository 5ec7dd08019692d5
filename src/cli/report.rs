//! Output of the commands.

use std::io::{self, Write};
use std::process::ExitCode;

use serde::Serialize;
use serde_json::Value;

use crate::cli::admin_client::{CallError, printable};
use tollgate_telemetry::logs::fields::printable_json;

/// Prints a report, or the error. The exit code is 0 if the report says so (`true`), otherwise 1.
pub(super) fn print(result: Result<(bool, String), CallError>) -> ExitCode {
    match result {
        Ok((true, text)) => write(&text),
        Ok((false, text)) => {
            write(&text);
            ExitCode::FAILURE
        }
        Err(error) => fail(1, &error),
    }
}

/// Prints `text` to standard output. The exit code is 0, or 1 if it cannot be written.
pub(super) fn write(text: &str) -> ExitCode {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::FAILURE,
        Err(error) => fail(1, &unwritten(&error)),
    }
}

/// Returns the message of a failed write to standard output.
pub(super) fn unwritten(error: &io::Error) -> String {
    format!("cannot write to standard output: {error}")
}

/// Returns `value` as JSON for people, which a terminal may show.
pub(super) fn json<T: Serialize>(value: &T) -> String {
    serde_json::to_string_pretty(value).map(|json| printable_json(&json).into_owned() + "\n").unwrap_or_default()
}

/// Prints `error`, and returns the exit code.
pub(super) fn fail(code: u8, error: &dyn std::fmt::Display) -> ExitCode {
    eprintln!("tollgate: {error}");
    ExitCode::from(code)
}

/// Reports wrong arguments. Returns exit code 2.
pub(super) fn usage(error: impl std::fmt::Display) -> ExitCode {
    fail(2, &error)
}

/// Returns the first row of a table.
pub(super) fn heading<const N: usize>(names: [&str; N]) -> Vec<String> {
    names.map(str::to_owned).to_vec()
}

/// Returns the warnings and notes of a configuration, one per line.
pub(super) fn warnings(config: &Value) -> String {
    let lines = config["warnings"].as_array().into_iter().flatten().map(|warning| {
        let [severity, file, message] = ["severity", "file", "message"].map(|name| string(&warning[name]));
        format!("{file}:{}:{}: {severity}: {message}\n", warning["line"], warning["column"])
    });
    lines.collect()
}

/// Returns a string of a response, with control characters escaped.
pub(super) fn string(value: &Value) -> String {
    printable(value.as_str().unwrap_or_default())
}

/// Formats milliseconds in at most two units, such as `23 h 59 min`. Rounds up to seconds.
pub(super) fn duration(ms: &Value) -> String {
    let secs = ms.as_u64().unwrap_or_default().div_ceil(1000);
    let (count, unit, rest, smaller) = match secs {
        0..120 => return format!("{secs} s"),
        120..7200 => (secs / 60, "min", secs % 60, "s"),
        7200..172_800 => (secs / 3600, "h", secs % 3600 / 60, "min"),
        _ => (secs / 86_400, "d", secs % 86_400 / 3600, "h"),
    };
    if rest == 0 { format!("{count} {unit}") } else { format!("{count} {unit} {rest} {smaller}") }
}

/// Returns the first 12 digits of a hash.
pub(super) fn short_hash(hash: &Value) -> String {
    string(hash).chars().take(12).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn durations_have_two_units_at_most() {
        let shown =
            [0, 1, 119_000, 120_000, 7_199_000, 10_800_000, 86_399_000, 180_000_000].map(|ms| duration(&json!(ms)));
        assert_eq!(shown, ["0 s", "1 s", "119 s", "2 min", "119 min 59 s", "3 h", "23 h 59 min", "2 d 2 h"]);
    }
}
