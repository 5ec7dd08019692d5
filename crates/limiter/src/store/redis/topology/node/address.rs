//! Addresses of nodes, fixed or published by the Sentinel monitor.

use redis::{ConnectionInfo, RedisResult};
use tokio::sync::futures::Notified;
use tokio::sync::{Notify, watch};

use crate::store::redis::connection::Connector;
use crate::store::redis::connection_settings::HostPort;

/// Address of a node.
pub(crate) enum Address {
    /// An address from the settings or from the cluster.
    Fixed(Box<ConnectionInfo>),
    /// The primary's address.
    Published(std::sync::Arc<PublishedAddress>),
}

/// Address of the current primary: the Sentinel monitor publishes it and nodes watch it.
pub(crate) struct PublishedAddress {
    current: watch::Sender<Option<HostPort>>,
    refresh: Notify,
}

/// A node's view of its address.
pub(crate) enum AddressWatch {
    Fixed(Box<ConnectionInfo>),
    Published(watch::Receiver<Option<HostPort>>),
}

// === impl Address ===

impl Address {
    pub(crate) fn watch(&self) -> AddressWatch {
        match self {
            Self::Fixed(info) => AddressWatch::Fixed(info.clone()),
            Self::Published(address) => AddressWatch::Published(address.current.subscribe()),
        }
    }
}

// === impl PublishedAddress ===

impl Default for PublishedAddress {
    fn default() -> Self {
        Self { current: watch::Sender::new(None), refresh: Notify::new() }
    }
}

impl PublishedAddress {
    /// Current address, once known.
    pub(crate) fn current(&self) -> Option<HostPort> {
        self.current.borrow().clone()
    }

    pub(crate) fn publish(&self, address: HostPort) {
        self.current.send_replace(Some(address));
    }

    /// Requests that the address is checked at once.
    pub(crate) fn request_refresh(&self) {
        self.refresh.notify_one();
    }

    /// Waits for [`request_refresh`](Self::request_refresh).
    pub(crate) fn refresh_requested(&self) -> Notified<'_> {
        self.refresh.notified()
    }
}

// === impl AddressWatch ===

impl AddressWatch {
    /// Parameters of a connection to the current address; waits until an address is known.
    pub(crate) async fn connection_info(&mut self, connector: &Connector) -> RedisResult<ConnectionInfo> {
        match self {
            Self::Fixed(info) => connector.with_current_certificates(info),
            Self::Published(address) => {
                match address.wait_for(Option::is_some).await.ok().and_then(|address| address.clone()) {
                    Some(address) => connector.connection_info(&address),
                    None => std::future::pending().await,
                }
            }
        }
    }

    /// Returns true if the address must be that of a primary.
    pub(crate) fn requires_primary(&self) -> bool {
        matches!(self, Self::Published(_))
    }

    /// Waits until the address differs from the last [`connection_info`](Self::connection_info).
    pub(crate) async fn changed(&mut self) {
        let is_closed = match self {
            Self::Fixed(_) => true,
            Self::Published(address) => address.changed().await.is_err(),
        };
        if is_closed {
            std::future::pending().await
        }
    }

    /// Returns true if the address differs from the last [`connection_info`](Self::connection_info).
    pub(crate) fn has_changed(&self) -> bool {
        matches!(self, Self::Published(address) if address.has_changed().unwrap_or(true))
    }
}
