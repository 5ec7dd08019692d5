//! Parts of the running process that reload and drain need, the routes of `discovery.locator`, and the limit on file
//! descriptors.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, watch};

use crate::admin::socket::SocketFile;
use crate::admin::{AdminState, ReloadError, ReloadRequests};
use crate::app::reader::Reader;
use crate::app::sockets::Sockets;
use crate::app::source::{Source, located, with_services};
use tollgate_acme::Certificates;
use tollgate_config::{Config, Loaded};
use tollgate_discovery::Registrations;
use tollgate_proxy::gateway::SharedGeneration;
use tollgate_proxy::server::accept::Order;
#[cfg(feature = "jwt")]
use tollgate_proxy::state::jwks::JwksRefresher;
use tollgate_proxy::state::redis_monitor::{Metering, RedisMonitor};
use tollgate_proxy::upstream::balance::{UpstreamManager, Upstreams};
use tollgate_telemetry::log_writer::LogWriter;
use tollgate_telemetry::otlp::SpanQueue;
use tollgate_transport::executor::OwnedTask;

/// Thread of a worker. It returns the number of connections that it closed at the end.
pub(super) type WorkerThread = JoinHandle<io::Result<usize>>;

/// Reason for which the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// A signal.
    ShutDown,
    /// Another process has taken the listening sockets, or listens beside this one.
    HandedOver {
        /// Number of the process that has the same sockets. This one has started it.
        successor: Option<u32>,
    },
}

/// A started gateway, as the main thread sees it.
pub(super) struct Process {
    /// The running configuration.
    pub(super) config: watch::Sender<Arc<Config>>,
    /// The same in the form that the workers serve.
    pub(super) generation: watch::Sender<Arc<SharedGeneration>>,
    /// Thread that read the running configuration.
    pub(super) reader: Reader,
    /// Orders to the workers.
    pub(super) orders: watch::Sender<Order>,
    pub(super) sockets: Sockets,
    /// Connections of processes that listen beside this one and take over.
    pub(super) offers: mpsc::Receiver<UnixStream>,
    /// Notifies the watchdog of the service manager.
    pub(super) watchdog: OwnedTask,
    pub(super) workers: Vec<WorkerThread>,
    pub(super) admin: Arc<AdminState>,
    pub(super) reload_requests: ReloadRequests,
    /// True while this process accepts connections of the admin port.
    pub(super) admin_open: watch::Sender<bool>,
    /// File of the Unix socket, removed at the end.
    pub(super) admin_socket: Option<SocketFile>,
    pub(super) upstreams: UpstreamManager,
    /// Registrations of the gateway in registries.
    pub(super) registrations: Registrations,
    /// Address of the listener for traffic.
    pub(super) listener: SocketAddr,
    #[cfg(feature = "jwt")]
    pub(super) jwks: JwksRefresher,
    pub(super) metering: Metering,
    /// Certificates from an ACME server.
    pub(super) certificates: Certificates,
    pub(super) redis_monitor: RedisMonitor,
    /// Finished traces; `None` if traces are off.
    pub(super) spans: Option<SpanQueue>,
    /// Access log, unless it is off.
    pub(super) log: Option<LogWriter>,
}

/// Descriptors of the process: signals, logs, the admin port and its clients.
const PROCESS_DESCRIPTORS: u64 = 16;
/// Descriptors of each worker: runtime, listener, connections to Redis.
const WORKER_DESCRIPTORS: u64 = 8;

/// Returns the number of client connections that `workers` may hold together: `wanted`, or fewer if the limit on open
/// files is too low. Half of the descriptors are kept for upstream connections. Raises the soft limit to the hard one.
pub(super) fn client_connections(wanted: usize, workers: usize) -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let limit = if setrlimit(Resource::Nofile, raised).is_ok() { limit.maximum } else { limit.current };
    let workers = u64::try_from(workers).unwrap_or(u64::MAX);
    let possible = limit.map_or(usize::MAX, |limit| affordable(limit, workers));
    if possible < wanted {
        tracing::info!(
            connections = possible,
            "open file limit is lower than `server.max-connections` needs: raise it with `ulimit -n`"
        );
    }
    wanted.min(possible)
}

/// Returns the number of clients, at two descriptors each (client and upstream), at least 1.
fn affordable(limit: u64, workers: u64) -> usize {
    let reserved = PROCESS_DESCRIPTORS.saturating_add(WORKER_DESCRIPTORS.saturating_mul(workers));
    usize::try_from(limit.saturating_sub(reserved) / 2).unwrap_or(usize::MAX).max(1)
}

/// Time between a change of the services in the registries and the update of the routes, which then applies all changes.
const LOCATE_DELAY: Duration = Duration::from_millis(200);

impl Process {
    /// Adds and removes routes of `discovery.locator` after the services in the registries have changed.
    pub(super) async fn locate(&mut self, source: &Source) {
        // Services that start together come in one step.
        tokio::time::sleep(LOCATE_DELAY).await;
        let Some(locator) = self.config.borrow().locator.clone() else { return };
        let (services, command_line) = (self.upstreams.services().clone(), source.command_line());
        let count = services.len();
        let load = move || tollgate_config::load_with_services(&locator, &services, &command_line);
        let reader = match Reader::start() {
            Ok(reader) => reader,
            Err(error) => {
                tracing::error!(%error, "routes of the registries not changed: no thread can be created");
                return;
            }
        };
        match reader.run(load).await {
            Ok(Loaded { config, .. }) => {
                let config = self.apply(config, None, reader).await;
                tracing::info!(services = count, routes = config.routes.len(), "routes of the registries changed");
            }
            Err(error) => {
                tracing::error!("routes of the registries not changed:\n{}", error.render(false));
            }
        }
    }

    /// Returns `config`, which replaces a configuration with routes: if it has none itself, with those of the services that
    /// registries know. The services may be none, but at least one registry has responded.
    pub(super) async fn with_routes(
        &mut self,
        config: Config,
        reader: &Reader,
        source: &Source,
    ) -> Result<Config, ReloadError> {
        if !config.routes.is_empty() || config.means_no_routes || self.config.borrow().routes.is_empty() {
            return Ok(config);
        }
        if config.locator.is_none() {
            self.upstreams.await_no_services();
            return Err(ReloadError::NoRoutes);
        }
        let services = self.upstreams.services_for(&config).await.map_err(ReloadError::NoRegistry)?;
        let command_line = source.command_line();
        Ok(reader.run(move || located(config, &services, &command_line)).await)
    }
}

/// Starts discovery and health checks. The configuration gets the routes of the services that registries know.
pub(super) async fn start_upstreams(
    upstreams: &Arc<Upstreams>,
    loaded: Loaded,
    source: &Source,
) -> (UpstreamManager, Loaded) {
    let mut manager = UpstreamManager::new(Arc::clone(upstreams));
    manager.apply(&loaded.config).await;
    let has_locator = loaded.config.locator.is_some();
    let loaded = with_services(loaded, manager.services(), source);
    if has_locator {
        manager.apply(&loaded.config).await;
    }
    (manager, loaded)
}

/// Refuses a configuration without routes to a process that takes over, as a reload does: an emptied file, or a standard input
/// that has been read.
pub(super) async fn require_routes(config: &Config, upstreams: &mut UpstreamManager) -> Result<(), ReloadError> {
    if !config.routes.is_empty() || config.means_no_routes {
        return Ok(());
    }
    if config.locator.is_none() {
        return Err(ReloadError::NoRoutes);
    }
    upstreams.services_for(config).await.map(drop).map_err(ReloadError::NoRegistry)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_get_half_of_the_remaining_descriptors() {
        assert_eq!(affordable(1024, 2), 496);
        assert_eq!(affordable(40, 1), 8);
        assert_eq!(affordable(10, 1), 1);
        assert_eq!(affordable(u64::MAX, u64::MAX), 1);
    }
}
