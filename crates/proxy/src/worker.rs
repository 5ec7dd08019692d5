//! Worker: a thread with its own runtime, listener, connections and upstream pools. Workers share stores, endpoint
//! health and metrics.

use std::cell::RefCell;
use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::{mpsc, watch};

use crate::gateway::{Gateway, Generation, SharedGeneration, WorkerState};
use crate::http::service::SharedService;
use crate::instrumentation::access_log::AccessLog;
use crate::instrumentation::metrics::Metrics;
use crate::instrumentation::traces::Tracing;
use crate::server::accept::{self, Listener, Order};
use crate::server::activity::ClientTimeouts;
use crate::server::connection::{ConnectionLimits, ExemptClients};
use crate::server::gate::{ClientLimits, Gate};
use crate::server::protocol::HeadLimits;
use crate::state::stores::{SharedStores, Stores};
use crate::upstream::balance::Upstreams;
use tollgate_config::{AccessLogFormat, Config};
use tollgate_telemetry::log_writer::LogWriter;
use tollgate_telemetry::top_keys;
use tollgate_transport::executor::spawn_boxed;

/// Timeout of a client that has none: longer than any process runs.
const NO_TIMEOUT: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);
/// Stacks of a replaced generation that are dropped at once, which takes some tens of microseconds.
const STACKS_PER_TURN: usize = 16;

/// Arguments of a worker thread.
pub struct Worker {
    /// Index of the worker, from 0.
    pub number: usize,
    /// Listeners of the worker: one of several on the same address, or some of those that the process inherited.
    pub listeners: Vec<Listener<TcpListener>>,
    /// Configuration to serve; a new value is applied to the next request. It has another owner, which is the last one.
    pub generation: watch::Receiver<Arc<SharedGeneration>>,
    /// Orders to accept connections, to stop, and to drain.
    pub orders: watch::Receiver<Order>,
    /// Count of the seconds in which the worker runs, for a watchdog.
    pub beat: Arc<AtomicU64>,
    /// Admission of client connections, shared by all workers.
    pub gate: Gate,
    /// Dropped when the worker is about to accept connections.
    pub starting: mpsc::Sender<Infallible>,
    /// Stores of limiters, shared by all workers.
    pub stores: Arc<SharedStores>,
    /// Upstreams and the health of their endpoints, shared by all workers.
    pub upstreams: Arc<Upstreams>,
    /// Metrics of the process.
    pub metrics: Arc<Metrics>,
    /// Traces of requests; `None` if they are off.
    pub tracing: Option<Tracing>,
    /// Access log, unless it is off.
    pub log: Option<LogWriter>,
    /// Queries for the most frequent keys.
    pub top_queries: top_keys::Queries,
    /// Address of the admin port, if it trusts every process of this host: no request is forwarded to it.
    pub refused: Option<SocketAddr>,
    /// Makes the service of the endpoints that the gateway itself serves on the port for traffic.
    pub own_endpoints: Box<dyn FnOnce() -> SharedService + Send>,
}

impl Worker {
    /// Serves on the calling thread until it has drained. Returns the number of connections closed at the deadline.
    ///
    /// # Errors
    /// The runtime or the listener cannot be set up.
    pub fn run(self) -> std::io::Result<usize> {
        // A `LocalSet` on a runtime would have a queue of its own, and be woken and polled as the runtime's only task.
        let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default())?;
        runtime.block_on(self.serve())
    }

    async fn serve(mut self) -> std::io::Result<usize> {
        let shared = Arc::clone(&self.generation.borrow_and_update());
        let config = Arc::clone(&shared.config);
        let stores = Stores::new(self.stores);
        let unrouted = self.metrics.route(self.number, None);
        let logs_reasons = self.log.is_some() && config.access_log.format.0 == AccessLogFormat::Json;
        let mut state = WorkerState::new(self.number, self.metrics, stores, self.upstreams, logs_reasons, self.refused);
        (state.tracing, state.own_service) = (self.tracing, Some((self.own_endpoints)()));
        let state = Rc::new(state);
        let log = self.log.map(|writer| AccessLog::new(writer, config.access_log.format.0));
        let gateway = Gateway::new(state.generation(shared).await, unrouted, log.clone());
        drop(self.starting);
        let limits = Rc::new(RefCell::new(connection_limits(&config)));
        // It is not kept beyond the next reload.
        drop(config);
        spawn_boxed(maintain(Rc::clone(&state), self.beat));
        spawn_boxed(top_keys::answer(self.top_queries));
        spawn_boxed(apply_reloads(Rc::clone(&state), Rc::clone(&gateway), Rc::clone(&limits), self.generation));
        let connections = self.gate.connections(self.number);
        // A socket that does not listen yet would count as closed for good.
        if self.orders.wait_for(|order| !matches!(order, Order::Wait)).await.is_err() {
            return Ok(0);
        }
        let listeners = self
            .listeners
            .into_iter()
            .map(|(listener, kind)| tokio::net::TcpListener::from_std(listener).map(|listener| (listener, kind)));
        let listeners = listeners.collect::<std::io::Result<Vec<_>>>()?;
        let closed = accept::run(listeners, gateway, limits, self.gate, connections, self.orders).await;
        state.release().await;
        if let Some(log) = log {
            log.flush();
        }
        Ok(closed)
    }
}

/// Applies new configurations for as long as the process sends them.
async fn apply_reloads(
    state: Rc<WorkerState>,
    gateway: Rc<Gateway>,
    limits: Rc<RefCell<ConnectionLimits>>,
    mut generations: watch::Receiver<Arc<SharedGeneration>>,
) {
    while generations.changed().await.is_ok() {
        let shared = Arc::clone(&generations.borrow_and_update());
        let before = gateway.swap(state.generation(Arc::clone(&shared)).await);
        limits.replace(connection_limits(&shared.config));
        shared.serving.add_permits(1);
        drop(shared);
        drop_stacks(before).await;
    }
}

/// Drops the stacks of a generation, a few at a time between requests. Requests in flight keep the services that they need.
/// The thread that made the shared part is its last owner.
async fn drop_stacks(generation: Rc<Generation>) {
    let Some(generation) = Rc::into_inner(generation) else { return };
    for (number, stack) in generation.into_stacks().enumerate() {
        drop(stack);
        if number % STACKS_PER_TURN == 0 {
            tokio::task::yield_now().await;
        }
    }
}

/// Closes old idle connections to upstreams, and counts keys in a new window when it begins, once a second.
async fn maintain(state: Rc<WorkerState>, beat: Arc<AtomicU64>) {
    let mut seconds = tokio::time::interval(Duration::from_secs(1));
    seconds.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        seconds.tick().await;
        beat.fetch_add(1, Relaxed);
        state.close_idle_connections();
        top_keys::tick();
    }
}

fn connection_limits(config: &Config) -> ConnectionLimits {
    let server = &config.server;
    let trusted_proxies = config.forwarding.trusted_proxies.clone();
    ConnectionLimits {
        head: HeadLimits { max_bytes: server.max_http_request_header_size.get(), max_fields: server.max_headers.get() },
        proxy_protocol: server.proxy_protocol.as_deref().map(|protocol| Rc::new(protocol.clone())),
        http2: server.http2.enabled.get(),
        tls: server.tls.as_ref().map(|tls| Arc::clone(&tls.config)),
        timeouts: ClientTimeouts {
            header: server.header_timeout.get(),
            idle: server.idle_timeout.get().unwrap_or(NO_TIMEOUT),
            write: server.write_timeout.get().unwrap_or(NO_TIMEOUT),
        },
        half_close: server.half_close.get(),
        client: ClientLimits {
            connections: server.max_connections_per_client(),
            streams: server.max_streams_per_client(),
        },
        exempt: ExemptClients(Rc::new(move |ip| trusted_proxies.trusts(ip))),
    }
}
