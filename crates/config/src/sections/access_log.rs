//! `access-log:`: one line per request.

use std::path::PathBuf;

use serde::Deserialize;

use crate::de::defaults::Word;
use crate::de::spanned::Spanned;
use crate::diagnostics::Diagnostics;
#[cfg(test)]
use crate::sections::scalars::Scalar;

/// Access log: one line per request.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawAccessLog {
    /// Destination: `stdout`, `off` or a file's path. Default `stdout`.
    #[cfg_attr(test, schemars(with = "Option<Scalar>"))]
    output: Option<Spanned<String>>,
    /// Format of a line: `combined` or `json`. Default {}, which all log tools read.
    format: Word<AccessLogFormat>,
}

/// Access log: one line per request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessLog {
    /// Destination.
    pub output: LogOutput,
    /// Format of a line.
    pub format: AccessLogFormat,
}

/// Destination of the access log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogOutput {
    /// Standard output.
    Stdout,
    /// Disabled.
    Off,
    /// Appended to a file.
    File(PathBuf),
}

/// Format of a line of the access log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema, serde::Serialize))]
#[serde(rename_all = "kebab-case")]
pub enum AccessLogFormat {
    /// Apache's combined log format.
    #[default]
    Combined,
    /// One JSON object.
    Json,
}

/// Checks `access-log:`.
pub(crate) fn check(raw: &RawAccessLog, diagnostics: &mut Diagnostics) -> AccessLog {
    AccessLog { output: output(raw.output.as_ref(), diagnostics), format: raw.format.0 }
}

fn output(output: Option<&Spanned<String>>, diagnostics: &mut Diagnostics) -> LogOutput {
    let Some(output) = output else { return LogOutput::Stdout };
    match output.value.trim() {
        "" => {
            diagnostics.error(output.span, "`output` must be stdout, off or a file's path, found nothing");
            LogOutput::Off
        }
        "stdout" => LogOutput::Stdout,
        // YAML 1.1 reads `off` as false.
        "off" | "false" => LogOutput::Off,
        path => LogOutput::File(path.into()),
    }
}
