//! `log:`: the gateway's own log, on standard error.

use serde::Deserialize;

/// The gateway's own log, on standard error.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawLog {
    /// Format of a line: `text` or `json`. Default `text`.
    format: Option<LogFormat>,
    /// Least severe level that is logged: `error`, `warn`, `info`, `debug` or `trace`. Default `info`.
    level: Option<RawLogLevel>,
}

/// Levels of the gateway's own log.
#[derive(Clone, Copy, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
enum RawLogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

/// The gateway's own log, on standard error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logging {
    /// Format of a line.
    pub format: LogFormat,
    /// Least severe level that is logged.
    pub level: tracing::Level,
}

/// Format of a line of the gateway's own log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum LogFormat {
    /// Text for people.
    #[default]
    Text,
    /// One JSON object.
    Json,
}

/// Checks `log:`.
pub(crate) fn check(raw: &RawLog) -> Logging {
    let level = match raw.level {
        Some(RawLogLevel::Error) => tracing::Level::ERROR,
        Some(RawLogLevel::Warn) => tracing::Level::WARN,
        None | Some(RawLogLevel::Info) => tracing::Level::INFO,
        Some(RawLogLevel::Debug) => tracing::Level::DEBUG,
        Some(RawLogLevel::Trace) => tracing::Level::TRACE,
    };
    Logging { format: raw.format.unwrap_or_default(), level }
}
