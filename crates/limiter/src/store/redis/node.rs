//! One server: the connections to it, and whether it is to be asked.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use parking_lot::Mutex;
use redis::{ConnectionAddr, ConnectionInfo};
use tokio::task::AbortHandle;

use super::breaker::Breaker;
use super::error::StoreError;
use super::link::{Link, Live};
use super::primary::Primary;

/// A server that keeps keys, or whichever is the primary at the time.
pub(super) struct Node {
    /// What it is called in logs and metrics: `host:port`, or the name that Sentinels know.
    pub(super) name: String,
    pub(super) address: Address,
    pub(super) links: Box<[Link]>,
    /// Shared with the clients of other workers.
    pub(super) breaker: Arc<Breaker>,
    /// It runs no scripts, as far as is known.
    pub(super) no_scripts: AtomicBool,
    /// Somebody has tried to connect.
    pub(super) attempted: AtomicBool,
    pub(super) last_error: Mutex<Option<(StoreError, String)>>,
    /// Which kinds of errors the log was told of since a connection was live, a bit for each.
    pub(super) told: AtomicU32,
    next_link: AtomicUsize,
    supervisors: Mutex<Vec<AbortHandle>>,
}

/// Where to connect to.
pub(super) enum Address {
    /// Always there.
    Fixed(Box<ConnectionInfo>),
    /// Where Sentinels say.
    Primary(Arc<Primary>),
}

impl Node {
    pub(super) fn new(name: String, address: Address, links: usize, breaker: Arc<Breaker>) -> Self {
        Self {
            name,
            address,
            links: (0..links).map(|_| Link::default()).collect(),
            breaker,
            no_scripts: AtomicBool::new(false),
            attempted: AtomicBool::new(false),
            last_error: Mutex::default(),
            told: AtomicU32::new(0),
            next_link: AtomicUsize::new(0),
            supervisors: Mutex::default(),
        }
    }

    /// Whether the first attempt to connect has succeeded or failed.
    pub(super) fn was_attempted(&self) -> bool {
        self.attempted.load(Ordering::Relaxed)
    }

    /// The host that it is reached at.
    pub(super) fn host(&self) -> Option<&str> {
        let Address::Fixed(info) = &self.address else { return None };
        match info.addr() {
            ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } => Some(host),
            _ => None,
        }
    }

    /// A live connection, the next one in turn, and its place.
    pub(super) fn find_live(&self) -> Option<(usize, Live)> {
        let links = self.links.len();
        let first = if links == 1 { 0 } else { self.next_link.fetch_add(1, Ordering::Relaxed) };
        (0..links).map(|n| first.wrapping_add(n) % links).find_map(|link| Some((link, self.links[link].get()?)))
    }

    pub(super) fn live_connections(&self) -> usize {
        self.links.iter().filter(|link| link.is_live()).count()
    }

    /// Why there is no connection: what the last attempt met, where waiting does not help.
    pub(super) fn why_not_live(&self) -> StoreError {
        match *self.last_error.lock() {
            Some((kind @ (StoreError::Auth | StoreError::NoPerm | StoreError::Tls), _)) => kind,
            _ => StoreError::Disconnected,
        }
    }

    /// Asks again where the primary is, if somebody knows: the one in use may not be it any more.
    pub(super) fn doubt(&self) {
        if let Address::Primary(primary) = &self.address {
            primary.doubt();
        }
    }

    pub(super) fn supervised_by(&self, supervisor: AbortHandle) {
        self.supervisors.lock().push(supervisor);
    }

    /// Closes the connections and makes no more. The breaker does not hear of it: it may be shared with a client that
    /// takes this one's place.
    pub(super) fn shutdown(&self) {
        self.supervisors.lock().drain(..).for_each(|supervisor| supervisor.abort());
        for link in &self.links {
            if let Some(live) = link.get() {
                link.drop_connection(live.number);
            }
        }
    }
}
