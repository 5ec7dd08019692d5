//! `/api/config` and `/api/reload`: the source of the running configuration, and its replacement.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;
use http::StatusCode;
use jiff::Timestamp;

use crate::admin::admin_state::{AdminState, ReloadError};
use crate::admin::health;
use crate::admin::reply::{Reply, json, problem, problem_with, reply};
use tollgate_config::{ACCESS_LOG_WARNING, LoadError, Report, SecretValues, Severity};
use tollgate_discovery::RegistryStatus;

/// Source of the running configuration.
#[derive(Debug)]
pub struct ConfigState {
    file: Option<String>,
    further_files: Vec<String>,
    hash: String,
    loaded_at: String,
    notes: Report,
    /// Values that no listing shows.
    pub secrets: SecretValues,
}

impl ConfigState {
    /// Creates the state of a configuration that was read just now from `files`; none if it is built in.
    pub fn new(files: &[PathBuf], mut notes: Report) -> Self {
        let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
        let file = (!names.is_empty()).then(|| names.join(", "));
        // The properties of the command line are no file.
        let is_further = |name: &&str| !names.iter().any(|file| file == name) && Path::new(name).is_file();
        let further_files = notes.file_names().filter(is_further).map(str::to_owned).collect();
        let (hash, secrets) = (notes.hash(), notes.secret_values());
        notes.drop_texts();
        Self { file, further_files, hash, loaded_at: Timestamp::now().to_string(), notes, secrets }
    }
}

/// Refused configuration of the latest reload.
#[reply(Debug)]
pub(super) struct RefusedReload {
    #[schemars(extend("format" = "date-time"))]
    at: String,
    /// Text that `tollgate check` prints.
    detail: String,
}

/// State of the running configuration.
#[reply]
pub(super) struct ConfigReply<'c> {
    /// Version of the gateway.
    version: &'static str,
    /// Files of the configuration; null if it is built in.
    file: Option<&'c str>,
    /// Further files that were read: imports, files of profiles, files in folders.
    further_files: &'c [String],
    /// SHA-256 of the files.
    hash: &'c str,
    #[schemars(extend("format" = "date-time"))]
    loaded_at: &'c str,
    /// Number of routes.
    routes: usize,
    reloads: u64,
    failed_reloads: u64,
    /// Start of the reload in progress.
    #[schemars(extend("format" = "date-time"))]
    reload_since: Option<String>,
    /// Latest reload, if its configuration was refused.
    refused_reload: Option<&'c RefusedReload>,
    /// Settings of the configuration that take effect only at the next start.
    needs_restart: Vec<&'static str>,
    /// True if the access log could not be opened again: lines go to a file that was moved or removed.
    access_log_misplaced: bool,
    /// Null if limits are kept in memory.
    redis: Option<health::RedisHealth>,
    registries: Vec<RegistryHealth>,
    warnings: Vec<DiagnosticReply<'c>>,
}

/// Registry of the running configuration.
#[reply]
struct RegistryHealth {
    kind: &'static str,
    server: String,
    /// Time since its last response; null if it has never responded.
    age_seconds: Option<u64>,
    /// Latest error, if no response followed.
    error: Option<String>,
}

/// Running configuration in a snapshot.
#[reply]
pub(super) struct ConfigSummary<'c> {
    /// SHA-256 of the files.
    hash: &'c str,
    #[schemars(extend("format" = "date-time"))]
    loaded_at: &'c str,
    /// Number of warnings and notes.
    warnings: usize,
    failed_reloads: u64,
}

/// Applied reload.
#[reply]
pub(super) struct ReloadReply<'c> {
    /// SHA-256 of the files.
    hash: &'c str,
    /// Settings of the configuration that take effect only at the next start.
    needs_restart: Vec<&'static str>,
    warnings: Vec<DiagnosticReply<'c>>,
}

/// Member of the problem of a configuration with errors.
#[reply]
pub(super) struct InvalidConfig<'c> {
    diagnostics: Vec<DiagnosticReply<'c>>,
}

/// Diagnostic, with secrets masked.
#[reply]
struct DiagnosticReply<'c> {
    #[schemars(extend("enum" = [Severity::Error, Severity::Warning, Severity::Note].map(Severity::as_str)))]
    severity: &'static str,
    file: &'c str,
    line: usize,
    column: usize,
    message: Cow<'c, str>,
    help: Option<&'c str>,
}

impl<'c> ConfigSummary<'c> {
    pub(super) fn new(config: &'c ConfigState, state: &AdminState) -> Self {
        Self {
            hash: &config.hash,
            loaded_at: &config.loaded_at,
            warnings: config.notes.count(),
            failed_reloads: state.failed_reloads.load(Relaxed),
        }
    }
}

impl RegistryHealth {
    fn of(registry: &RegistryStatus) -> Self {
        Self {
            kind: registry.kind(),
            server: registry.server().to_owned(),
            age_seconds: registry.age().map(|age| age.as_secs()),
            error: registry.error(),
        }
    }
}

impl RefusedReload {
    /// Creates the state of a configuration that was refused just now.
    pub(super) fn new(text: &str) -> Self {
        Self { at: Timestamp::now().to_string(), detail: in_words(text) }
    }
}

/// Returns the state of the running configuration.
pub(super) fn show(state: &AdminState) -> Reply {
    let config = state.config_state.load();
    let refused_reload = state.refused_reload.load();
    let running = state.config.load();
    let mut warnings = diagnostics(&config.notes);
    let is_misplaced = state.access_log_is_misplaced();
    warnings.retain(|warning| is_misplaced || !warning.message.starts_with(ACCESS_LOG_WARNING));
    let reply = ConfigReply {
        version: env!("CARGO_PKG_VERSION"),
        file: config.file.as_deref(),
        further_files: &config.further_files,
        hash: &config.hash,
        loaded_at: &config.loaded_at,
        routes: running.routes.len(),
        reloads: state.reloads.load(Relaxed),
        failed_reloads: state.failed_reloads.load(Relaxed),
        reload_since: state.reload_since().map(|since| since.to_string()),
        refused_reload: refused_reload.as_deref(),
        needs_restart: state.needs_restart(&running),
        access_log_misplaced: is_misplaced,
        redis: health::redis(state),
        registries: state.upstreams.registries().iter().map(|registry| RegistryHealth::of(registry)).collect(),
        warnings,
    };
    json(StatusCode::OK, &reply)
}

/// Reads the configuration again and applies it. The response lists the problems of the file.
pub(super) async fn reload(state: &AdminState) -> Reply {
    match state.reload().await {
        Ok(()) => {
            let config = state.config_state.load();
            let (needs_restart, warnings) = (state.needs_restart(&state.config.load()), diagnostics(&config.notes));
            json(StatusCode::OK, &ReloadReply { hash: &config.hash, needs_restart, warnings })
        }
        Err(ReloadError::Load(LoadError::Invalid(report))) => {
            let detail = format!("the running configuration stays in use:\n{}", report.render(false));
            problem_with(StatusCode::UNPROCESSABLE_ENTITY, &detail, InvalidConfig { diagnostics: diagnostics(&report) })
        }
        Err(ReloadError::Load(error)) => {
            let detail = format!("the running configuration stays in use: {}", in_words(&error.render(false)));
            problem(StatusCode::UNPROCESSABLE_ENTITY, &detail)
        }
        Err(error @ (ReloadError::NoRoutes | ReloadError::NoRegistry(_))) => {
            problem(StatusCode::UNPROCESSABLE_ENTITY, &format!("the running configuration stays in use: {error}"))
        }
        Err(error @ ReloadError::NoFile) => problem(StatusCode::CONFLICT, &error.to_string()),
        Err(error @ (ReloadError::Thread(_) | ReloadError::Ending)) => {
            problem(StatusCode::SERVICE_UNAVAILABLE, &error.to_string())
        }
    }
}

/// Reloads the configuration. Returns 200 without a body if it was applied, as Spring does.
pub(super) async fn refresh(state: &AdminState) -> Reply {
    match state.reload().await {
        Ok(()) => reply(StatusCode::OK, "text/plain; charset=utf-8", Bytes::new()),
        Err(error @ ReloadError::Ending) => problem(StatusCode::SERVICE_UNAVAILABLE, &error.to_string()),
        Err(_) => problem(StatusCode::INTERNAL_SERVER_ERROR, "the new configuration was not applied: see the log"),
    }
}

/// Returns `text`, which `tollgate check` prints about an error, without the name of the program.
fn in_words(text: &str) -> String {
    text.trim().trim_start_matches("tollgate: ").to_owned()
}

fn diagnostics(report: &Report) -> Vec<DiagnosticReply<'_>> {
    let diagnostics = report.list().iter().map(|diagnostic| DiagnosticReply {
        severity: diagnostic.severity.as_str(),
        file: report.file_name(diagnostic.file),
        line: diagnostic.line,
        column: diagnostic.column,
        message: diagnostic.text(),
        help: diagnostic.help.as_deref(),
    });
    diagnostics.collect()
}
