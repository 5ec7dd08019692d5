//! Parts of the running process that reload and drain need.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::net::UnixStream;
use tokio::sync::{mpsc, watch};
use tollgate_acme::Certificates;
use tollgate_config::Config;

use crate::admin::socket::SocketFile;
use crate::admin::{AdminState, ReloadRequests};
use crate::app::reader::Reader;
use crate::app::sockets::Sockets;
use tollgate_discovery::Registrations;
use tollgate_proxy::gateway::SharedGeneration;
use tollgate_proxy::server::accept::Order;
#[cfg(feature = "jwt")]
use tollgate_proxy::state::jwks::JwksRefresher;
use tollgate_proxy::state::redis_monitor::Metering;
use tollgate_proxy::state::redis_monitor::RedisMonitor;
use tollgate_proxy::upstream::balance::UpstreamManager;
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
