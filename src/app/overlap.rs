//! Overlap: a process that shares the ports of another one (`server.reuse-port`) asks it for its buckets, over a Unix socket
//! beside `memory.state-file`. The other process then drains, as after SIGUSR2.

use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::UnixListener;
use tokio::sync::{mpsc, watch};

use crate::admin::socket::{self, SocketError, SocketFile};
use tollgate_config::{AdminSocket, Config};

/// Permissions of the socket: buckets are secret, and its clients end the process.
const MODE: u32 = 0o600;
/// Pause until the socket is bound again after another process has had it.
const PAUSE: Duration = Duration::from_millis(50);
/// Number of such attempts.
const ATTEMPTS: u32 = 100;

/// Returns a connection to the process that serves the same `address` and keeps its buckets in the same file, if there is one.
pub(super) fn connect(config: &Config, address: SocketAddr) -> Option<UnixStream> {
    UnixStream::connect(path(config, address)?).ok()
}

/// Accepts connections of processes that take over, and passes them on while this one serves: while `open` is true. Another
/// process can have the socket meanwhile.
pub(super) async fn offer(
    config: Arc<Config>,
    address: SocketAddr,
    mut open: watch::Receiver<bool>,
    offers: mpsc::Sender<tokio::net::UnixStream>,
) {
    let Some(path) = path(&config, address) else { return };
    let settings = AdminSocket { path, mode: MODE };
    loop {
        if open.wait_for(|is_open| *is_open).await.is_err() || offers.is_closed() {
            return;
        }
        let (listener, _file) = match bind(&settings).await {
            Ok(bound) => bound,
            Err(error) => {
                let path = settings.path.display();
                tracing::warn!(%path, %error, "no other process can take over: the socket beside `memory.state-file` cannot be bound");
                return;
            }
        };
        tokio::select! {
            _ = open.wait_for(|is_open| !is_open) => {}
            () = accept(&listener, &offers) => return,
        }
    }
}

/// Passes connections on until the process drains.
async fn accept(listener: &UnixListener, offers: &mpsc::Sender<tokio::net::UnixStream>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                if offers.send(stream).await.is_err() {
                    return;
                }
            }
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// Binds the socket as soon as the process before has closed it.
async fn bind(settings: &AdminSocket) -> Result<(UnixListener, SocketFile), SocketError> {
    for _ in 1..ATTEMPTS {
        match socket::bind(settings) {
            Err(SocketError::InUse) => tokio::time::sleep(PAUSE).await,
            bound => {
                let (listener, file) = bound?;
                return Ok((UnixListener::from_std(listener)?, file));
            }
        }
    }
    Err(SocketError::InUse)
}

/// Returns the path of the socket, if buckets go to a process that shares the ports. It has the address for traffic: a process
/// on another port does not follow this one.
fn path(config: &Config, address: SocketAddr) -> Option<PathBuf> {
    let memory = &config.memory;
    let shares = config.server.reuse_port.get() && memory.hand_over.get();
    let mut path = memory.state_file.as_ref().filter(|_| shares)?.clone().into_os_string();
    path.push(format!(".{address}.sock"));
    Some(path.into())
}
