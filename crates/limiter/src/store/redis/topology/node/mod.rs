//! One server: its connections, and whether calls may be sent to it.

mod address;
mod supervisor;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use parking_lot::Mutex;
use redis::ConnectionAddr;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

pub(crate) use self::address::{Address, AddressWatch, PublishedAddress};
use crate::store::redis::breaker::{Breaker, BreakerState, Breakers};
use crate::store::redis::connection::{ConnectionContext, ConnectionSlot, LiveConnection};
use crate::store::redis::error::StoreError;

/// A server that keeps keys: a fixed one, or the current primary.
pub(crate) struct Node {
    /// Name in logs and metrics: `host:port`, or the primary's name in the Sentinels' configuration.
    pub(crate) name: String,
    pub(crate) address: Address,
    pub(crate) slots: Box<[ConnectionSlot]>,
    /// Shared with the clients of other workers.
    pub(crate) breaker: Arc<Breaker>,
    context: Arc<ConnectionContext>,
    /// True if the server runs no scripts, as far as known.
    no_scripts: AtomicBool,
    /// True if an attempt to connect has succeeded or failed.
    attempted: AtomicBool,
    last_error: Mutex<Option<(StoreError, String)>>,
    /// Reasons logged since a connection was live, one bit each.
    logged: AtomicU32,
    next_slot: AtomicUsize,
    tasks: Mutex<Vec<AbortHandle>>,
}

/// Status of one server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NodeStatus {
    /// `host:port`, or the primary's name in the Sentinels' configuration.
    pub name: String,
    /// Address of the primary that Sentinels name; `None` before the first, and without Sentinels.
    pub primary: Option<String>,
    /// Number of live connections.
    pub live_connections: usize,
    /// State of the circuit breaker.
    pub breaker: BreakerState,
    /// Last connection error, without secrets; `None` while a connection is live.
    pub last_error: Option<String>,
}

impl Node {
    /// Creates a node with `connections`, and starts to connect in tasks of `runtime`. With `waits`, calls wait for the first
    /// attempt.
    pub(crate) fn start(
        name: String,
        address: Address,
        (connections, waits): (usize, bool),
        breakers: &Breakers,
        context: &Arc<ConnectionContext>,
        runtime: &Handle,
    ) -> Arc<Self> {
        let node = Arc::new(Self {
            breaker: breakers.get_or_create(&name),
            name,
            address,
            slots: (0..connections).map(|_| ConnectionSlot::new(waits)).collect(),
            context: Arc::clone(context),
            no_scripts: AtomicBool::new(false),
            attempted: AtomicBool::new(false),
            last_error: Mutex::default(),
            logged: AtomicU32::new(0),
            next_slot: AtomicUsize::new(0),
            tasks: Mutex::default(),
        });
        for slot in 0..connections {
            node.add_task(runtime.spawn(supervisor::run(Arc::clone(&node), slot)).abort_handle());
        }
        node
    }

    /// Returns true if the first attempt to connect has succeeded or failed.
    pub(crate) fn was_attempted(&self) -> bool {
        self.attempted.load(Ordering::Relaxed)
    }

    /// Returns true if the server runs no scripts, as far as known.
    pub(crate) fn lacks_scripts(&self) -> bool {
        self.no_scripts.load(Ordering::Relaxed)
    }

    pub(crate) fn set_lacks_scripts(&self, lacks_scripts: bool) {
        self.no_scripts.store(lacks_scripts, Ordering::Relaxed);
    }

    /// Host of a fixed TCP address.
    pub(crate) fn host(&self) -> Option<&str> {
        let Address::Fixed(info) = &self.address else { return None };
        match info.addr() {
            ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } => Some(host),
            _ => None,
        }
    }

    /// Returns the index of a slot with a live connection, chosen in turn, and the connection.
    pub(crate) fn live_connection(&self) -> Option<(usize, LiveConnection)> {
        let slots = self.slots.len();
        let first = if slots == 1 { 0 } else { self.next_slot.fetch_add(1, Ordering::Relaxed) };
        (0..slots).map(|n| first.wrapping_add(n) % slots).find_map(|slot| Some((slot, self.live_connection_of(slot)?)))
    }

    fn live_connection_of(&self, slot: usize) -> Option<LiveConnection> {
        let live = self.slots[slot].get()?;
        if live.has_ended() {
            self.record_end(slot, live.id);
            return None;
        }
        Some(live)
    }

    /// Returns true if calls wait for an attempt to connect that is in progress.
    pub(crate) fn is_connecting(&self) -> bool {
        self.slots.iter().any(ConnectionSlot::is_connecting)
    }

    pub(crate) fn live_connections(&self) -> usize {
        self.slots.iter().filter(|slot| slot.is_live()).count()
    }

    /// Reason why no connection is live: that of the last attempt if waiting does not help.
    pub(crate) fn connect_error(&self) -> StoreError {
        match *self.last_error.lock() {
            Some((kind @ (StoreError::Auth | StoreError::NoPerm | StoreError::Tls), _)) => kind,
            _ => StoreError::Disconnected,
        }
    }

    /// Requests a new query of the Sentinels: the server may no longer be the primary.
    pub(crate) fn refresh_address(&self) {
        if let Address::Published(address) = &self.address {
            address.request_refresh();
        }
    }

    /// Gives up the connection `id`. Without any connection the breaker opens at once.
    pub(crate) fn drop_connection(&self, slot: usize, id: u64) {
        self.remove_connection(slot, id, false);
    }

    /// Removes the connection `id`, whose stream has ended. Servers and proxies close idle connections, so the breaker
    /// stays closed until an attempt to reconnect fails.
    pub(crate) fn record_end(&self, slot: usize, id: u64) {
        self.remove_connection(slot, id, true);
    }

    fn remove_connection(&self, slot: usize, id: u64, ended: bool) {
        if self.slots[slot].remove(id, ended) {
            // Notices of returned tokens may have been missed.
            self.context.invalidations.invalidate_all();
            self.context.notify_change();
            if self.live_connections() == 0 {
                if !self.is_connecting() {
                    self.breaker.open(StoreError::Disconnected);
                }
                self.context.refresh_slots();
            }
        }
    }

    /// Records a new connection.
    fn record_connected(&self) {
        self.attempted.store(true, Ordering::Relaxed);
        self.set_lacks_scripts(false);
        self.context.stats.connects.increment();
        self.context.notify_change();
        self.breaker.probe_now();
        self.logged.store(0, Ordering::Relaxed);
        if self.last_error.lock().take().is_some() {
            tracing::info!(node = %self.name, "reconnected to redis");
        }
    }

    /// Records a failed attempt to connect. Each reason is logged once in an outage: Sentinels and the server may fail in
    /// turn for different reasons.
    pub(crate) fn record_connect_error(&self, kind: StoreError, detail: &str) {
        *self.last_error.lock() = Some((kind, detail.to_owned()));
        let bit = 1 << kind as usize;
        let is_new = self.logged.fetch_or(bit, Ordering::Relaxed) & bit == 0;
        self.attempted.store(true, Ordering::Relaxed);
        self.context.notify_change();
        if self.live_connections() == 0 {
            self.breaker.open(kind);
        }
        if is_new {
            let hint = matches!(kind, StoreError::Auth | StoreError::NoPerm | StoreError::Tls);
            let settings = (self.context.advice)(kind).filter(|_| hint);
            let hint = hint.then(|| kind.to_string());
            tracing::warn!(
                node = %self.name, reason = kind.as_str(), error = detail, hint, settings,
                "cannot connect to redis, retrying"
            );
        }
    }

    /// Keeps the handle of a background task until [`shutdown`](Self::shutdown).
    pub(crate) fn add_task(&self, task: AbortHandle) {
        self.tasks.lock().push(task);
    }

    /// Closes the connections for good. The breaker stays as it is: the client's successor may share it.
    pub(crate) fn shutdown(&self) {
        self.tasks.lock().drain(..).for_each(|task| task.abort());
        self.slots.iter().for_each(ConnectionSlot::set_down);
    }
}

impl NodeStatus {
    pub(crate) fn of(node: &Node) -> Self {
        Self {
            name: node.name.clone(),
            primary: match &node.address {
                Address::Published(address) => address.current().map(|address| address.to_string()),
                Address::Fixed(_) => None,
            },
            live_connections: node.live_connections(),
            breaker: node.breaker.state(),
            last_error: node.last_error.lock().as_ref().map(|(_, text)| text.clone()),
        }
    }
}
