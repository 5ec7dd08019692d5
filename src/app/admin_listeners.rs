//! Listeners of the admin port: TCP and a Unix socket.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::admin::socket::{self, SocketFile};
use crate::admin::{self, AdminState};
use crate::app::start::StartError;
use tollgate_config::{Config, Management};
use tollgate_proxy::server::listener;
use tollgate_transport::executor::spawn_boxed;

/// Advice for an admin port in use.
const REMEDY: &str = "; set `management.server.port` (or MANAGEMENT_SERVER_PORT) to another port, to 0 for a free one, or to -1 for none";

/// Opens the admin port. Returns its address; `None` if it is off, or if its default port is in use and the port for traffic
/// serves the endpoints of the application.
pub(super) fn start_admin(config: &Config, state: &Arc<AdminState>) -> Result<Option<SocketAddr>, StartError> {
    if !config.management.enabled {
        return Ok(None);
    }
    let address = SocketAddr::new(config.management.address, config.management.port);
    let listener = match listener::bind(address, 1) {
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
            return Err(StartError::Listen { address, setting: "management.server.port", remedy, source });
        }
    };
    let bound = listener.local_addr()?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    spawn_boxed(admin::serve::port(listener, Arc::clone(state)));
    Ok(Some(bound))
}

/// Opens the Unix socket of the admin port, if the file has one.
pub(super) fn start_admin_socket(config: &Config, state: &Arc<AdminState>) -> Result<Option<SocketFile>, StartError> {
    let Some(settings) = &config.management.socket else { return Ok(None) };
    let failed = |source| StartError::AdminSocket { path: settings.path.clone(), source };
    let (listener, file) = socket::bind(settings).map_err(failed)?;
    let listener = tokio::net::UnixListener::from_std(listener)?;
    spawn_boxed(admin::serve::socket(listener, Arc::clone(state)));
    Ok(Some(file))
}

/// Returns true if the gateway can start without the admin port: the default port is in use, the file names no other, and
/// the port for traffic serves the endpoints that a Spring application would have.
fn is_spared(management: &Management, error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::AddrInUse
        && management.on_traffic.as_ref().is_some_and(|endpoints| endpoints.suffice)
}
