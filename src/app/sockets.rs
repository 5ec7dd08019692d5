//! Listening sockets of the process: those that a service manager passes (`LISTEN_FDS`, sd_listen_fds(3)), those of the
//! gateway that it replaces, which passes them in the same way, or its own.

use std::env;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};

use listenfd::ListenFd;
use socket2::{Domain, SockRef, Type};
use thiserror::Error;
use tollgate_config::{Config, StartSettings};
use tollgate_proxy::server::accept::Listener;
use tollgate_proxy::server::listener;

/// Name of an inherited socket of the admin port (`FileDescriptorName=`). Sockets of other names are for traffic.
const ADMIN: &str = "admin";
/// Name of the connection to the gateway that hands its sockets over.
const HANDOVER: &str = "handover";
/// Name of sockets that this gateway hands over, for traffic or with a file, if no service manager keeps them.
const OWN: &str = "own";
/// Name of the others for traffic.
const KEPT: &str = "kept";
/// Name of sockets without TLS, for `server.http`.
const HTTP: &str = "http";
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
    pub(super) traffic: Vec<TcpListener>,
    /// Sockets for traffic without TLS, beside those with TLS.
    pub(super) plain: Vec<TcpListener>,
    /// Socket of the admin port.
    pub(super) admin: Option<TcpListener>,
    /// Unix socket of the admin port.
    pub(super) admin_socket: Option<UnixListener>,
    /// True if a service manager keeps the sockets for traffic open when the process ends.
    pub(super) is_kept: bool,
    /// True if the file of the Unix socket belongs to the gateway, and not to a service manager.
    pub(super) owns_socket_file: bool,
    /// Connection to the gateway that hands its sockets over.
    pub(super) predecessor: Option<UnixStream>,
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
        let mut sockets = Self { is_kept: true, ..Self::default() };
        for index in 0..passed.len() {
            let name = names.next().unwrap_or_default();
            sockets.add(&mut passed, index, name).map_err(|source| {
                let (number, name) = (index + 1, name.to_owned());
                SocketsError::Socket { number, name, source }
            })?;
        }
        sockets.is_kept &= !sockets.traffic.is_empty();
        Ok(sockets)
    }

    fn add(&mut self, passed: &mut ListenFd, index: usize, name: &str) -> io::Result<()> {
        if name == HANDOVER {
            let (family, kind) = (Domain::UNIX.into(), Type::STREAM.into());
            self.predecessor = passed.take_custom(index, family, kind, "unix stream socket")?;
            return Ok(());
        }
        match tcp_listener(passed, index) {
            Ok(socket) if name == ADMIN => self.admin = Some(socket),
            Ok(socket) if name == HTTP => self.plain.push(socket),
            Ok(socket) => {
                self.is_kept &= name != OWN || self.predecessor.is_none();
                self.traffic.push(socket);
            }
            Err(error) if name == ADMIN || name == OWN => {
                // The error of a socket of neither kind names TCP.
                let socket = passed.take_unix_listener(index).ok().flatten().ok_or(error)?;
                require_listener(SockRef::from(&socket))?;
                socket.set_nonblocking(true)?;
                self.admin_socket = Some(socket);
                self.owns_socket_file = name == OWN;
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
        let of_tcp = [
            (
                &self.traffic[..],
                "server.port",
                "server.address",
                Some(SocketAddr::new(server.address.get(), server.port.get())),
            ),
            (&self.plain[..], "server.http.port", "server.address", plain),
            (
                self.admin.as_slice(),
                "management.server.port",
                "management.server.address",
                Some(SocketAddr::new(management.address, management.port)),
            ),
        ];
        for (sockets, port, address, configured) in of_tcp {
            let (Some(socket), Some(configured)) = (sockets.first(), configured) else { continue };
            let in_use = socket.local_addr()?;
            let ip = in_use.ip().to_canonical();
            if self.is_kept {
                settings.replace(port, None);
                settings.replace(address, None);
                continue;
            }
            if ![0, in_use.port()].contains(&configured.port()) {
                settings.replace(port, Some(&in_use.port().to_string()));
            }
            // On a host without IPv6, `::` is bound as 0.0.0.0.
            if ip != configured.ip().to_canonical() && !(ip.is_unspecified() && configured.ip().is_unspecified()) {
                settings.replace(address, Some(&ip.to_string()));
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
        if let Some(inherited) = self.traffic.first() {
            let inherited = inherited.local_addr()?;
            if self.is_kept {
                tracing::info!(
                    sockets = self.traffic.len(),
                    "listening on inherited sockets: `server.port` has no effect"
                );
            } else if address.port() != 0 && address.port() != inherited.port() {
                tracing::warn!(%address, %inherited, "a changed `server.port` takes effect at a restart without handover");
            }
        } else {
            self.traffic = bind(address, config, ("server.port", REMEDY))?;
        }
        match config.server.http {
            Some(http) if self.plain.is_empty() => {
                let address = SocketAddr::new(config.server.address.get(), http.port.get());
                self.plain = bind(address, config, ("server.http.port", HTTP_REMEDY))?;
                if self.is_kept {
                    tracing::warn!(
                        "no inherited socket is named `{HTTP}`: a restart may reset connections to `server.http.port`"
                    );
                }
            }
            Some(_) => tracing::info!("listening on inherited sockets: `server.http.port` has no effect"),
            None if self.plain.is_empty() => {}
            None => {
                tracing::warn!("the inherited socket `{HTTP}` is not served: there is no `server.http`");
                self.plain.clear();
            }
        }
        let mut of_workers = listener::spread(&self.traffic, workers, false)?;
        for (listeners, plain) in of_workers.iter_mut().zip(listener::spread(&self.plain, workers, true)?) {
            listeners.extend(plain);
        }
        Ok(of_workers)
    }

    /// Returns the address that the admin port has or will have: that of an inherited socket precedes the configured one.
    pub(super) fn admin_address(&self, config: &Config) -> io::Result<IpAddr> {
        let inherited = self.admin.as_ref().map(TcpListener::local_addr).transpose()?;
        Ok(inherited.map_or(config.management.address, |inherited| inherited.ip().to_canonical()))
    }

    /// Returns duplicates of the sockets that listen when the process serves, with their settings.
    pub(super) fn to_open(&self) -> io::Result<Vec<(&'static str, TcpListener)>> {
        let named = |setting| move |socket: &TcpListener| socket.try_clone().map(|socket| (setting, socket));
        let traffic = self.traffic.iter().map(named("server.port"));
        let plain = self.plain.iter().map(named("server.http.port"));
        traffic.chain(plain).chain(self.admin.iter().map(named("management.server.port"))).collect()
    }

    /// Returns duplicates for a new process, with their names, and its end of the connection to this one.
    pub(super) fn duplicates(&self, connection: UnixStream) -> io::Result<Vec<(&'static str, OwnedFd)>> {
        let mut passed = vec![(HANDOVER, connection.into())];
        for socket in &self.traffic {
            passed.push((if self.is_kept { KEPT } else { OWN }, socket.try_clone()?.into()));
        }
        for socket in &self.plain {
            passed.push((HTTP, socket.try_clone()?.into()));
        }
        if let Some(socket) = &self.admin {
            passed.push((ADMIN, socket.try_clone()?.into()));
        }
        if let Some(socket) = &self.admin_socket {
            passed.push((if self.owns_socket_file { OWN } else { ADMIN }, socket.try_clone()?.into()));
        }
        Ok(passed)
    }
}

/// Binds sockets for the workers. `setting` holds the port.
fn bind(
    address: SocketAddr,
    config: &Config,
    (setting, advice): (&'static str, &'static str),
) -> Result<Vec<TcpListener>, SocketsError> {
    let (workers, reuse_port) = (config.server.workers().get(), config.server.reuse_port.get());
    listener::bind(address, workers, reuse_port).map_err(|source| {
        let remedy = if source.kind() == io::ErrorKind::AddrInUse { advice } else { "" };
        SocketsError::Listen { address, setting, remedy, source }
    })
}

/// Returns the inherited socket at `index`, ready to accept connections.
fn tcp_listener(passed: &mut ListenFd, index: usize) -> io::Result<TcpListener> {
    let socket = passed.take_tcp_listener(index)?.ok_or(io::ErrorKind::NotFound)?;
    require_listener(SockRef::from(&socket))?;
    listener::adopt(&socket)?;
    Ok(socket)
}

fn require_listener(socket: SockRef<'_>) -> io::Result<()> {
    if socket.is_listener()? { Ok(()) } else { Err(io::Error::other("the socket does not listen")) }
}
