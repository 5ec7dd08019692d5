//! `access-log` and `log`.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::de::shapes::Scalar;
use crate::de::spanned::Spanned;
use crate::diagnostics::Diagnostics;
use crate::model::{AccessLog, AccessLogFormat, LogFormat, LogOutput, Logging};

/// One line a request.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawAccessLog {
    /// Where to: `stdout`, `off` or a file's path. Default `stdout`.
    #[schemars(with = "Option<Scalar>")]
    pub(crate) output: Option<Spanned<String>>,
    /// How a line looks: `combined` or `json`. Default `combined`, which every log tool reads.
    pub(crate) format: Option<AccessLogFormat>,
}

/// The gateway's own log.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawLog {
    /// How a line looks: `text` or `json`. Default `text`.
    pub(crate) format: Option<LogFormat>,
    /// The least severe level that is logged: `error`, `warn`, `info`, `debug` or `trace`. Default `info`.
    pub(crate) level: Option<RawLogLevel>,
}

/// Levels of the gateway's own log.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RawLogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

impl From<RawLogLevel> for tracing::Level {
    fn from(raw: RawLogLevel) -> Self {
        match raw {
            RawLogLevel::Error => Self::ERROR,
            RawLogLevel::Warn => Self::WARN,
            RawLogLevel::Info => Self::INFO,
            RawLogLevel::Debug => Self::DEBUG,
            RawLogLevel::Trace => Self::TRACE,
        }
    }
}

/// Checks `access-log`.
pub(crate) fn access_log(raw: &RawAccessLog, diagnostics: &mut Diagnostics) -> AccessLog {
    AccessLog { output: log_output(raw.output.as_ref(), diagnostics), format: raw.format.unwrap_or_default() }
}

/// Returns the settings of `log`.
pub(crate) fn logging(raw: &RawLog) -> Logging {
    Logging { format: raw.format.unwrap_or_default(), level: raw.level.map_or(tracing::Level::INFO, Into::into) }
}

fn log_output(output: Option<&Spanned<String>>, diagnostics: &mut Diagnostics) -> LogOutput {
    let Some(output) = output else { return LogOutput::Stdout };
    match output.value.trim() {
        "" => {
            diagnostics.error(output.span, "`output` must be stdout, off or a file's path, found nothing");
            LogOutput::Off
        }
        "stdout" => LogOutput::Stdout,
        // YAML 1.1 writes `off` for false.
        "off" | "false" => LogOutput::Off,
        path => LogOutput::File(path.into()),
    }
}
