//! The process: starts the workers and the admin port, obeys signals, ends in good order.

mod reload;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;
use std::time::Duration;

use thiserror::Error;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

use crate::admin::{self, AdminState};
use crate::app::descriptors;
use crate::app::worker::{Orders, Worker};
use crate::server::listener;
#[cfg(feature = "jwt")]
use crate::state::jwks::KeyKeeper;
use crate::state::metering::Metering;
use crate::state::redis_monitor::RedisWatch;
use crate::state::stores::SharedLimits;
use crate::telemetry::log_writer::LogWriter;
use crate::telemetry::metrics::Metrics;
use crate::upstream::balance::{UpstreamManager, Upstreams};
use tollgate_config::{Config, LogOutput, Target};
use tollgate_routing::Predicate;

/// How often the buckets in memory are rid of those that are full again, a shard at a time.
const SWEEP_EVERY: Duration = Duration::from_secs(10);

/// Why the gateway could not start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StartError {
    /// An address is taken or not ours.
    #[error("cannot listen on {address} (`{setting}`): {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The setting that names it.
        setting: &'static str,
        /// What the system says.
        source: io::Error,
    },
    /// The access log's file cannot be opened.
    #[error("cannot open the access log {} (`access-log.output`): {source}", path.display())]
    AccessLog {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A thread, runtime or signal handler could not be had.
    #[error("cannot start: {0}")]
    System(#[from] io::Error),
}

/// Where the configuration comes from: what a reload reads again.
#[derive(Clone, Debug)]
pub enum Source {
    /// A file.
    File {
        /// Where it is.
        path: PathBuf,
        /// The profiles that the command line names.
        profiles: Option<String>,
    },
    /// A text in the binary, which never changes.
    Embedded,
}

/// Runs the gateway until a signal ends it.
///
/// # Errors
/// It could not start. Nothing is listening then.
pub fn run(source: &Source, config: Config) -> Result<(), StartError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, serve(source, config))
}

async fn serve(source: &Source, config: Config) -> Result<(), StartError> {
    let config = Arc::new(config);
    let mut signals = Signals::new()?;
    let address = SocketAddr::new(config.server.address, config.server.port);
    let listeners = listener::bind(address, config.server.workers.get()).map_err(|source| StartError::Listen {
        address,
        setting: "server.port",
        source,
    })?;
    let address = listeners[0].local_addr()?;
    let log = LogWriter::start(&config.access_log.output).map_err(|source| match &config.access_log.output {
        LogOutput::File(path) => StartError::AccessLog { path: path.clone(), source },
        _ => StartError::System(source),
    })?;
    let (log, log_thread) = log.map_or((None, None), |(log, thread)| (Some(log), Some(thread)));
    let limits = SharedLimits::new(&config);
    #[cfg(feature = "jwt")]
    let mut keys = KeyKeeper::default();
    #[cfg(feature = "jwt")]
    keys.take_over(config.jwt.as_ref()).await;
    let upstreams = Arc::<Upstreams>::default();
    let mut upstream_manager = UpstreamManager::new(Arc::clone(&upstreams));
    upstream_manager.apply(&config).await;
    let metrics = Arc::new(Metrics::default());
    let (shared, counted) = (Arc::clone(&limits), Arc::clone(&metrics));
    let (state, mut refreshes) =
        AdminState::new(Arc::clone(&config), shared, Arc::clone(&upstreams), counted, log.clone());
    let admin_address = start_admin(&config, &state)?;
    let workers = config.server.workers.get();
    let max_connections = descriptors::client_connections(config.server.max_connections, workers);
    let gate = Arc::new(Semaphore::new(max_connections.min(Semaphore::MAX_PERMITS)));
    let (orders, receiver) = watch::channel(Orders { config: Arc::clone(&config), drain: None });
    let (starting, mut started) = mpsc::channel(1);
    let workers = listeners.into_iter().enumerate().map(|(number, listener)| {
        let worker = Worker {
            number,
            listener,
            gate: Arc::clone(&gate),
            starting: starting.clone(),
            orders: receiver.clone(),
            limits: Arc::clone(&limits),
            upstreams: Arc::clone(&upstreams),
            metrics: Arc::clone(&metrics),
            log: log.clone(),
        };
        std::thread::Builder::new().name(format!("worker-{number}")).spawn(move || worker.run())
    });
    let workers: Vec<JoinHandle<io::Result<usize>>> = workers.collect::<Result<_, _>>()?;
    tokio::task::spawn_local(sweep(Arc::clone(&limits)));
    let metering = Metering::start(&limits, receiver.clone())?;
    let redis_watch = RedisWatch::start(&limits, receiver.clone());
    drop((receiver, starting));
    announce(address, admin_address, &config);
    let starting = Arc::clone(&state);
    tokio::task::spawn_local(async move {
        if started.recv().await.is_none() {
            starting.ready.store(true, Relaxed);
        }
    });

    loop {
        let asked = tokio::select! {
            order = signals.next() => match order {
                Order::Reload => None,
                Order::End => break,
            },
            asked = refreshes.recv() => asked,
        };
        let running = Arc::clone(&orders.borrow().config);
        let config = reload::reload(source, &running, &state, log.as_ref());
        let taken = config.is_some();
        let tell = || asked.map(|asked| asked.send(taken));
        let Some(config) = config else {
            tell();
            continue;
        };
        #[cfg(feature = "jwt")]
        keys.take_over(config.jwt.as_ref()).await;
        upstream_manager.apply(&config).await;
        state.config.store(Arc::clone(&config));
        state.reloads.fetch_add(1, Relaxed);
        orders.send_modify(|orders| orders.config = Arc::clone(&config));
        tracing::info!(routes = config.routes.len(), "reloaded");
        tell();
    }
    drop(refreshes);
    state.draining.store(true, Relaxed);
    redis_watch.leave().await;
    let patience = orders.borrow().config.server.shutdown_timeout;
    tracing::info!(?patience, "draining; a second signal ends at once");
    orders.send_modify(|orders| orders.drain = Some(patience));
    let (done, all_done) = oneshot::channel();
    std::thread::spawn(move || {
        let cut_off: usize = workers.into_iter().filter_map(|worker| worker.join().ok()?.ok()).sum();
        let _ = done.send(cut_off);
    });
    tokio::select! {
        cut_off = all_done => match cut_off {
            Ok(0) => tracing::info!("drained"),
            cut_off => tracing::warn!(connections = cut_off.unwrap_or_default(), "cut off at the end of `server.shutdown-timeout`"),
        },
        () = signals.end() => {
            tracing::warn!("ended by a second signal");
            return Ok(());
        }
    }
    // The last requests are counted when the workers have ended, and not before.
    tokio::select! {
        () = metering.finish() => {}
        () = signals.end() => tracing::warn!("ended by a second signal"),
    }
    state.drop_log();
    drop(log);
    if let Some(thread) = log_thread {
        let _ = thread.join();
    }
    Ok(())
}

fn start_admin(config: &Config, state: &Arc<AdminState>) -> Result<Option<SocketAddr>, StartError> {
    if !config.management.enabled {
        return Ok(None);
    }
    let address = SocketAddr::new(config.management.address, config.management.port);
    let failed = |source| StartError::Listen { address, setting: "management.server.port", source };
    let listener = listener::bind(address, 1).map_err(failed)?.remove(0);
    let bound = listener.local_addr()?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    tokio::task::spawn_local(admin::serve(listener, Arc::clone(state)));
    Ok(Some(bound))
}

fn announce(address: SocketAddr, admin: Option<SocketAddr>, config: &Config) {
    let admin = admin.map(|address| format!("http://{address}"));
    let scheme = if config.server.tls.is_some() { "https" } else { "http" };
    tracing::info!(
        workers = config.server.workers.get(),
        routes = config.routes.len(),
        limits = if config.redis.is_some() { "redis" } else { "memory" },
        admin = admin.as_deref().unwrap_or("off"),
        "listening on {scheme}://{address}"
    );
    if let Some(path) = example_path(config) {
        tracing::info!("try: curl -i {scheme}://localhost:{}{path}", address.port());
    }
}

/// A path that the built-in upstream answers: what to curl in the demo.
fn example_path(config: &Config) -> Option<String> {
    let demo = config.routes.iter().find(|route| route.uri == Target::Echo)?;
    let patterns = demo.predicates.iter().find_map(Predicate::path_patterns)?;
    let path = patterns.first()?.to_string().replace("**", "hello");
    (!path.contains(['*', '?', '{'])).then_some(path)
}

async fn sweep(limits: Arc<SharedLimits>) {
    let memory = limits.memory();
    let shards = memory.shards();
    let pause = SWEEP_EVERY / u32::try_from(shards).unwrap_or(u32::MAX);
    loop {
        for shard in 0..shards {
            tokio::time::sleep(pause).await;
            memory.sweep_shard(shard);
        }
    }
}

enum Order {
    Reload,
    End,
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> Order {
        tokio::select! {
            _ = self.hangup.recv() => Order::Reload,
            _ = self.terminate.recv() => Order::End,
            _ = self.interrupt.recv() => Order::End,
        }
    }

    async fn end(&mut self) {
        while !matches!(self.next().await, Order::End) {}
    }
}
