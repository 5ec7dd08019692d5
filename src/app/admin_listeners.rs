//! Listeners of the admin port: TCP and a Unix socket.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;

use crate::admin::socket::{self, SocketFile};
use crate::admin::{self, AdminState};
use crate::app::sockets::{Sockets, SocketsError};
use crate::app::start::StartError;
use tokio::sync::watch;
use tollgate_config::{Config, Management};
use tollgate_proxy::server::listener;
use tollgate_transport::executor::spawn_boxed;

/// Advice for an admin port in use.
const REMEDY: &str = "; set `management.server.port` (or MANAGEMENT_SERVER_PORT) to another port, to 0 for a free one, or to -1 for none";

/// Returns the address that the admin port has or will have: that of an inherited socket precedes the configured one.
pub(super) fn admin_ip(config: &Config, sockets: &Sockets) -> io::Result<IpAddr> {
    let inherited = sockets.admin.sockets.first().map(TcpListener::local_addr).transpose()?;
    Ok(inherited.map_or(config.management.address, |inherited| inherited.ip().to_canonical()))
}

/// Opens the admin port, unless its socket was inherited. Returns its address; `None` if it is off, or if its default port is in use and the port for traffic
/// serves the endpoints of the application.
pub(super) fn start_admin(
    config: &Config,
    state: &Arc<AdminState>,
    sockets: &mut Sockets,
    open: watch::Receiver<bool>,
) -> Result<Option<SocketAddr>, StartError> {
    if !config.management.enabled {
        if sockets.admin.sockets.pop().is_some() {
            tracing::warn!("the inherited socket `admin` is not served: the admin port is off");
        }
        return Ok(None);
    }
    let address = SocketAddr::new(config.management.address, config.management.port);
    let bound = match sockets.admin.sockets.pop() {
        Some(inherited) => {
            warn_of_inherited(inherited.local_addr()?, address, sockets.admin.is_kept, &config.management);
            Ok(vec![inherited])
        }
        None => listener::bind(address, 1, config.server.reuse_port.get()),
    };
    let listener = match bound {
        Ok(mut listeners) => listeners.remove(0),
        Err(source) if is_spared(&config.management, &source) => {
            tracing::warn!(
                %address,
                "the admin port is in use, and the gateway starts without it: set management.server.port to another port, or to 0 for a free one"
            );
            return Ok(None);
        }
        Err(source) => {
            let remedy = if source.kind() == io::ErrorKind::AddrInUse { REMEDY } else { "" };
            return Err(SocketsError::Listen { address, setting: "management.server.port", remedy, source }.into());
        }
    };
    let bound = listener.local_addr()?;
    let served = listener.try_clone()?;
    sockets.admin.sockets.push(listener);
    spawn_boxed(admin::serve::port(served, Arc::clone(state), open));
    Ok(Some(bound))
}

/// Warns if the inherited socket is not the one that the file describes. A service manager that keeps it decides.
fn warn_of_inherited(inherited: SocketAddr, address: SocketAddr, is_kept: bool, management: &Management) {
    let same_ip = inherited.ip().to_canonical() == address.ip();
    if !is_kept && (!same_ip || ![0, inherited.port()].contains(&address.port())) {
        tracing::warn!(%address, %inherited, "a changed port or address of `management.server` takes effect at a restart without handover");
    }
    let has_doors = !management.tokens.is_empty() || management.tls.as_ref().is_some_and(|tls| tls.identifies_clients);
    if !inherited.ip().to_canonical().is_loopback() && !has_doors {
        tracing::warn!(%inherited, "every request to the admin port is refused: its inherited socket is no loopback address, and there are no `management.tokens`");
    }
}

/// Opens the Unix socket of the admin port, if the file has one, unless it was inherited. The file of an inherited socket
/// belongs to the service manager or, after a handover, to this process.
pub(super) fn start_admin_socket(
    config: &Config,
    state: &Arc<AdminState>,
    sockets: &mut Sockets,
    open: watch::Receiver<bool>,
) -> Result<Option<SocketFile>, StartError> {
    let (listener, file) = match (sockets.admin_socket.take(), &config.management.socket) {
        (Some(inherited), settings) => {
            let owned_socket = settings.as_ref().filter(|_| sockets.owns_socket_file);
            (inherited, owned_socket.and_then(|settings| SocketFile::at(&settings.path).ok()))
        }
        (None, Some(settings)) => {
            let failed = |source| StartError::AdminSocket { path: settings.path.clone(), source };
            let (listener, file) = socket::bind(settings).map_err(failed)?;
            (listener, Some(file))
        }
        (None, None) => return Ok(None),
    };
    let served = tokio::net::UnixListener::from_std(listener.try_clone()?)?;
    sockets.admin_socket = Some(listener);
    sockets.owns_socket_file = file.is_some();
    spawn_boxed(admin::serve::socket(served, Arc::clone(state), open));
    Ok(file)
}

/// Returns true if the gateway can start without the admin port: the default port is in use, the file names no other, and
/// the port for traffic serves the endpoints that a Spring application would have.
fn is_spared(management: &Management, error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::AddrInUse
        && management.on_traffic.as_ref().is_some_and(|endpoints| endpoints.suffice)
}
