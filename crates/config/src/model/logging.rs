//! The access log and the gateway's own log.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

/// One line a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessLog {
    /// Where to.
    pub output: LogOutput,
    /// How.
    pub format: AccessLogFormat,
}

/// Where the access log goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogOutput {
    /// Standard output.
    Stdout,
    /// Nowhere.
    Off,
    /// Appended to a file.
    File(PathBuf),
}

/// How a line of the access log looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AccessLogFormat {
    /// Apache's combined log format.
    #[default]
    Combined,
    /// One JSON object.
    Json,
}

/// The gateway's own log, on standard error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logging {
    /// How a line looks.
    pub format: LogFormat,
    /// The least severe level that is logged.
    pub level: tracing::Level,
}

/// How a line of the gateway's own log looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object.
    Json,
}
