//! Start: binds the ports, starts the access log, the admin port, the workers and the background tasks.

use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::sync::{mpsc, watch};

use crate::admin::socket::SocketError;
use crate::admin::{AdminState, ConfigState, ReloadError, on_traffic, port_needs_identity};
use crate::app::admin_listeners::{admin_ip, start_admin, start_admin_socket};
use crate::app::buckets;
use crate::app::descriptors;
use crate::app::handover::Predecessor;
use crate::app::located_routes::{require_routes, start_upstreams};
use crate::app::overlap::{self, Turn};
use crate::app::process::{Process, WorkerThread};
use crate::app::reader::Reader;
use crate::app::service_manager::{self, Beats};
use crate::app::serving::{Addresses, Waiting};
use crate::app::sockets::{Sockets, SocketsError};
use crate::app::source::Source;
use tollgate_acme::Certificates;
use tollgate_config::{Config, Loaded, LogOutput};
use tollgate_discovery::Registrations;
use tollgate_proxy::gateway::SharedGeneration;
use tollgate_proxy::instrumentation::metrics::Metrics;
use tollgate_proxy::instrumentation::traces::Tracing;
use tollgate_proxy::server::accept::{Listener, Order};
use tollgate_proxy::server::gate::Gate;
#[cfg(feature = "jwt")]
use tollgate_proxy::state::jwks::JwksRefresher;
use tollgate_proxy::state::redis_monitor::Metering;
use tollgate_proxy::state::redis_monitor::RedisMonitor;
use tollgate_proxy::state::stores::SharedStores;
use tollgate_proxy::upstream::balance::Upstreams;
use tollgate_proxy::worker::Worker;
use tollgate_telemetry::log_writer::{LogOptions, LogWriter, Target};
use tollgate_telemetry::otlp::SpanQueue;
use tollgate_telemetry::{key_display, top_keys};
use tollgate_transport::executor::{OwnedTask, spawn_boxed};

/// Bound of the access log's queue. Lines that do not fit are dropped and counted.
const ACCESS_LOG_QUEUE_BYTES: usize = 8 << 20;
/// Interval in which all buckets in memory are swept of full ones, one shard at a time.
const SWEEP_EVERY: Duration = Duration::from_secs(10);

/// Error of the start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StartError {
    /// The file of the access log cannot be opened.
    #[error("cannot open the access log {} (`access-log.output`): {source}; create its folder, or log to `stdout`", path.display())]
    AccessLog {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The Unix socket of the admin port is in use, or cannot be created.
    #[error("cannot listen on the Unix socket {} (`management.server.socket`): {source}", path.display())]
    AdminSocket {
        /// The path.
        path: PathBuf,
        /// The reason.
        source: SocketError,
    },
    /// The configuration would replace the routes of the process before by none.
    #[error("not taking over: {0}")]
    NoRoutes(ReloadError),
    /// Another process takes over, for longer than this.
    #[error(
        "not taking over: another process that started beside the running one has not served within {0:?} (`server.handover-timeout`); see its messages or end it, and start this one again"
    )]
    NoTurn(Duration),
    /// The process that serves does not hand over.
    #[error(
        "not taking over: the process beside this one has not handed over and goes on; see its messages and `server.handover-timeout`, or end it with SIGTERM, and start this one again"
    )]
    NotHandedOver,
    /// A socket cannot be bound, or an inherited one cannot be used.
    #[error(transparent)]
    Sockets(#[from] SocketsError),
    /// A thread, a runtime or a signal handler cannot be created.
    #[error("cannot start: {0}")]
    System(#[from] io::Error),
}

impl Process {
    /// Starts the gateway on inherited `sockets`, or on its own. Returns it, and its last step. Must be called within the process's
    /// `LocalSet`.
    ///
    /// # Errors
    /// A port or file cannot be opened, or a thread cannot be created.
    pub(super) async fn start(
        source: &Source,
        loaded: Loaded,
        mut sockets: Sockets,
    ) -> Result<(Self, Waiting), StartError> {
        let settings = sockets.settings(&loaded.config)?;
        let listeners = sockets.of_workers(&loaded.config)?;
        let address = sockets.traffic.sockets[0].local_addr()?;
        let log = open_access_log(&loaded.config)?;
        let (predecessor, turn) = find_predecessor(&mut sockets, &loaded.config, address).await?;
        let stores = start_stores(&loaded.config, predecessor.as_ref());
        let upstreams = Arc::<Upstreams>::default();
        let (mut manager, Loaded { config, notes }) = start_upstreams(&upstreams, loaded, source).await;
        if predecessor.is_some() {
            require_routes(&config, &mut manager).await.map_err(StartError::NoRoutes)?;
        }
        let config = Arc::new(config);
        #[cfg(feature = "jwt")]
        let mut jwks = JwksRefresher::default();
        #[cfg(feature = "jwt")]
        jwks.apply(config.jwt.as_ref()).await;
        let metrics = Arc::new(Metrics::default());
        let mut top_readers = top_keys::Readers::default();
        let top_queries: Vec<_> = listeners.iter().map(|_| top_readers.add()).collect();
        key_display::configure(config.management.key_hashing.as_ref());
        let (spans, tracing) = start_traces(&config)?;
        let (admin, reload_requests) = AdminState::new(
            (admin_ip(&config, &sockets)?, Arc::clone(&config), ConfigState::new(source.paths(), notes), settings),
            Arc::clone(&stores),
            Arc::clone(&upstreams),
            Arc::clone(&metrics),
            top_readers,
            log.clone(),
            spans.as_ref().map(|spans| Arc::clone(spans.stats())),
        );
        // Beside another process, this one gets connections when nothing can fail any more.
        let waits = predecessor.is_some() || config.server.reuse_port.get();
        let (orders, orders_receiver) = watch::channel(if waits { Order::Wait } else { Order::Serve });
        let (admin_open, open) = watch::channel(!waits);
        let admin_address = start_admin(&config, &admin, &mut sockets, open.clone())?;
        let admin_socket = start_admin_socket(&config, &admin, &mut sockets, open)?;
        let (config_sender, config_receiver) = watch::channel(Arc::clone(&config));
        let generation = Arc::new(SharedGeneration::new(Arc::clone(&config), &stores, &metrics, tracing.is_some()));
        let reader = Reader::start()?;
        let (generation_sender, generation_receiver) = watch::channel(Arc::clone(&generation));
        let refused = admin_address.filter(|address| !port_needs_identity(address.ip(), &config.management));
        let listeners = listeners.into_iter().zip(top_queries).collect();
        let receivers = (generation_receiver, orders_receiver);
        let (workers, beats, started) = start_workers(listeners, &admin, refused, tracing.as_ref(), receivers)?;
        spawn_boxed(sweep(Arc::clone(&stores)));
        let metering = Metering::start(&stores, config_receiver.clone())?;
        let redis_monitor = RedisMonitor::start(&stores, config_receiver.clone());
        let plain = sockets.plain.sockets.first().and_then(|socket| socket.local_addr().ok());
        let (offer, offers) = mpsc::channel(1);
        let waiting = Waiting {
            started,
            predecessor,
            turn,
            offers: offer,
            sockets: sockets.to_open()?,
            orders: orders.clone(),
            admin_open: admin_open.clone(),
            admin: Arc::clone(&admin),
            addresses: Addresses { traffic: address, plain, admin: admin_address },
        };
        let mut registrations = Registrations::default();
        registrations.apply(&config.registrations, address, config.server.tls.is_some()).await;
        reader.keep(generation, metrics);
        let process = Self {
            registrations,
            listener: address,
            config: config_sender,
            generation: generation_sender,
            reader,
            orders,
            sockets,
            offers,
            watchdog: OwnedTask::start(service_manager::notify_watchdog(beats)),
            workers,
            admin,
            reload_requests,
            admin_open,
            admin_socket,
            upstreams: manager,
            #[cfg(feature = "jwt")]
            jwks,
            metering,
            certificates: Certificates::start(config_receiver),
            redis_monitor,
            spans,
            log,
        };
        Ok((process, waiting))
    }
}

/// Returns the process that hands its sockets over, or the one beside this one with the turn to follow it.
async fn find_predecessor(
    sockets: &mut Sockets,
    config: &Config,
    address: SocketAddr,
) -> Result<(Option<Predecessor>, Option<Turn>), StartError> {
    if let Some(connection) = sockets.predecessor.take() {
        return Ok((Predecessor::meet(connection, config.server.handover_timeout.get()).await.ok(), None));
    }
    let Some(turn) = overlap::turn(config, address).await? else { return Ok((None, None)) };
    Ok((overlap::predecessor(config, address).await, Some(turn)))
}

/// Creates the stores, for the buckets that `predecessor` will send, or with those that an earlier process has left in a file.
fn start_stores(config: &Config, predecessor: Option<&Predecessor>) -> Arc<SharedStores> {
    if let Some(predecessor) = predecessor {
        return SharedStores::with_hash_key(config, Some(predecessor.hash_key));
    }
    let Some(left) = buckets::read(config) else { return SharedStores::new(config) };
    let stores = SharedStores::with_hash_key(config, buckets::hash_key(&left));
    buckets::restore(&stores, &left, buckets::path(config));
    stores
}

/// Starts the export of spans, if traces are on. Returns its queue, and the sampler of a worker.
fn start_traces(config: &Config) -> io::Result<(Option<SpanQueue>, Option<Tracing>)> {
    let Some(traces) = &config.management.traces else { return Ok((None, None)) };
    let spans = SpanQueue::start(traces)?;
    Ok((Some(spans.clone()), Some(Tracing::new(traces, spans))))
}

fn open_access_log(config: &Config) -> Result<Option<LogWriter>, StartError> {
    let target = match &config.access_log.output {
        LogOutput::Off => return Ok(None),
        LogOutput::Stdout => Target::Stdout,
        LogOutput::File(path) => Target::File(path.clone()),
    };
    let options = LogOptions {
        name: "access-log",
        max_queued_bytes: ACCESS_LOG_QUEUE_BYTES,
        is_gateway_log: false,
        on_tick: || {},
    };
    LogWriter::start(target, options).map(Some).map_err(|source| match &config.access_log.output {
        LogOutput::File(path) => StartError::AccessLog { path: path.clone(), source },
        _ => StartError::System(source),
    })
}

/// Starts one thread per listener. The workers share `server.max-connections`, and refuse connections to the admin port at
/// `refused`. Returns the threads, their beats, and a channel that is closed when every worker has started.
fn start_workers(
    listeners: Vec<(Vec<Listener<TcpListener>>, top_keys::Queries)>,
    admin: &Arc<AdminState>,
    refused: Option<SocketAddr>,
    tracing: Option<&Tracing>,
    (generation, orders): (watch::Receiver<Arc<SharedGeneration>>, watch::Receiver<Order>),
) -> io::Result<(Vec<WorkerThread>, Beats, mpsc::Receiver<Infallible>)> {
    let max_connections = admin.config.load().server.max_connections().get();
    let max_connections = descriptors::client_connections(max_connections, listeners.len());
    let gate = Gate::new(max_connections, listeners.len(), Arc::clone(&admin.connections));
    let (starting, started) = mpsc::channel(1);
    let beats: Beats = listeners.iter().map(|_| Arc::default()).collect();
    let threads = listeners.into_iter().zip(&beats).enumerate().map(|(number, ((listeners, top_queries), beat))| {
        let worker = Worker {
            number,
            listeners,
            beat: Arc::clone(beat),
            gate: gate.clone(),
            starting: starting.clone(),
            generation: generation.clone(),
            orders: orders.clone(),
            stores: Arc::clone(&admin.stores),
            upstreams: Arc::clone(&admin.upstreams),
            metrics: Arc::clone(&admin.metrics),
            tracing: tracing.cloned(),
            log: admin.log.clone(),
            top_queries,
            refused,
            own_endpoints: Box::new({
                let admin = Arc::clone(admin);
                move || on_traffic::service(admin)
            }),
        };
        std::thread::Builder::new().name(format!("worker-{number}")).spawn(move || worker.run())
    });
    let threads = threads.collect::<io::Result<_>>()?;
    Ok((threads, beats, started))
}

/// Removes full buckets from memory periodically, and reports limiters without room for new keys.
async fn sweep(stores: Arc<SharedStores>) {
    let memory = &stores.memory;
    let shards = memory.shards();
    let pause = SWEEP_EVERY / u32::try_from(shards).unwrap_or(u32::MAX);
    loop {
        for shard in 0..shards {
            tokio::time::sleep(pause).await;
            memory.sweep_shard(shard);
            stores.clock.follow_wall_clock();
        }
        for (limiter, decisions) in memory.report_overflows() {
            tracing::warn!(%limiter, decisions, "no room for new keys in memory: they share buckets, see memory.max-keys");
        }
    }
}
