//! `log:`: the gateway's own log, on standard error.

use serde::Deserialize;

use crate::de::defaults::Word;

/// The gateway's own log, on standard error.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawLog {
    /// Format of a line: `text` or `json`.
    format: Word<LogFormat>,
    /// Least severe level that is logged: `error`, `warn`, `info`, `debug` or `trace`.
    level: Word<RawLogLevel>,
}

/// Levels of the gateway's own log.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema, serde::Serialize))]
#[serde(rename_all = "kebab-case")]
enum RawLogLevel {
    Error,
    Warn,
    #[default]
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
#[cfg_attr(test, derive(schemars::JsonSchema, serde::Serialize))]
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
    let level = match raw.level.0 {
        RawLogLevel::Error => tracing::Level::ERROR,
        RawLogLevel::Warn => tracing::Level::WARN,
        RawLogLevel::Info => tracing::Level::INFO,
        RawLogLevel::Debug => tracing::Level::DEBUG,
        RawLogLevel::Trace => tracing::Level::TRACE,
    };
    Logging { format: raw.format.0, level }
}
