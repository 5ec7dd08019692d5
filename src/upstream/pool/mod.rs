//! Keep-alive connections to one origin, one pool a worker: no lock, no task between request and socket.

mod connection;
mod dial;

use std::cell::{Cell, RefCell};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use hyper::client::conn::http1::Builder;
use hyper_util::rt::TokioIo;
use thiserror::Error;

pub use self::connection::{Connection, Lease};
use super::origin::Origin;
use crate::deadline::Deadline;

/// Bytes of an answer's head that are still read: past that the upstream is broken (502).
const MAX_HEAD_BYTES: usize = 64 * 1024;

/// What a pool keeps at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolLimits {
    /// Idle connections that are kept.
    pub max_idle: usize,
    /// How long each is.
    pub max_idle_time: Duration,
}

/// The connections of one worker to one origin.
///
/// The one used last is used first, so that a burst's surplus ages and is closed.
#[derive(Debug)]
pub struct Pool {
    origin: Origin,
    address: Option<SocketAddr>,
    limits: Cell<PoolLimits>,
    idle: RefCell<Vec<Idle>>,
    /// Seconds since the pool was made, advanced by [`Pool::tick`]: reading a clock for each request would cost more.
    now_secs: Cell<u64>,
}

#[derive(Debug)]
struct Idle {
    connection: Connection,
    since_secs: u64,
}

/// Why there is no connection.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The name has no address.
    #[error("cannot resolve the upstream's name")]
    Resolve(#[source] io::Error),
    /// Nobody listens, or the way is barred.
    #[error("cannot connect to the upstream")]
    Connect(#[source] io::Error),
    /// Not within the connect timeout.
    #[error("the upstream did not accept the connection in time")]
    Timeout,
    /// The HTTP client refused the connection.
    #[error("cannot speak HTTP with the upstream")]
    Handshake(#[source] hyper::Error),
}

impl Pool {
    /// An empty pool.
    #[must_use]
    pub fn new(origin: Origin, limits: PoolLimits) -> Rc<Self> {
        let address = origin.host.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, origin.port));
        Rc::new(Self { origin, address, limits: Cell::new(limits), idle: RefCell::default(), now_secs: Cell::new(0) })
    }

    /// Where its connections lead.
    #[must_use]
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Takes over limits changed by a reload.
    pub fn set_limits(&self, limits: PoolLimits) {
        self.limits.set(limits);
    }

    /// How many connections are idle.
    #[must_use]
    pub fn idle(&self) -> usize {
        self.idle.borrow().len()
    }

    /// An idle connection that is still open, if there is one.
    pub fn take_idle(&self) -> Option<Connection> {
        let mut idle = self.idle.borrow_mut();
        let mut busy = Vec::new();
        let found = loop {
            let Some(Idle { connection, since_secs }) = idle.pop() else { break None };
            if connection.sender.is_ready() {
                break Some(connection);
            }
            // Given back a moment ago and not yet told so by its task, or closed.
            if !connection.sender.is_closed() {
                busy.push(Idle { connection, since_secs });
            }
        };
        idle.append(&mut busy);
        found
    }

    /// A new connection.
    ///
    /// # Errors
    /// See [`ConnectError`]; never later than `timeout`.
    pub async fn connect(&self, timeout: Duration) -> Result<Connection, ConnectError> {
        let stream = tokio::time::timeout(timeout, dial::dial(&self.origin.host, self.origin.port, self.address))
            .await
            .map_err(|_| ConnectError::Timeout)??;
        let (mut sender, connection) = Builder::new()
            .max_header_size(MAX_HEAD_BYTES)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(ConnectError::Handshake)?;
        tokio::task::spawn_local(async move {
            // Its requests learn of its errors; what comes on an idle connection ends it, unseen by any request.
            let _ = connection.with_upgrades().await;
        });
        // It says that it is ready once its task has been polled.
        sender.ready().await.map_err(ConnectError::Handshake)?;
        Ok(Connection { sender, deadline: Deadline::default(), reused: false })
    }

    /// A second has passed: closes what was idle for too long.
    pub fn tick(&self) {
        let now = self.now_secs.get() + 1;
        self.now_secs.set(now);
        let max_age = self.limits.get().max_idle_time.as_secs().max(1);
        self.idle.borrow_mut().retain(|idle| now - idle.since_secs <= max_age && !idle.connection.sender.is_closed());
    }

    fn give_back(&self, mut connection: Connection) {
        let mut idle = self.idle.borrow_mut();
        if connection.sender.is_closed() || idle.len() >= self.limits.get().max_idle {
            return;
        }
        connection.deadline.clear();
        connection.reused = true;
        idle.push(Idle { connection, since_secs: self.now_secs.get() });
    }
}
