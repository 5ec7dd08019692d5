//! Overlap: a process that shares the ports of another one (`server.reuse-port`) asks it for its buckets, over a Unix socket
//! beside `memory.state-file`. The other process then drains, as after SIGUSR2, unless it does so already. Of several that start
//! together, each has its turn.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use tokio::net::UnixListener;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::admin::socket::{self, SocketError, SocketFile};
use crate::app::handover::Predecessor;
use crate::app::start::StartError;
use tollgate_config::{AdminSocket, Config};

/// Permissions of the socket: buckets are secret, and its clients end the process.
const MODE: u32 = 0o600;
/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(50);

/// Lock of the process that takes over, until it serves. The kernel releases it with the process.
pub(super) type Turn = File;

/// Waits until no other process takes over. Returns its turn; `None` if buckets do not go to a process that shares the ports.
///
/// # Errors
/// Another process has its turn for longer than `server.handover-timeout`.
pub(super) async fn turn(config: &Config, address: SocketAddr) -> Result<Option<Turn>, StartError> {
    let Some(path) = path(config, address, "lock") else { return Ok(None) };
    let lock = match OpenOptions::new().write(true).create(true).truncate(false).mode(MODE).open(&path) {
        Ok(lock) => lock,
        Err(error) => {
            let path = path.display();
            tracing::warn!(%path, %error, "buckets are not taken from a process that serves this address: the file beside `memory.state-file` cannot be opened");
            return Ok(None);
        }
    };
    let timeout = config.server.handover_timeout.get();
    let (started, mut is_logged) = (Instant::now(), false);
    loop {
        match lock.try_lock() {
            Ok(()) => return Ok(Some(lock)),
            Err(TryLockError::Error(error)) => return Err(error.into()),
            Err(TryLockError::WouldBlock) if started.elapsed() >= timeout => return Err(StartError::NoTurn(timeout)),
            Err(TryLockError::WouldBlock) => {
                if !is_logged {
                    tracing::info!(?timeout, "another process takes over at the moment: this one waits for its turn");
                    is_logged = true;
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Returns the process that serves the same `address` and keeps its buckets in the same file, if there is one. If it drains, its
/// successor may follow.
pub(super) async fn predecessor(config: &Config, address: SocketAddr) -> Option<Predecessor> {
    let path = path(config, address, "sock")?;
    let timeout = config.server.handover_timeout.get();
    let started = Instant::now();
    while let Ok(stream) = UnixStream::connect(&path) {
        let left = timeout.saturating_sub(started.elapsed());
        match Predecessor::meet(stream, left).await {
            Ok(predecessor) => return Some(predecessor),
            Err(error) if started.elapsed() >= timeout || error.kind() == io::ErrorKind::TimedOut => {
                tracing::warn!(%error, "the process that serves this address does not respond: its buckets are not taken");
                return None;
            }
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
    None
}

/// Offers the buckets to processes that take over, in place of the process before. Their connections are passed on until one has
/// taken over, or this process has written its file.
pub(super) fn offer(
    config: &Config,
    address: SocketAddr,
    offers: mpsc::Sender<tokio::net::UnixStream>,
) -> Option<impl Future<Output = ()> + use<>> {
    let settings = AdminSocket { path: path(config, address, "sock")?, mode: MODE };
    let bound = socket::replace(&settings)
        .and_then(|(listener, file)| Ok((UnixListener::from_std(listener).map_err(SocketError::from)?, file)));
    match bound {
        Ok((listener, file)) => Some(accept(listener, file, offers)),
        Err(error) => {
            let path = settings.path.display();
            tracing::warn!(%path, %error, "no other process can take over: the socket beside `memory.state-file` cannot be bound");
            None
        }
    }
}

async fn accept(listener: UnixListener, _file: SocketFile, offers: mpsc::Sender<tokio::net::UnixStream>) {
    loop {
        let accepted = tokio::select! {
            () = offers.closed() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => drop(offers.send(stream).await),
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// Returns the path of a file of this `kind`, if buckets go to a process that shares the ports. It has the address for traffic: a
/// process on another port does not follow this one.
fn path(config: &Config, address: SocketAddr, kind: &str) -> Option<PathBuf> {
    let memory = &config.memory;
    let shares = config.server.reuse_port.get() && memory.hand_over.get();
    let mut path = memory.state_file.as_ref().filter(|_| shares)?.clone().into_os_string();
    path.push(format!(".{address}.{kind}"));
    Some(path.into())
}
