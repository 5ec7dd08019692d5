//! Handover: on SIGUSR2, a new process of the gateway takes the listening sockets, and this one drains once the other serves.
//!
//! The new process is the program at the path by which this one was started, with the same arguments. Its workers start, and
//! accept nothing yet. Then both talk over a pair of sockets:
//!
//! | From | Message |
//! |---|---|
//! | old | the secret key of the hashes of its keys, 16 bytes |
//! | new | [`READY`]: it could serve |
//! | old | the length of the snapshot of its buckets in 8 bytes, and the snapshot. It accepts no connections any more |
//! | new | [`SERVING`] |
//!
//! Connections that clients open meanwhile wait in the queues of the sockets, which both processes have. If the new process
//! fails before its last message, the old one goes on.

use std::env;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{self, Child, Command, ExitStatus};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use command_fds::{CommandFdExt as _, FdMapping};
use thiserror::Error;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::Semaphore;

use crate::admin::AdminState;
use crate::app::buckets;
use crate::app::process::{End, Process};
use crate::app::service_manager;
use crate::app::signals::ShutDownSignals;
use crate::app::sockets::Sockets;
use tollgate_proxy::server::accept::{LAST_REQUESTS, Order};

/// Message of the new process: it has started its workers.
const READY: u8 = b'r';
/// Message of the new process: its workers accept connections.
const SERVING: u8 = b's';
/// First descriptor that the new process inherits besides the standard streams.
const FIRST_DESCRIPTOR: i32 = 3;

/// Reason why the sockets were not handed over.
#[derive(Debug, Error)]
pub(super) enum HandoverError {
    /// The process is the first one of its container, which would end with it.
    #[error("this is process 1: its container would end with it; start another container in place of this one")]
    FirstProcess,
    /// The process takes over itself.
    #[error("this process does not serve yet: send SIGUSR2 again when it does")]
    Waiting,
    /// The program cannot be started.
    #[error("cannot start the new process: {0}; is the program still at its path?")]
    Start(io::Error),
    /// The new process has ended.
    #[error(
        "the new process has ended ({0}): see its messages above, try it with `tollgate check`, and send SIGUSR2 again"
    )]
    Ended(ExitStatus),
    /// The process that starts beside this one has ended.
    #[error("the other process has ended before it could serve: see its messages")]
    Gone,
    /// The new process does not follow the protocol.
    #[error("the new process is no gateway that can take over ({0}): is another program at its path?")]
    Protocol(io::Error),
    /// The new process takes too long.
    #[error("the new process did not serve within {0:?}: see its messages above, and `server.handover-timeout`")]
    TooLate(Duration),
}

/// New process, as the old one sees it. It is killed when this is dropped before it serves.
struct Successor {
    /// `None` if this process has not started it.
    process: Option<Child>,
    stream: tokio::net::UnixStream,
    serves: bool,
}

/// Process that hands over, as the new one sees it.
#[derive(Debug)]
pub(super) struct Predecessor {
    stream: tokio::net::UnixStream,
    /// Secret key of the hashes of its keys.
    pub(super) hash_key: [u8; 16],
}

impl Process {
    /// Hands over to a process that listens beside this one or, without one, the listening sockets to a new process, whose number
    /// is returned. Without success, this one goes on.
    async fn hand_over(&mut self, other: Option<tokio::net::UnixStream>) -> Result<Option<u32>, HandoverError> {
        let timeout = self.config.borrow().server.handover_timeout.get();
        let mut successor = match other {
            Some(stream) => {
                tracing::info!(?timeout, "another process starts beside this one, to take over");
                Successor { process: None, stream, serves: false }
            }
            None if matches!(*self.orders.borrow(), Order::Wait) => return Err(HandoverError::Waiting),
            None if process::id() == 1 => return Err(HandoverError::FirstProcess),
            None => Successor::start(&self.sockets).map_err(HandoverError::Start)?,
        };
        let pid = successor.process.as_ref().map(Child::id);
        if let Some(pid) = pid {
            tracing::info!(pid, ?timeout, "a new process starts, to take over the listening sockets");
        }
        let result = match tokio::time::timeout(timeout, self.hand_over_to(&mut successor)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => {
                self.serve_again();
                Err(successor.failed(error).await)
            }
            Err(_) => Err(HandoverError::TooLate(timeout)),
        };
        successor.serves = result.is_ok();
        drop(successor);
        match result {
            Ok(()) => pid.into_iter().for_each(service_manager::main_process),
            Err(_) => self.serve_again(),
        }
        result.map(|()| pid)
    }

    /// Hands over to `other`, or to a process of its own, until a signal asks for shutdown. Returns the end of this process, if
    /// that follows.
    pub(super) async fn hand_over_until(
        &mut self,
        other: Option<tokio::net::UnixStream>,
        shut_down: &mut ShutDownSignals,
    ) -> Option<End> {
        let handed_over = tokio::select! {
            handed_over = self.hand_over(other) => handed_over,
            () = shut_down.next() => {
                self.serve_again();
                return Some(End::ShutDown);
            }
        };
        handed_over
            .inspect_err(|error| tracing::error!("not handed over, this process goes on: {error}"))
            .map(|successor| End::HandedOver { successor })
            .ok()
    }

    /// Accepts connections again after a handover that did not take place.
    fn serve_again(&self) {
        if !matches!(*self.orders.borrow(), Order::Wait) {
            self.orders.send_replace(Order::Serve);
            self.admin_open.send_replace(true);
        }
    }

    async fn hand_over_to(&mut self, successor: &mut Successor) -> io::Result<()> {
        successor.prepare(&self.admin).await?;
        // Clients learn that connections end before those that are idle are closed.
        self.orders.send_replace(Order::Announce);
        tokio::select! {
            () = tokio::time::sleep(LAST_REQUESTS) => {}
            failed = successor.expect(SERVING) => failed.and(Err(io::ErrorKind::InvalidData.into()))?,
        }
        self.admin_open.send_replace(false);
        let paused = Arc::new(Semaphore::new(0));
        self.orders.send_replace(Order::Pause(Arc::clone(&paused)));
        successor.take_buckets(&self.admin, (&paused, self.workers.len())).await
    }
}

/// Hands the buckets of a process that drains over to another one beside it, within `timeout`. `closed` gets a permit of each of
/// `workers` that takes no more requests.
pub(super) async fn hand_buckets_over(
    other: tokio::net::UnixStream,
    admin: &AdminState,
    closed: (&Semaphore, usize),
    timeout: Duration,
) -> Result<(), HandoverError> {
    tracing::info!(?timeout, "another process starts beside this one, to take the buckets");
    let mut successor = Successor { process: None, stream: other, serves: false };
    let handing = async {
        successor.prepare(admin).await?;
        successor.take_buckets(admin, closed).await
    };
    match tokio::time::timeout(timeout, handing).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(successor.failed(error).await),
        Err(_) => Err(HandoverError::TooLate(timeout)),
    }
}

impl Successor {
    /// Starts the program of this process again, with its arguments, on duplicates of `sockets`, and with the same standard input.
    fn start(sockets: &Sockets) -> io::Result<Self> {
        let (stream, other) = UnixStream::pair()?;
        stream.set_nonblocking(true)?;
        let passed = sockets.duplicates(other)?;
        let mut arguments = env::args_os();
        let mut command = Command::new(arguments.next().ok_or(io::ErrorKind::NotFound)?);
        let names: Vec<_> = passed.iter().map(|(name, _)| name.as_str()).collect();
        command
            .args(arguments)
            .env("LISTEN_FDS", passed.len().to_string())
            .env("LISTEN_FDNAMES", names.join(":"))
            // The number of the new process is not known yet.
            .env_remove("LISTEN_PID")
            .env_remove("LISTEN_FDS_FIRST_FD")
            .env_remove("WATCHDOG_PID");
        if let Some(configuration) = tollgate_bounded_file::stdin_bytes() {
            let (reader, mut writer) = io::pipe()?;
            thread::spawn(move || writer.write_all(configuration));
            command.stdin(reader);
        }
        let mapping = |(child_fd, (_, parent_fd)): (i32, (String, OwnedFd))| FdMapping { parent_fd, child_fd };
        command.fd_mappings((FIRST_DESCRIPTOR..).zip(passed).map(mapping).collect()).map_err(io::Error::other)?;
        let process = command.spawn()?;
        Ok(Self { process: Some(process), stream: tokio::net::UnixStream::from_std(stream)?, serves: false })
    }

    /// Waits until the process could serve.
    async fn prepare(&mut self, admin: &AdminState) -> io::Result<()> {
        self.stream.write_all(&admin.stores.memory.hash_key()).await?;
        self.expect(READY).await
    }

    /// Sends the buckets once each of `workers` has added its permit to `stopped`, and waits until the process serves.
    async fn take_buckets(&mut self, admin: &AdminState, (stopped, workers): (&Semaphore, usize)) -> io::Result<()> {
        let _ = stopped.acquire_many(u32::try_from(workers).unwrap_or(u32::MAX)).await;
        let snapshot = buckets::snapshot(&admin.config.load(), &admin.stores).unwrap_or_default();
        self.stream.write_u64_le(snapshot.len() as u64).await?;
        self.stream.write_all(&snapshot).await?;
        self.expect(SERVING).await
    }

    /// Waits for a message.
    async fn expect(&mut self, message: u8) -> io::Result<()> {
        let received = self.stream.read_u8().await?;
        if received == message { Ok(()) } else { Err(io::Error::other(format!("it sent {received:#x}"))) }
    }

    /// Returns the reason for `error`: mostly the end of the process, which closes its connection shortly before.
    async fn failed(&mut self, error: io::Error) -> HandoverError {
        match error.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => {}
            _ => return HandoverError::Protocol(error),
        }
        let Some(process) = &mut self.process else { return HandoverError::Gone };
        // Two seconds.
        for _ in 0..200 {
            if let Ok(Some(status)) = process.try_wait() {
                return HandoverError::Ended(status);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        HandoverError::Protocol(error)
    }
}

impl Drop for Successor {
    fn drop(&mut self) {
        if let Some(process) = self.process.as_mut().filter(|_| !self.serves) {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

impl Predecessor {
    /// Returns the process at the other end of `stream` when it is about to hand over.
    ///
    /// # Errors
    /// It has ended, or does not respond within `timeout`.
    pub(super) async fn meet(stream: UnixStream, timeout: Duration) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        let mut stream = tokio::net::UnixStream::from_std(stream)?;
        let mut hash_key = [0; 16];
        tokio::time::timeout(timeout, stream.read_exact(&mut hash_key)).await??;
        Ok(Self { stream, hash_key })
    }

    /// Waits until the process accepts no connections any more, and returns the snapshot of its buckets.
    ///
    /// # Errors
    /// It has ended, goes on itself, or does not respond within `timeout`.
    pub(super) async fn take_over(&mut self, timeout: Duration) -> io::Result<Vec<u8>> {
        tokio::time::timeout(timeout, self.receive()).await?
    }

    async fn receive(&mut self) -> io::Result<Vec<u8>> {
        self.stream.write_u8(READY).await?;
        let length = self.stream.read_u64_le().await?;
        if length > buckets::MAX_BYTES as u64 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut snapshot = Vec::new();
        (&mut self.stream).take(length).read_to_end(&mut snapshot).await?;
        if snapshot.len() as u64 == length { Ok(snapshot) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    /// Tells the process that this one serves.
    pub(super) async fn report_serving(mut self) {
        let _ = self.stream.write_u8(SERVING).await;
    }
}
