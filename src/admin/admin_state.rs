//! State that the admin port reports.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};

use arc_swap::{ArcSwap, ArcSwapOption};
use jiff::Timestamp;
use parking_lot::Mutex;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::gauge::ConstGauge;
use thiserror::Error;
use tokio::sync::{mpsc, oneshot};

use crate::admin::access::RefusalStats;
use crate::admin::config_state::{ConfigState, RefusedReload};
use crate::admin::events::viewers::Viewers;
use tollgate_config::{Config, LoadError, StartSettings};
use tollgate_proxy::http::handler::ConnectionStats;
use tollgate_proxy::instrumentation::metrics::Metrics;
use tollgate_proxy::state::stores::SharedStores;
use tollgate_proxy::upstream::balance::Upstreams;
use tollgate_telemetry::encode::{NO_LABELS, family};
use tollgate_telemetry::log_writer::LogWriter;
use tollgate_telemetry::otlp::SpanStats;
use tollgate_telemetry::top_keys;

/// State of the process that the admin port reports.
#[derive(Debug)]
pub struct AdminState {
    /// Running configuration.
    pub config: ArcSwap<Config>,
    /// Source of the running configuration.
    pub(super) config_state: ArcSwap<ConfigState>,
    /// Settings of the start that a reload does not change.
    start_settings: StartSettings,
    /// True once all workers accept connections.
    pub ready: AtomicBool,
    /// True once the gateway shuts down.
    pub draining: AtomicBool,
    /// Number of configurations applied since the start.
    pub(super) reloads: AtomicU64,
    /// Number of configurations refused since the start.
    pub(super) failed_reloads: AtomicU64,
    /// Latest reload, if its configuration was refused.
    pub(super) refused_reload: ArcSwapOption<RefusedReload>,
    /// Start of the reload in progress.
    reload_since: Mutex<Option<Timestamp>>,
    /// Time and outcome of the last reload.
    pub(super) last_reload: LastReload,
    /// Refused requests to the admin port.
    pub(super) refusals: RefusalStats,
    /// Counters of client connections.
    pub connections: Arc<ConnectionStats>,
    /// Start of the process.
    pub(super) started: SystemTime,
    /// Address of the port. It stays the same over reloads.
    pub(super) address: IpAddr,
    /// Stores of limiters.
    pub stores: Arc<SharedStores>,
    /// Upstreams with their endpoints.
    pub upstreams: Arc<Upstreams>,
    /// Metrics of the process.
    pub metrics: Arc<Metrics>,
    pub(super) top: top_keys::Readers,
    /// Access log, unless it is off.
    pub log: Option<LogWriter>,
    /// Counters of spans; `None` if traces are off.
    pub(super) spans: Option<Arc<SpanStats>>,
    /// Viewers of the dashboard.
    pub(super) events: Arc<Viewers>,
    reload_requests: mpsc::Sender<oneshot::Sender<ReloadResult>>,
}

/// Requests to reload the configuration. Each expects the result as a reply.
pub type ReloadRequests = mpsc::Receiver<oneshot::Sender<ReloadResult>>;

/// Outcome of a reload.
pub type ReloadResult = Result<(), ReloadError>;

/// Reason for which a configuration was not applied.
#[derive(Debug, Error)]
pub enum ReloadError {
    /// The configuration is built in.
    #[error("the built-in configuration has no file")]
    NoFile,
    /// The file cannot be read, or has errors.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The running configuration has routes, and the new one none. The file may be empty for a moment.
    #[error("no routes: every request would get 404 (if that is meant, write `routes: []`)")]
    NoRoutes,
    /// The running configuration has routes, and all routes of the new one come from registries, which this text describes.
    #[error(
        "no registry has responded, and all routes come from `discovery.locator`; the configuration is applied once one responds ({0})"
    )]
    NoRegistry(String),
    /// The thread that reads the file cannot be created.
    #[error("cannot create a thread: {0}")]
    Thread(std::io::Error),
    /// The gateway reloads no more.
    #[error("the gateway is shutting down")]
    Ending,
}

impl AdminState {
    /// Creates the state of a starting gateway whose admin port listens on `address`, and the receiver of its reload requests.
    pub fn new(
        (address, config, config_state, start_settings): (IpAddr, Arc<Config>, ConfigState, StartSettings),
        stores: Arc<SharedStores>,
        upstreams: Arc<Upstreams>,
        metrics: Arc<Metrics>,
        top: top_keys::Readers,
        log: Option<LogWriter>,
        spans: Option<Arc<SpanStats>>,
    ) -> (Arc<Self>, ReloadRequests) {
        let (sender, reload_requests) = mpsc::channel(1);
        let state = Self {
            address,
            reload_requests: sender,
            start_settings,
            config: ArcSwap::new(config),
            config_state: ArcSwap::from_pointee(config_state),
            ready: AtomicBool::new(false),
            draining: AtomicBool::new(false),
            reloads: AtomicU64::new(0),
            failed_reloads: AtomicU64::new(0),
            refused_reload: ArcSwapOption::empty(),
            reload_since: Mutex::default(),
            last_reload: LastReload::at_start(),
            refusals: RefusalStats::default(),
            connections: Arc::default(),
            started: SystemTime::now(),
            stores,
            upstreams,
            metrics,
            top,
            log,
            spans,
            events: Arc::default(),
        };
        (Arc::new(state), reload_requests)
    }

    /// Records that a reload applied `config`, which was read as `config_state` says.
    pub fn reload_applied(&self, config: &Arc<Config>, config_state: ConfigState) {
        self.config.store(Arc::clone(config));
        self.config_state.store(Arc::new(config_state));
        self.refused_reload.store(None);
        self.reloads.fetch_add(1, Relaxed);
        self.last_reload.record(true);
    }

    /// Records that a reload was refused with this text: the running configuration stays in use.
    pub fn reload_refused(&self, text: &str) {
        self.refused_reload.store(Some(Arc::new(RefusedReload::new(text))));
        self.failed_reloads.fetch_add(1, Relaxed);
        self.last_reload.record(false);
    }

    /// Records the start of a reload; `None` at its end.
    pub fn set_reload_since(&self, since: Option<Timestamp>) {
        *self.reload_since.lock() = since;
    }

    /// Returns the start of the reload in progress.
    pub(super) fn reload_since(&self) -> Option<Timestamp> {
        *self.reload_since.lock()
    }

    /// Returns the settings of `config` that take effect only at the next start.
    pub fn needs_restart(&self, config: &Config) -> Vec<&'static str> {
        self.start_settings.needs_restart(config)
    }

    /// Returns true if the access log could not be opened again.
    pub(super) fn access_log_is_misplaced(&self) -> bool {
        self.log.as_ref().is_some_and(LogWriter::is_misplaced)
    }

    /// Reloads the configuration.
    pub(super) async fn reload(&self) -> ReloadResult {
        let (reply, applied) = oneshot::channel();
        self.reload_requests.send(reply).await.map_err(|_| ReloadError::Ending)?;
        applied.await.unwrap_or(Err(ReloadError::Ending))
    }
}

/// Last attempt to read the configuration. The start counts as the first.
#[derive(Debug)]
pub(super) struct LastReload(Mutex<Attempts>);

/// Times of attempts.
#[derive(Clone, Copy, Debug)]
struct Attempts {
    last: SystemTime,
    last_applied: SystemTime,
    is_applied: bool,
}

impl LastReload {
    /// Creates the state of a gateway that has just read its first configuration.
    pub(super) fn at_start() -> Self {
        let now = SystemTime::now();
        Self(Mutex::new(Attempts { last: now, last_applied: now, is_applied: true }))
    }

    /// Records an attempt that was applied or refused just now.
    pub(super) fn record(&self, is_applied: bool) {
        let now = SystemTime::now();
        let mut attempts = self.0.lock();
        let last_applied = if is_applied { now } else { attempts.last_applied };
        *attempts = Attempts { last: now, last_applied, is_applied };
    }

    /// Encodes the outcome and the times.
    ///
    /// # Errors
    /// The encoder fails.
    pub(super) fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let Attempts { last, last_applied, is_applied } = *self.0.lock();
        let seconds = |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let mut one = |name, help, value: f64| family(encoder, name, help, [(NO_LABELS, ConstGauge::new(value))]);
        one(
            "tollgate_config_last_reload_successful",
            "1 if the last attempt to read the configuration applied it, 0 otherwise",
            f64::from(u8::from(is_applied)),
        )?;
        one(
            "tollgate_config_last_reload_timestamp_seconds",
            "Time of the last attempt to read the configuration",
            seconds(last),
        )?;
        one(
            "tollgate_config_last_reload_success_timestamp_seconds",
            "Time at which the running configuration was applied",
            seconds(last_applied),
        )
    }
}
