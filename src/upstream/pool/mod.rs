//! Kept connections to one origin, one pool a worker: no lock, no task between request and socket.

mod connection;
mod dial;
mod error;
mod error_capture;
mod handshake;
mod head_limit;
mod http2;
mod name_lookup;
mod settings;

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};

pub use self::connection::{Connection, Lease, Sender};
pub use self::error::ConnectError;
use self::handshake::{Fresh, Version, handshake};
use self::http2::Http2Connections;
use self::name_lookup::NameLookup;
pub use self::settings::PoolSettings;
use crate::upstream::origin::{Origin, Speaks};
use crate::upstream::tls::Connectors;
use tollgate_config::Leasing;

/// How long a connection that was given back may take to be ready for the next request.
const SOON: Duration = Duration::from_millis(50);

/// The connections of one worker to one origin.
#[derive(Debug)]
pub struct Pool {
    origin: Origin,
    address: Option<SocketAddr>,
    settings: Rc<RefCell<PoolSettings>>,
    idle: RefCell<VecDeque<Idle>>,
    http2: Http2Connections,
    /// Whoever makes a connection that others may share has this, so that they wait for it instead of making more.
    turn: Mutex<()>,
    /// The server was asked, and chose HTTP/1.1.
    is_http1: Cell<bool>,
    /// How many connections may be in use at once, and who may.
    slots: RefCell<Option<(usize, Arc<Semaphore>)>>,
    tls: OnceCell<Connectors>,
    names: NameLookup,
    /// Seconds since the pool was made, advanced by [`Pool::tick`]: reading a clock for each request would cost more.
    now_secs: Cell<u64>,
}

#[derive(Debug)]
struct Idle {
    connection: Connection,
    since_secs: u64,
}

impl Pool {
    /// An empty pool.
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
            turn: Mutex::default(),
            is_http1: Cell::new(false),
            slots: RefCell::default(),
            tls: OnceCell::new(),
            names: NameLookup::default(),
            now_secs: Cell::new(0),
        };
        pool.resize();
        Rc::new(pool)
    }

    /// Where its connections lead.
    #[must_use]
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Whether it has a connection that nobody uses.
    #[must_use]
    pub fn has_connections(&self) -> bool {
        !self.idle.borrow().is_empty() || !self.http2.is_empty()
    }

    /// A connection that is open and can take a request now, if there is one. `upgrades` wants one that can leave
    /// HTTP, which HTTP/2 cannot.
    pub fn take_idle(&self, upgrades: bool) -> Option<Connection> {
        if !upgrades && !self.http2.is_empty() {
            let stream = self.http2.stream(self.now_secs.get(), self.settings.borrow().max_life_secs);
            if stream.is_some() {
                return stream;
            }
        }
        let permit = self.try_permit()?;
        let connection = self.ready_one()?;
        Some(Connection { permit, ..connection })
    }

    /// The right to have a connection, if it is to be had now; none is needed where their number has no limit.
    #[expect(clippy::option_option, reason = "whether there is one, and whether one is needed")]
    fn try_permit(&self) -> Option<Option<OwnedSemaphorePermit>> {
        match &*self.slots.borrow() {
            None => Some(None),
            Some((_, slots)) => Arc::clone(slots).try_acquire_owned().ok().map(Some),
        }
    }

    fn ready_one(&self) -> Option<Connection> {
        let mut idle = self.idle.borrow_mut();
        let newest = self.settings.borrow().leasing == Leasing::Newest;
        let mut busy = Vec::new();
        let found = loop {
            let next = if newest { idle.pop_back() } else { idle.pop_front() };
            let Some(Idle { connection, since_secs }) = next else { break None };
            if connection.is_ready() {
                break Some(connection);
            }
            // Given back a moment ago and not yet told so by its task, or closed.
            if !connection.is_closed() {
                busy.push(Idle { connection, since_secs });
            }
        };
        idle.extend(busy);
        found
    }

    /// A new connection, or one that another request made or gave back while this one waited.
    ///
    /// # Errors
    /// See [`ConnectError`]; never later than twice `timeout` and what the settings allow for waiting and for TLS.
    pub async fn connect(&self, timeout: Duration, upgrades: bool) -> Result<Connection, ConnectError> {
        if self.may_share(upgrades) {
            let turn = tokio::time::timeout(timeout, self.turn.lock()).await.map_err(|_| ConnectError::Timeout)?;
            let shared = self.http2.stream(self.now_secs.get(), self.settings.borrow().max_life_secs);
            if let Some(stream) = shared {
                return Ok(stream);
            }
            // The server may have been asked meanwhile.
            if self.may_share(upgrades) {
                if let Some(permit) = self.try_permit() {
                    return self.make(timeout, Version::Http2, permit).await;
                }
                if let Some(stream) = self.http2.queue() {
                    return Ok(stream);
                }
            }
            drop(turn);
        }
        let permit = self.permit().await?;
        if permit.is_some()
            && let Some(connection) = self.waited_for().await
        {
            return Ok(Connection { permit, ..connection });
        }
        let version = if self.may_share(upgrades) { Version::Http2 } else { Version::Http1 };
        self.make(timeout, version, permit).await
    }

    /// Whether a new connection may speak HTTP/2.
    fn may_share(&self, upgrades: bool) -> bool {
        match self.origin.speaks() {
            Speaks::Http1 => false,
            Speaks::Http2 => !upgrades,
            Speaks::Negotiated => !upgrades && !self.is_http1.get(),
        }
    }

    async fn make(
        &self,
        timeout: Duration,
        version: Version,
        permit: Option<OwnedSemaphorePermit>,
    ) -> Result<Connection, ConnectError> {
        let settings = self.settings.borrow().clone();
        let dialing = dial::dial(&self.origin, self.address, settings.proxy.as_deref(), &self.names);
        let stream = tokio::time::timeout(timeout, dialing).await.map_err(|_| ConnectError::Timeout)??;
        let tls = self.connectors()?;
        let fresh = handshake(stream, &self.origin, tls, version, &settings, permit).await?;
        let now_secs = self.now_secs.get();
        Ok(match fresh {
            Fresh::Http1(sender, head_limit, permit) => {
                self.is_http1.set(version == Version::Http2 || self.is_http1.get());
                Connection { permit, ..Connection::new(Sender::Http1(sender, head_limit), now_secs) }
            }
            Fresh::Http2(sender, streams) => self.http2.add(sender, streams, now_secs, settings.max_idle > 0),
        })
    }

    /// The right to have a connection, where their number is limited.
    async fn permit(&self) -> Result<Option<OwnedSemaphorePermit>, ConnectError> {
        let Some(slots) = self.slots.borrow().as_ref().map(|(_, slots)| Arc::clone(slots)) else { return Ok(None) };
        let patience = self.settings.borrow().acquire_timeout;
        let acquired = tokio::time::timeout(patience, slots.acquire_owned()).await;
        acquired.ok().and_then(Result::ok).map(Some).ok_or(ConnectError::Exhausted)
    }

    /// A connection that was given back, waiting until its task knows so: to make another would be one too many. One
    /// that is not ready soon still sends the request that was answered before its end, and is closed after that.
    async fn waited_for(&self) -> Option<Connection> {
        loop {
            let Idle { mut connection, .. } = self.idle.borrow_mut().pop_back()?;
            if let Sender::Http1(sender, _) = &mut connection.sender
                && let Ok(Ok(())) = tokio::time::timeout(SOON, sender.ready()).await
            {
                return Some(connection);
            }
        }
    }

    fn connectors(&self) -> Result<Option<&Connectors>, ConnectError> {
        let Some(tls) = &self.origin.tls else { return Ok(None) };
        if let Some(made) = self.tls.get() {
            return Ok(Some(made));
        }
        let made = Connectors::new(tls, &self.origin.host).map_err(ConnectError::Tls)?;
        Ok(Some(self.tls.get_or_init(|| made)))
    }

    /// A second has passed: closes what was idle for too long.
    pub fn tick(&self) {
        let now = self.now_secs.get() + 1;
        self.now_secs.set(now);
        let settings = self.settings.borrow();
        self.http2.tick(now, settings.max_idle_secs);
        self.idle.borrow_mut().retain(|idle| {
            now - idle.since_secs <= settings.max_idle_secs
                && now - idle.connection.since_secs < settings.max_life_secs
                && !idle.connection.is_closed()
        });
    }

    /// The settings have changed: as many connections as they say now.
    pub(super) fn resize(&self) {
        let wanted = self.settings.borrow().max_connections.map(usize::from);
        let mut slots = self.slots.borrow_mut();
        if slots.as_ref().map(|(had, _)| *had) != wanted {
            // What is in use now is counted by the old limit, and gone soon.
            *slots = wanted.map(|most| (most, Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS)))));
        }
    }

    fn give_back(&self, connection: Connection) {
        if matches!(connection.sender, Sender::Http2(..)) {
            return;
        }
        let settings = self.settings.borrow();
        let now_secs = self.now_secs.get();
        let mut idle = self.idle.borrow_mut();
        let is_old = now_secs - connection.since_secs >= settings.max_life_secs;
        if is_old || connection.is_closed() || idle.len() >= settings.max_idle {
            return;
        }
        let Connection { sender, mut deadline, since_secs, permit } = connection;
        deadline.clear();
        idle.push_back(Idle {
            connection: Connection { sender, deadline, since_secs, permit: None },
            since_secs: now_secs,
        });
        // Whoever waits for the permit finds the connection.
        drop((idle, permit));
    }
}
