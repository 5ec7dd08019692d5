//! One worker: a thread with a runtime, a listener, connections and pools of its own. Workers share limits and
//! metrics, and nothing else.

use std::cell::RefCell;
use std::convert::Infallible;
use std::net::TcpListener;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::{LocalSet, spawn_local};

use crate::gateway::{Gateway, Resources};
use crate::server::accept;
use crate::server::client_io::ClientTimeouts;
use crate::server::connection::ConnectionLimits;
use crate::server::drain::Connections;
use crate::server::protocol::HeadLimits;
use crate::state::stores::{Limits, SharedLimits};
use crate::telemetry::access_log::AccessLog;
use crate::telemetry::log_writer::LogWriter;
use crate::telemetry::metrics::Metrics;
use crate::upstream::balance::Upstreams;
use tollgate_config::{AccessLogFormat, Config};

/// What the process asks of its workers.
#[derive(Clone, Debug)]
pub struct Orders {
    /// Serve this.
    pub config: Arc<Config>,
    /// End within this time.
    pub drain: Option<Duration>,
}

/// What a worker is started with.
#[derive(Debug)]
pub struct Worker {
    /// Its number, from 0.
    pub number: usize,
    /// Where it accepts connections.
    pub listener: TcpListener,
    /// What is asked of it.
    pub orders: watch::Receiver<Orders>,
    /// The connections that all workers together may hold at once.
    pub gate: Arc<Semaphore>,
    /// Dropped once it serves.
    pub starting: mpsc::Sender<Infallible>,
    /// The buckets that all workers share.
    pub limits: Arc<SharedLimits>,
    /// The endpoints that all workers share.
    pub upstreams: Arc<Upstreams>,
    /// The process' metrics.
    pub metrics: Arc<Metrics>,
    /// Where its access-log lines go.
    pub log: Option<LogWriter>,
}

impl Worker {
    /// Serves until ordered to drain, on the calling thread. Returns how many connections were cut off.
    ///
    /// # Errors
    /// The runtime or the listener cannot be set up.
    pub fn run(self) -> std::io::Result<usize> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        // What is cut off at the end is dropped with the set of tasks, and may start a timer on its way out.
        let _entered = runtime.enter();
        let local = LocalSet::new();
        let cut_off = local.block_on(&runtime, self.serve())?;
        Ok(cut_off)
    }

    async fn serve(mut self) -> std::io::Result<usize> {
        let config = Arc::clone(&self.orders.borrow_and_update().config);
        let listener = tokio::net::TcpListener::from_std(self.listener)?;
        let limits = Limits::new(self.limits);
        let unrouted = self.metrics.route(self.number, None);
        let logs_reasons = self.log.is_some() && config.access_log.format == AccessLogFormat::Json;
        let resources = Rc::new(Resources::new(self.number, self.metrics, limits, self.upstreams, logs_reasons));
        let log = self.log.map(|writer| AccessLog::new(writer, config.access_log.format));
        let gateway = Gateway::new(resources.build(&config), unrouted, log.clone());
        resources.settled().await;
        drop(self.starting);
        let connection_limits = Rc::new(RefCell::new(connection_limits(&config)));
        spawn_local(tick(Rc::clone(&resources)));
        let stop = obey(self.orders, Rc::clone(&resources), Rc::clone(&gateway), Rc::clone(&connection_limits));
        let connections = Arc::new(Connections::default());
        let cut_off = accept::run(listener, gateway, connection_limits, self.gate, connections, stop).await;
        resources.released().await;
        if let Some(log) = log {
            log.flush();
        }
        Ok(cut_off)
    }
}

/// Takes over new configurations until the order to drain comes; returns how long that may take.
async fn obey(
    mut orders: watch::Receiver<Orders>,
    resources: Rc<Resources>,
    gateway: Rc<Gateway>,
    limits: Rc<RefCell<ConnectionLimits>>,
) -> Duration {
    while orders.changed().await.is_ok() {
        let Orders { config, drain } = orders.borrow_and_update().clone();
        if let Some(patience) = drain {
            return patience;
        }
        let generation = resources.build(&config);
        resources.settled().await;
        gateway.swap(generation);
        limits.replace(connection_limits(&config));
    }
    Duration::ZERO
}

async fn tick(resources: Rc<Resources>) {
    let mut seconds = tokio::time::interval(Duration::from_secs(1));
    seconds.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        seconds.tick().await;
        resources.tick();
    }
}

fn connection_limits(config: &Config) -> ConnectionLimits {
    let server = &config.server;
    ConnectionLimits {
        head: HeadLimits { max_bytes: server.max_header_bytes, max_fields: server.max_headers },
        http2: server.http2,
        tls: server.tls.as_ref().map(|tls| Arc::clone(&tls.0)),
        timeouts: ClientTimeouts {
            header: server.header_timeout,
            idle: server.idle_timeout,
            write: server.write_timeout,
        },
    }
}
