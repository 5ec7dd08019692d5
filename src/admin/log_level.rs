//! `/api/log`: level of the gateway's own log.

use http::StatusCode;
use hyper::body::Incoming;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tracing::Level;

use crate::admin::reply::{Reply, audited, json};
use crate::admin::request::{MAX_BYTES, read_body};
use tollgate_telemetry::logs;

/// Level of the log: the least severe one that is written.
#[reply(Clone, Copy, Debug, ::serde::Deserialize)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
pub(super) struct LogLevel {
    level: LevelName,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum LevelName {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

/// Returns the level.
pub(super) fn show() -> Reply {
    let level = match logs::level() {
        Level::ERROR => LevelName::Error,
        Level::WARN => LevelName::Warn,
        Level::INFO => LevelName::Info,
        Level::DEBUG => LevelName::Debug,
        Level::TRACE => LevelName::Trace,
    };
    json(StatusCode::OK, &LogLevel { level })
}

/// Sets the level until the next reload, which applies that of the file.
pub(super) async fn set(body: Incoming) -> Reply {
    let expected = "{\"level\": \"error\", \"warn\", \"info\", \"debug\" or \"trace\"}";
    let LogLevel { level } = match read_body(body, MAX_BYTES, expected).await {
        Ok(level) => level,
        Err(error) => return error.response(),
    };
    let level = match level {
        LevelName::Error => Level::ERROR,
        LevelName::Warn => Level::WARN,
        LevelName::Info => Level::INFO,
        LevelName::Debug => Level::DEBUG,
        LevelName::Trace => Level::TRACE,
    };
    logs::set_level(level);
    audited(show(), format!("log level set to {}", level.as_str().to_ascii_lowercase()))
}
