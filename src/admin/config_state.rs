//! `/api/config` and `/api/reload`: the source of the running configuration, and its replacement.

use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::Full;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::admin::health;
use crate::admin::reply::{json, problem, problem_with};
use crate::admin::schema::{count, list_of, meaning, object, one_of, or_null, text, time};
use crate::admin::state::{AdminState, ReloadError};
use tollgate_config::{LoadError, Report, Severity};

/// Source of the running configuration.
#[derive(Debug)]
pub struct ConfigState {
    file: Option<String>,
    hash: String,
    loaded_at: Timestamp,
    notes: Report,
}

impl ConfigState {
    /// Creates the state of a configuration that was read just now from `files`; none if it is built in.
    #[must_use]
    pub fn new(files: &[PathBuf], mut notes: Report) -> Self {
        let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
        let file = (!names.is_empty()).then(|| names.join(", "));
        let hash = notes.hash();
        notes.drop_texts();
        Self { file, hash, loaded_at: Timestamp::now(), notes }
    }
}

/// Refused configuration of the latest reload.
#[derive(Debug)]
pub(super) struct RefusedReload {
    at: Timestamp,
    detail: String,
}

impl RefusedReload {
    /// Creates the state of a configuration that was refused just now.
    pub(super) fn new(text: &str) -> Self {
        Self { at: Timestamp::now(), detail: in_words(text) }
    }
}

/// Returns the state of the running configuration.
pub(super) fn show(state: &AdminState) -> Response<Full<Bytes>> {
    let config = state.config_state.load();
    json(
        StatusCode::OK,
        &json!({
            "version": env!("CARGO_PKG_VERSION"),
            "file": config.file,
            "hash": config.hash,
            "loaded-at": config.loaded_at.to_string(),
            "routes": state.config.load().routes.len(),
            "reloads": state.reloads.load(Relaxed),
            "failed-reloads": state.failed_reloads.load(Relaxed),
            "refused-reload": state.refused_reload.load().as_ref().map(|refused| {
                json!({"at": refused.at.to_string(), "detail": refused.detail})
            }),
            "redis": health::redis(state),
            "warnings": diagnostics(&config.notes),
        }),
    )
}

/// Returns the hash, the time and the number of warnings of the running configuration.
pub(super) fn summary(state: &AdminState) -> Value {
    let config = state.config_state.load();
    json!({
        "hash": config.hash,
        "loaded-at": config.loaded_at.to_string(),
        "warnings": config.notes.list().len(),
        "failed-reloads": state.failed_reloads.load(Relaxed),
    })
}

/// Reads the configuration again and applies it. The response lists the problems of the file.
pub(super) async fn reload(state: &AdminState) -> Response<Full<Bytes>> {
    match state.reload().await {
        Some(Ok(needs_restart)) => {
            let config = state.config_state.load();
            let warnings = diagnostics(&config.notes);
            json(StatusCode::OK, &json!({"hash": config.hash, "needs-restart": needs_restart, "warnings": warnings}))
        }
        Some(Err(ReloadError::Load(LoadError::Invalid(report)))) => {
            let detail = format!("the running configuration stays in use:\n{}", report.render(false));
            problem_with(StatusCode::UNPROCESSABLE_ENTITY, &detail, Some(("diagnostics", diagnostics(&report))))
        }
        Some(Err(ReloadError::Load(error))) => {
            let detail = format!("the running configuration stays in use: {}", in_words(&error.render(false)));
            problem(StatusCode::UNPROCESSABLE_ENTITY, &detail)
        }
        Some(Err(error @ ReloadError::Thread(_))) => problem(StatusCode::SERVICE_UNAVAILABLE, &error.to_string()),
        Some(Err(ReloadError::NoFile)) => problem(StatusCode::CONFLICT, &ReloadError::NoFile.to_string()),
        None => problem(StatusCode::SERVICE_UNAVAILABLE, "the gateway is shutting down"),
    }
}

/// Returns `text`, which `tollgate check` prints about an error, without the name of the program.
fn in_words(text: &str) -> String {
    text.trim().trim_start_matches("tollgate: ").to_owned()
}

/// Returns the diagnostics, with secrets masked.
fn diagnostics(report: &Report) -> Value {
    let describe = |diagnostic: &tollgate_config::Diagnostic| {
        json!({
            "severity": diagnostic.severity.as_str(),
            "file": report.file_name(diagnostic.file),
            "line": diagnostic.line,
            "column": diagnostic.column,
            "message": diagnostic.text(),
            "help": diagnostic.help,
        })
    };
    report.list().iter().map(describe).collect()
}

/// Returns the JSON Schema of the state of the running configuration.
pub(super) fn schema() -> Value {
    let refused = object().with("at", time()).with("detail", meaning(text(), "What `tollgate check` prints"));
    object()
        .with("version", meaning(text(), "Version of the gateway"))
        .with("file", meaning(or_null(&text()), "Files of the configuration; null if it is built in"))
        .with("hash", meaning(text(), "SHA-256 of the files"))
        .with("loaded-at", time())
        .with("routes", meaning(count(), "Number of routes"))
        .with("reloads", count())
        .with("failed-reloads", count())
        .with("refused-reload", meaning(or_null(&refused.build()), "Latest reload, if its configuration was refused"))
        .with("redis", meaning(or_null(&health::redis_schema()), "Null if limits are kept in memory"))
        .with("warnings", diagnostics_schema())
        .build()
}

/// Returns the JSON Schema of an applied reload.
pub(super) fn reload_schema() -> Value {
    object()
        .with("hash", meaning(text(), "SHA-256 of the files"))
        .with("needs-restart", meaning(list_of(&text()), "Changed settings that need a restart"))
        .with("warnings", diagnostics_schema())
        .build()
}

/// Returns the JSON Schema of diagnostics.
pub(super) fn diagnostics_schema() -> Value {
    let severities = [Severity::Error, Severity::Warning, Severity::Note].map(Severity::as_str);
    let diagnostic = object()
        .with("severity", one_of(&severities))
        .with("file", text())
        .with("line", count())
        .with("column", count())
        .with("message", text())
        .with("help", or_null(&text()));
    list_of(&diagnostic.build())
}
