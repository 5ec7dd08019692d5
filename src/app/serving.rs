//! Begin to serve: the last step of the start. Sockets listen only now, so a process that fails before resets no connection.

use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::admin::AdminState;
use crate::app::buckets;
use crate::app::handover::Predecessor;
use crate::app::overlap::{self, Turn};
use crate::app::service_manager;
use crate::app::sockets::SocketsError;
use crate::app::start::StartError;
use tollgate_config::{Config, Target};
use tollgate_proxy::server::accept::Order;
use tollgate_proxy::server::listener;
use tollgate_routing::Predicate;
use tollgate_transport::executor::spawn_boxed;

/// Started process that accepts no connection yet.
pub(super) struct Waiting {
    /// Closed when every worker has started.
    pub(super) started: mpsc::Receiver<Infallible>,
    /// Process that hands over.
    pub(super) predecessor: Option<Predecessor>,
    /// Turn among the processes that share the ports.
    pub(super) turn: Option<Turn>,
    /// Receiver of the connections of processes that take over from this one.
    pub(super) offers: mpsc::Sender<tokio::net::UnixStream>,
    /// Duplicates of the sockets, with their settings.
    pub(super) sockets: Vec<(&'static str, TcpListener)>,
    pub(super) orders: watch::Sender<Order>,
    pub(super) admin_open: watch::Sender<bool>,
    pub(super) admin: Arc<AdminState>,
    pub(super) addresses: Addresses,
}

/// Addresses that the process serves.
#[derive(Clone, Copy)]
pub(super) struct Addresses {
    pub(super) traffic: SocketAddr,
    /// Address without TLS beside the one with TLS.
    pub(super) plain: Option<SocketAddr>,
    pub(super) admin: Option<SocketAddr>,
}

impl Waiting {
    /// Serves when every worker has started, and the process before has handed over.
    ///
    /// # Errors
    /// The process before goes on, or another one has taken an address meanwhile.
    pub(super) async fn serve(mut self) -> Result<(), StartError> {
        let None = self.started.recv().await;
        self.take_over().await?;
        for (setting, socket) in self.sockets {
            listener::listen(&socket).map_err(|source| {
                let address = socket.local_addr().unwrap_or(self.addresses.traffic);
                SocketsError::Listen { address, setting, remedy: "", source }
            })?;
        }
        self.orders.send_if_modified(|order| {
            // The process may drain already.
            let waits = matches!(order, Order::Wait);
            if waits {
                *order = Order::Serve;
            }
            waits
        });
        self.admin_open.send_replace(true);
        self.admin.ready.store(true, Relaxed);
        let config = self.admin.config.load_full();
        announce(self.addresses, &config);
        if let Some(offering) = overlap::offer(&config, self.addresses.traffic, self.offers) {
            spawn_boxed(offering);
        }
        // After SIGUSR2, the process before reports this one, which is of the same unit.
        if self.turn.is_some() || self.predecessor.is_none() {
            service_manager::ready();
        }
        if let Some(predecessor) = self.predecessor {
            predecessor.report_serving().await;
        }
        // The next process has its turn now, and finds this one.
        drop(self.turn);
        Ok(())
    }

    /// Takes the buckets over from the process before. One beside this one that has not handed over is asked again.
    ///
    /// # Errors
    /// It goes on itself.
    async fn take_over(&mut self) -> Result<(), StartError> {
        let config = self.admin.config.load_full();
        let timeout = config.server.handover_timeout.get();
        let started = Instant::now();
        while let Some(predecessor) = &mut self.predecessor {
            let error = match predecessor.take_over(timeout).await {
                Ok(snapshot) if snapshot.is_empty() => return Ok(()),
                Ok(snapshot) => {
                    buckets::restore(&self.admin.stores, &snapshot, None);
                    return Ok(());
                }
                Err(error) => error,
            };
            let again = match error.kind() {
                io::ErrorKind::TimedOut => None,
                _ if self.turn.is_none() => None,
                _ => overlap::predecessor(&config, self.addresses.traffic).await,
            };
            match again {
                Some(_) if started.elapsed() >= timeout => return Err(StartError::NotHandedOver),
                Some(again) => self.predecessor = Some(again),
                None => {
                    tracing::warn!(%error, "the process before has ended during the handover, or does not respond: serving in its place");
                    // It may have left them in the file.
                    if let Some(left) = buckets::read(&config) {
                        buckets::restore(&self.admin.stores, &left, buckets::path(&config));
                    }
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

fn announce(Addresses { traffic: address, plain, admin }: Addresses, config: &Config) {
    let admin_scheme = if config.management.tls.is_some() { "https" } else { "http" };
    let admin = admin.map(|address| format!("{admin_scheme}://{address}"));
    let admin_socket = config.management.socket.as_ref().map(|socket| socket.path.display().to_string());
    let scheme = if config.server.tls.is_some() { "https" } else { "http" };
    tracing::info!(
        workers = config.server.workers().get(),
        routes = config.routes.len(),
        limits = if config.redis.is_some() { "redis" } else { "memory" },
        admin = admin.as_deref().unwrap_or("off"),
        admin_socket,
        http = plain.map(|address| format!("http://{address}")),
        "listening on {scheme}://{address}"
    );
    if let Some(path) = example_path(config) {
        tracing::info!("try: curl -i {scheme}://localhost:{}{path}", address.port());
    }
}

/// Returns a path of the built-in demo upstream, for a `curl` example.
fn example_path(config: &Config) -> Option<String> {
    let demo = config.routes.iter().find(|route| route.uri == Target::Echo)?;
    let patterns = demo.predicates.iter().find_map(Predicate::path_patterns)?;
    let path = patterns.first()?.to_string().replace("**", "hello");
    (!path.contains(['*', '?', '{'])).then_some(path)
}
