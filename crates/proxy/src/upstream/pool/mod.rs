//! Upstream connection pool for one origin and one worker. A request reaches its socket without a lock or a task in
//! between.

mod connection;
mod dial;
pub mod http1;
mod http2;
mod kept;
mod name_lookup;
mod pool_settings;
mod read_hook;
mod waiting;
mod watch;

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore, TryAcquireError};

pub use self::connection::{Connection, Sender};
pub use self::dial::ConnectError;
use self::dial::{NewConnection, handshake};
use self::http2::Http2Connections;
pub(in crate::upstream) use self::http2::SendError;
use self::name_lookup::NameLookup;
pub use self::pool_settings::PoolSettings;
use crate::upstream::origin::Origin;
use tollgate_config::{Http2, Leasing};
use tollgate_transport::tls::TlsConnectors;

/// Connections of one worker to one origin.
#[derive(Debug)]
pub struct Pool {
    origin: Origin,
    address: Option<SocketAddr>,
    settings: Rc<RefCell<PoolSettings>>,
    idle: RefCell<VecDeque<Box<Connection>>>,
    http2: Http2Connections,
    /// Held while a connection that others may share is established, so that they wait for it.
    connecting: Mutex<()>,
    /// True after ALPN, when the server chose HTTP/1.1.
    is_http1: Cell<bool>,
    /// Limit of connections in use, with its semaphore.
    slots: RefCell<Option<(usize, Arc<Semaphore>)>>,
    /// Requests that wait for a place. While there is one, no upload outlives its response.
    waiting: WaitingCount,
    tls: OnceCell<TlsConnectors>,
    names: Rc<NameLookup>,
    /// HTTP/1.1 connections established before this second are checked before they are kept: they may be too old, or their
    /// address may be gone. A comparison with it costs each request less than the checks.
    checked_before_secs: Cell<u64>,
    /// Seconds since the pool was created, advanced by [`Pool::tick`]. Reading a clock for each request would cost more.
    now_secs: Cell<u64>,
}

/// Number of requests that wait for a place among the connections.
type WaitingCount = tokio::sync::watch::Sender<usize>;

/// Request that waits for a place, counted until it is dropped.
struct WaitingRequest<'p>(&'p WaitingCount);

impl<'p> WaitingRequest<'p> {
    fn new(waiting: &'p WaitingCount) -> Self {
        waiting.send_modify(|count| *count += 1);
        Self(waiting)
    }
}

impl Drop for WaitingRequest<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

impl Pool {
    /// Creates an empty pool.
    #[must_use]
    pub fn new(origin: Origin, settings: Rc<RefCell<PoolSettings>>) -> Rc<Self> {
        let address =
            origin.address.or_else(|| origin.host.parse::<IpAddr>().ok()).map(|ip| SocketAddr::new(ip, origin.port));
        let pool = Self {
            origin,
            address,
            settings,
            idle: RefCell::default(),
            http2: Http2Connections::default(),
            connecting: Mutex::default(),
            is_http1: Cell::new(false),
            slots: RefCell::default(),
            waiting: WaitingCount::default(),
            tls: OnceCell::new(),
            names: Rc::default(),
            checked_before_secs: Cell::new(0),
            now_secs: Cell::new(0),
        };
        pool.resize();
        Rc::new(pool)
    }

    /// Returns the origin of its connections.
    #[must_use]
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Returns the maximum number of fields in a response head.
    #[must_use]
    pub fn max_head_fields(&self) -> usize {
        self.settings.borrow().max_head_fields
    }

    /// Returns true if it keeps an idle or shared connection.
    #[must_use]
    pub fn has_connections(&self) -> bool {
        !self.idle.borrow().is_empty() || !self.http2.is_empty()
    }

    /// Returns an open connection that can take a request now. If `upgrades` is true, it can switch protocols, which
    /// HTTP/2 cannot.
    pub fn take_idle(&self, upgrades: bool) -> Option<Box<Connection>> {
        if !upgrades && !self.http2.is_empty() {
            let stream = self.http2.stream(self.now_secs.get(), self.settings.borrow().max_life_secs);
            if stream.is_some() {
                return stream;
            }
        }
        let permit = self.try_permit().ok()?;
        let mut connection = self.take_ready()?;
        connection.permit = permit;
        Some(connection)
    }

    /// Acquires a permit for a connection without waiting; `None` if connections are unlimited.
    fn try_permit(&self) -> Result<Option<OwnedSemaphorePermit>, TryAcquireError> {
        self.slots.borrow().as_ref().map(|(_, slots)| Arc::clone(slots).try_acquire_owned()).transpose()
    }

    fn take_ready(&self) -> Option<Box<Connection>> {
        let mut idle = self.idle.borrow_mut();
        let newest = self.settings.borrow().leasing == Leasing::Newest;
        loop {
            let mut connection = if newest { idle.pop_back() } else { idle.pop_front() }?;
            if connection.is_usable() {
                return Some(connection);
            }
        }
    }

    /// Establishes a connection, or returns one that another request established or released meanwhile.
    ///
    /// # Errors
    /// See [`ConnectError`]. It takes at most twice `connect_timeout` plus the configured times for acquiring and for TLS.
    pub async fn connect(&self, connect_timeout: Duration, upgrades: bool) -> Result<Box<Connection>, ConnectError> {
        if self.may_share(upgrades) {
            let _turn = tokio::time::timeout(connect_timeout, self.connecting.lock())
                .await
                .map_err(|_| ConnectError::Timeout)?;
            let shared = self.http2.stream(self.now_secs.get(), self.settings.borrow().max_life_secs);
            if let Some(stream) = shared {
                return Ok(stream);
            }
            // The server may have chosen its protocol meanwhile.
            if self.may_share(upgrades)
                && let Ok(permit) = self.try_permit()
            {
                return self.establish(connect_timeout, true, permit).await;
            }
        }
        let permit = tokio::select! {
            biased;
            stream = self.shared_stream(upgrades) => return Ok(stream),
            permit = self.permit() => permit?,
        };
        if permit.is_some()
            && let Some(mut connection) = self.take_ready()
        {
            connection.permit = permit;
            return Ok(connection);
        }
        self.establish(connect_timeout, self.may_share(upgrades), permit).await
    }

    /// Waits for a stream of an HTTP/2 connection; forever, if the request cannot use one.
    async fn shared_stream(&self, upgrades: bool) -> Box<Connection> {
        if !self.may_share(upgrades) {
            return std::future::pending().await;
        }
        self.http2
            .waiting
            .wait(|| self.http2.open_stream(self.now_secs.get(), self.settings.borrow().max_life_secs))
            .await
    }

    /// Returns true if a new connection may speak HTTP/2.
    fn may_share(&self, upgrades: bool) -> bool {
        let may_be_http2 = match (&self.origin.tls, self.origin.http2) {
            (_, Http2::Off) | (None, Http2::Auto) => false,
            (None, Http2::PriorKnowledge) => true,
            // The server chooses in the TLS handshake (ALPN, RFC 7301).
            (Some(_), Http2::Auto | Http2::PriorKnowledge) => !self.is_http1.get(),
        };
        may_be_http2 && !upgrades
    }

    async fn establish(
        &self,
        connect_timeout: Duration,
        offers_http2: bool,
        permit: Option<OwnedSemaphorePermit>,
    ) -> Result<Box<Connection>, ConnectError> {
        let settings = self.settings.borrow().clone();
        let dialing = dial::dial(&self.origin, self.address, &settings, &self.names);
        let (stream, peer) =
            tokio::time::timeout(connect_timeout, dialing).await.map_err(|_| ConnectError::Timeout)??;
        let tls = self.connectors()?;
        let established =
            handshake(stream, &self.origin, tls, offers_http2, &settings, self.http2.slot(permit)).await?;
        let now_secs = self.now_secs.get();
        Ok(match established {
            NewConnection::Http1(sender, permit) => {
                self.is_http1.set(offers_http2 || self.is_http1.get());
                let mut connection = Connection::new(Sender::Http1(sender), now_secs, permit);
                connection.peer = peer;
                connection
            }
            NewConnection::Http2(streams) => self.http2.add(streams, peer, now_secs, settings.max_idle > 0),
        })
    }

    /// Acquires a permit for a connection, if connections are limited.
    async fn permit(&self) -> Result<Option<OwnedSemaphorePermit>, ConnectError> {
        let Some(slots) = self.slots.borrow().as_ref().map(|(_, slots)| Arc::clone(slots)) else { return Ok(None) };
        let timeout = self.settings.borrow().acquire_timeout;
        let _waiting = WaitingRequest::new(&self.waiting);
        let acquired = tokio::time::timeout(timeout, slots.acquire_owned()).await;
        acquired.ok().and_then(Result::ok).map(Some).ok_or(ConnectError::Exhausted)
    }

    fn connectors(&self) -> Result<Option<&TlsConnectors>, ConnectError> {
        let Some(tls) = &self.origin.tls else { return Ok(None) };
        if let Some(connectors) = self.tls.get() {
            return Ok(Some(connectors));
        }
        let connectors = TlsConnectors::new(tls, &self.origin.host).map_err(ConnectError::Tls)?;
        Ok(Some(self.tls.get_or_init(|| connectors)))
    }
}
