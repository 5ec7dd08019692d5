//! Servers of one Redis: a single server, a primary behind Sentinels, or the nodes of a cluster.

mod cluster;
mod node;
#[cfg(feature = "gateway")]
mod probe;
mod sentinel;

use std::sync::Arc;

use redis::ConnectionInfo;
use tokio::runtime::Handle;

use self::cluster::Cluster;
pub(crate) use self::cluster::Redirect;
pub use self::node::NodeStatus;
pub(crate) use self::node::{Address, AddressWatch, Node};
#[cfg(feature = "gateway")]
pub use self::probe::ProbeFailure;
use self::sentinel::SentinelMonitor;
use crate::store::redis::breaker::Breakers;
use crate::store::redis::connection::ConnectionContext;
use crate::store::redis::connection_settings::{RedisSettings, RedisSettingsError, Servers};
use crate::store::redis::error::StoreError;
use crate::store::redis::hash_slot::HashSlot;

/// Servers that keep the keys.
pub(crate) enum Topology {
    /// One server keeps all keys.
    One(Arc<Node>),
    /// Each node keeps the keys of its slots.
    Cluster(Arc<Cluster>),
}

impl Topology {
    /// Starts connecting to the servers of `settings`, in tasks of `runtime`. `info` is the address of a single server.
    pub(crate) fn start(
        settings: &RedisSettings,
        info: Option<ConnectionInfo>,
        context: &Arc<ConnectionContext>,
        breakers: &Breakers,
        runtime: &Handle,
    ) -> Result<Self, RedisSettingsError> {
        // Without a connection since the start, calls fail immediately.
        let connections = (settings.connections.get(), false);
        let one = |name, address| Node::start(name, address, connections, breakers, context, runtime);
        match (&settings.servers, info) {
            (Servers::Cluster(seeds), _) => {
                Ok(Self::Cluster(Cluster::start(seeds, settings, Arc::clone(context), breakers, runtime)))
            }
            (Servers::Sentinel(sentinel), _) => {
                let monitor = Arc::new(SentinelMonitor::new(settings, sentinel)?);
                let node = one(sentinel.master.clone(), Address::Published(monitor.address()));
                let task = runtime.spawn(monitor.run(Arc::clone(context), Arc::clone(&node)));
                node.add_task(task.abort_handle());
                Ok(Self::One(node))
            }
            (Servers::One(_), Some(info)) => {
                Ok(Self::One(one(info.addr().to_string(), Address::Fixed(Box::new(info)))))
            }
            (Servers::One(_), None) => Err(RedisSettingsError::Unusable("the settings name no server".into())),
        }
    }

    /// Node that keeps the keys of a slot. `slot` is called in a cluster only.
    pub(crate) fn route(&self, slot: impl FnOnce() -> HashSlot) -> Result<Arc<Node>, StoreError> {
        match self {
            Self::One(node) => Ok(Arc::clone(node)),
            Self::Cluster(cluster) => cluster.node(slot()).ok_or(StoreError::ClusterDown),
        }
    }

    /// Target of `redirect` in a cluster, if there is one.
    pub(crate) fn follow(&self, redirect: &Redirect) -> Option<Arc<Node>> {
        match self {
            Self::One(_) => None,
            Self::Cluster(cluster) => cluster.follow(redirect),
        }
    }

    /// Returns the server, if there is only one.
    pub(crate) fn single(&self) -> Option<&Arc<Node>> {
        match self {
            Self::One(node) => Some(node),
            Self::Cluster(_) => None,
        }
    }

    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self, Self::Cluster(_))
    }

    /// Known servers.
    pub(crate) fn nodes(&self) -> Vec<Arc<Node>> {
        match self {
            Self::One(node) => vec![Arc::clone(node)],
            Self::Cluster(cluster) => cluster.nodes(),
        }
    }

    pub(crate) fn status(&self) -> Vec<NodeStatus> {
        match self {
            Self::One(node) => vec![NodeStatus::of(node)],
            Self::Cluster(cluster) => cluster.status(),
        }
    }

    /// Returns true if the first attempt to connect to each server has ended.
    pub(crate) fn was_attempted(&self) -> bool {
        match self {
            Self::One(node) => node.was_attempted(),
            Self::Cluster(cluster) => cluster.was_attempted(),
        }
    }

    /// Returns the reason why a server refused the login or the TLS handshake, so that waiting does not help.
    pub(crate) fn refusal(&self) -> Option<StoreError> {
        self.nodes().iter().map(|node| node.connect_error()).find(|error| *error != StoreError::Disconnected)
    }

    pub(crate) fn shutdown(&self) {
        match self {
            Self::One(node) => node.shutdown(),
            Self::Cluster(cluster) => cluster.shutdown(),
        }
    }
}
