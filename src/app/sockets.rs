//! Listening sockets of the process: those that a service manager passes (`LISTEN_FDS`, sd_listen_fds(3)), those of the
//! gateway that it replaces, which passes them in the same way, or its own.

use std::env;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};

use listenfd::ListenFd;
use socket2::{Domain, SockRef, Type};
use thiserror::Error;
use tollgate_config::{Config, StartSettings};
use tollgate_proxy::server::accept::{Listener, ListenerKind};
use tollgate_proxy::server::listener;

/// Name of an inherited socket of the admin port (`FileDescriptorName=`). Sockets of other names are for traffic.
const ADMIN: &str = "admin";
/// Name of the connection to the gateway that hands its sockets over.
const HANDOVER: &str = "handover";
/// Name of sockets for traffic that the gateway hands over.
const TRAFFIC: &str = "traffic";
/// Name of sockets without TLS, for `server.http`.
const HTTP: &str = "http";
/// Begin of the names of sockets that a gateway hands over, if no service manager keeps them.
const OWN: &str = "own-";
/// Upper bound of inherited sockets.
const MAX_SOCKETS: usize = 1024;

/// Advice for a port in use.
const REMEDY: &str =
    "; end the process that has it, or set `server.port` (or SERVER_PORT) to another port, or to 0 for a free one";

/// Advice for the port of `server.http` in use.
const HTTP_REMEDY: &str =
    "; end the process that has it, or set `server.http.port` to another port, or to 0 for a free one";

/// Listening sockets of the process. The workers and the admin port use duplicates.
#[derive(Debug, Default)]
pub(super) struct Sockets {
    /// Sockets for traffic.
    pub(super) traffic: SocketSet,
    /// Sockets for traffic without TLS, beside those with TLS.
    pub(super) plain: SocketSet,
    /// Socket of the admin port, at most one.
    pub(super) admin: SocketSet,
    /// Unix socket of the admin port.
    pub(super) admin_socket: Option<UnixListener>,
    /// True if the file of the Unix socket belongs to the gateway, and not to a service manager.
    pub(super) owns_socket_file: bool,
    /// Connection to the gateway that hands its sockets over.
    pub(super) predecessor: Option<UnixStream>,
}

/// Listening sockets for one purpose.
#[derive(Debug, Default)]
pub(super) struct SocketSet {
    pub(super) sockets: Vec<TcpListener>,
    /// True if a service manager keeps them open when the process ends.
    pub(super) is_kept: bool,
}

/// Error of a listening socket.
#[derive(Debug, Error)]
pub enum SocketsError {
    /// An address is in use, or belongs to another machine.
    #[error("cannot listen on {address} (`{setting}`): {source}{remedy}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The setting that holds it.
        setting: &'static str,
        /// Advice for an address in use; otherwise empty.
        remedy: &'static str,
        /// Error of the system.
        source: io::Error,
    },
    /// The number of sockets is none.
    #[error(
        "the environment variable LISTEN_FDS must be a number from 0 to {MAX_SOCKETS}, found `{0}`; unset it if no service manager passes sockets"
    )]
    Count(String),
    /// A descriptor is no socket that the gateway can use.
    #[error(
        "cannot use the inherited socket {number} of LISTEN_FDS (`{name}`): {source}; a socket unit needs `ListenStream=` with a TCP address, or a path for the name `{ADMIN}`, and `Accept=no`"
    )]
    Socket {
        /// Position, from 1.
        number: usize,
        /// Name in `LISTEN_FDNAMES`.
        name: String,
        /// The reason.
        source: io::Error,
    },
    /// The process is out of file descriptors.
    #[error("cannot start: {0}")]
    System(#[from] io::Error),
}

impl Sockets {
    /// Takes the sockets that a service manager has passed to this process. Must be called before threads are started, since
    /// it changes the environment.
    ///
    /// # Errors
    /// A descriptor is not a listening socket of a kind that the gateway serves.
    pub(super) fn inherit() -> Result<Self, SocketsError> {
        let Ok(count) = env::var("LISTEN_FDS") else { return Ok(Self::default()) };
        if !count.parse().is_ok_and(|count: usize| count <= MAX_SOCKETS) {
            return Err(SocketsError::Count(count));
        }
        let names = env::var("LISTEN_FDNAMES").unwrap_or_default();
        let mut names = names.split(':');
        let mut passed = ListenFd::from_env();
        let mut sockets = Self::default();
        for index in 0..passed.len() {
            let name = names.next().unwrap_or_default();
            let added = sockets.add(&mut passed, index, name);
            added.map_err(|source| SocketsError::Socket { number: index + 1, name: name.to_owned(), source })?;
        }
        Ok(sockets)
    }

    fn add(&mut self, passed: &mut ListenFd, index: usize, name: &str) -> io::Result<()> {
        if name == HANDOVER {
            let (family, kind) = (Domain::UNIX.into(), Type::STREAM.into());
            self.predecessor = passed.take_custom(index, family, kind, "unix stream socket")?;
            return Ok(());
        }
        let own = name.strip_prefix(OWN).filter(|_| self.predecessor.is_some());
        let (name, is_kept) = (own.unwrap_or(name), own.is_none());
        match tcp_listener(passed, index) {
            Ok(_) if name == ADMIN && !self.admin.sockets.is_empty() => return Err(second_admin("TCP")),
            Ok(socket) => {
                let set = match name {
                    ADMIN => &mut self.admin,
                    HTTP => &mut self.plain,
                    _ => &mut self.traffic,
                };
                set.sockets.push(socket);
                set.is_kept = is_kept;
            }
            Err(error) if name == ADMIN => {
                // The error of a socket of neither kind names TCP.
                let socket = passed.take_unix_listener(index).ok().flatten().ok_or(error)?;
                require_listener(SockRef::from(&socket))?;
                socket.set_nonblocking(true)?;
                self.owns_socket_file = !is_kept;
                if self.admin_socket.replace(socket).is_some() {
                    return Err(second_admin("Unix"));
                }
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Returns the settings that the process starts with: those of `config`, except for inherited sockets. Must be called before
    /// others are bound.
    pub(super) fn settings(&self, config: &Config) -> io::Result<StartSettings> {
        let mut settings = StartSettings::of(config);
        let (server, management) = (&config.server, &config.management);
        let plain = server.http.map(|http| SocketAddr::new(server.address.get(), http.port.get()));
        // If a service manager keeps some of the sockets, the others have the address.
        let is_of_plain = self.traffic.is_kept && plain.is_some() && !self.plain.is_kept;
        let address = Some("server.address");
        let of_tcp = [
            (
                &self.traffic,
                "server.port",
                address.filter(|_| !is_of_plain),
                Some(SocketAddr::new(server.address.get(), server.port.get())),
            ),
            (&self.plain, "server.http.port", address.filter(|_| is_of_plain), plain),
            (
                &self.admin,
                "management.server.port",
                Some("management.server.address"),
                Some(SocketAddr::new(management.address, management.port)),
            ),
        ];
        for (set, port, address, configured) in of_tcp {
            let (Some(socket), Some(configured)) = (set.sockets.first(), configured) else { continue };
            let in_use = socket.local_addr()?;
            let ip = in_use.ip().to_canonical();
            // On a host without IPv6, `::` is bound as 0.0.0.0.
            let has_ip =
                ip == configured.ip().to_canonical() || ip.is_unspecified() && configured.ip().is_unspecified();
            if set.is_kept || ![0, in_use.port()].contains(&configured.port()) {
                settings.replace(port, (!set.is_kept).then(|| in_use.port().to_string()).as_deref());
            }
            if let Some(address) = address.filter(|_| set.is_kept || !has_ip) {
                settings.replace(address, (!set.is_kept).then(|| ip.to_string()).as_deref());
            }
        }
        if self.admin_socket.is_some() && !self.owns_socket_file {
            settings.replace("management.server.socket", None);
            settings.replace("management.server.socket-mode", None);
        }
        Ok(settings)
    }

    /// Binds the sockets for traffic, unless they were inherited, and distributes them among the workers.
    pub(super) fn of_workers(&mut self, config: &Config) -> Result<Vec<Vec<Listener<TcpListener>>>, SocketsError> {
        let workers = config.server.workers().get();
        let address = SocketAddr::new(config.server.address.get(), config.server.port.get());
        self.traffic.complete(address, config, ("server.port", REMEDY))?;
        match config.server.http {
            Some(http) => {
                let address = SocketAddr::new(config.server.address.get(), http.port.get());
                self.plain.complete(address, config, ("server.http.port", HTTP_REMEDY))?;
                if self.traffic.is_kept && !self.plain.is_kept {
                    tracing::warn!(
                        "no inherited socket is named `{HTTP}`: while the gateway restarts, connections to `server.http.port` are refused"
                    );
                }
            }
            None if self.plain.sockets.is_empty() => {}
            None => {
                tracing::warn!("the inherited socket `{HTTP}` is not served: there is no `server.http`");
                self.plain.sockets.clear();
            }
        }
        let mut of_workers = self.traffic.spread(workers, false)?;
        for (listeners, plain) in of_workers.iter_mut().zip(self.plain.spread(workers, true)?) {
            listeners.extend(plain);
        }
        Ok(of_workers)
    }

    /// Returns duplicates of the sockets that listen when the process serves, with their settings.
    pub(super) fn to_open(&self) -> io::Result<Vec<(&'static str, TcpListener)>> {
        let duplicate_for = |setting| move |socket: &TcpListener| socket.try_clone().map(|socket| (setting, socket));
        let traffic = self.traffic.sockets.iter().map(duplicate_for("server.port"));
        let plain = self.plain.sockets.iter().map(duplicate_for("server.http.port"));
        traffic.chain(plain).chain(self.admin.sockets.iter().map(duplicate_for("management.server.port"))).collect()
    }

    /// Returns duplicates for a new process, with their names, and its end of the connection to this one.
    pub(super) fn duplicates(&self, connection: UnixStream) -> io::Result<Vec<(String, OwnedFd)>> {
        let named = |name, is_kept| if is_kept { String::from(name) } else { format!("{OWN}{name}") };
        let mut passed = vec![(HANDOVER.to_owned(), connection.into())];
        for (set, name) in [(&self.traffic, TRAFFIC), (&self.plain, HTTP), (&self.admin, ADMIN)] {
            for socket in &set.sockets {
                passed.push((named(name, set.is_kept), socket.try_clone()?.into()));
            }
        }
        if let Some(socket) = &self.admin_socket {
            passed.push((named(ADMIN, !self.owns_socket_file), socket.try_clone()?.into()));
        }
        Ok(passed)
    }
}

impl SocketSet {
    /// Binds the sockets to `address`, one for each worker, unless they were inherited. `setting` holds the port.
    fn complete(
        &mut self,
        address: SocketAddr,
        config: &Config,
        (setting, advice): (&'static str, &'static str),
    ) -> Result<(), SocketsError> {
        let Some(inherited) = self.sockets.first() else {
            let (workers, reuse_port) = (config.server.workers().get(), config.server.reuse_port.get());
            self.sockets = listener::bind(address, workers, reuse_port).map_err(|source| {
                let remedy = if source.kind() == io::ErrorKind::AddrInUse { advice } else { "" };
                SocketsError::Listen { address, setting, remedy, source }
            })?;
            return Ok(());
        };
        let inherited = inherited.local_addr()?;
        if self.is_kept {
            tracing::info!(sockets = self.sockets.len(), "listening on inherited sockets: `{setting}` has no effect");
        } else if ![0, inherited.port()].contains(&address.port()) {
            tracing::warn!(%address, %inherited, "a changed `{setting}` takes effect at a restart without handover");
        }
        Ok(())
    }

    /// Distributes the sockets among the workers.
    fn spread(&self, workers: usize, is_plain: bool) -> io::Result<Vec<Vec<Listener<TcpListener>>>> {
        listener::spread(&self.sockets, workers, ListenerKind { is_plain, is_kept: self.is_kept })
    }
}

/// Returns the inherited socket at `index`, ready to accept connections.
fn tcp_listener(passed: &mut ListenFd, index: usize) -> io::Result<TcpListener> {
    let socket = passed.take_tcp_listener(index)?.ok_or(io::ErrorKind::NotFound)?;
    require_listener(SockRef::from(&socket))?;
    listener::adopt(&socket)?;
    Ok(socket)
}

fn second_admin(kind: &str) -> io::Error {
    io::Error::other(format!("the admin port has another {kind} socket already: remove this one's `ListenStream=`"))
}

fn require_listener(socket: SockRef<'_>) -> io::Result<()> {
    if socket.is_listener()? { Ok(()) } else { Err(io::Error::other("the socket does not listen")) }
}
