//! One worker's accept loop, from its first connection to the end of its last.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};

use crate::server::connection::{Handler, Limits, serve};
use crate::server::drain::{Connections, Stage};
use crate::server::listener;

/// How long to leave `accept` alone when the process is out of file descriptors or memory: trying again at once
/// would fail at once, and burn the core that could be finishing requests.
const BACK_OFF: Duration = Duration::from_millis(100);
/// How often that is logged.
const LOG_EVERY: Duration = Duration::from_secs(1);
/// How long a draining gateway still takes requests on connections that are open, and new connections: clients and
/// load balancers learn of it by the answers.
const LAST_REQUESTS: Duration = Duration::from_secs(1);

/// How long connections that are half made when the door closes may take to be made. They are accepted: the client
/// may have sent its request with the last step, and closing the socket would reset it.
const LAST_HANDSHAKES: Duration = Duration::from_millis(100);

/// Accepts and serves connections, as many at a time as `gate` has permits for all workers, until `stop` resolves; then drains, `patience` long. Returns how
/// many connections were cut off at the end of it.
pub async fn run<H: Handler>(
    listener: TcpListener,
    handler: Rc<H>,
    limits: Rc<RefCell<Limits>>,
    gate: Arc<Semaphore>,
    connections: Arc<Connections>,
    stop: impl Future<Output = Duration>,
) -> usize {
    let start = |stream: TcpStream, peer: SocketAddr, permit| {
        let (connections, handler) = (Arc::clone(&connections), Rc::clone(&handler));
        let limits = limits.borrow().clone();
        tokio::task::spawn_local(serve(stream, peer, limits, connections, Arc::new(permit), handler));
    };
    let accepting = async {
        let mut logged = None;
        loop {
            // At the limit the kernel's queue holds the others: a closed gate, not a closed door.
            let Ok(permit) = Arc::clone(&gate).acquire_owned().await else { return };
            match listener.accept().await {
                Ok((stream, peer)) => start(stream, peer, permit),
                Err(error) if is_the_clients(&error) => {}
                Err(error) => {
                    if logged.is_none_or(|at: Instant| at.elapsed() >= LOG_EVERY) {
                        tracing::error!(%error, "cannot accept connections; trying again");
                        logged = Some(Instant::now());
                    }
                    sleep(BACK_OFF).await;
                }
            }
        }
    };
    let deadline = {
        let mut accepting = std::pin::pin!(accepting);
        let patience = tokio::select! {
            patience = stop => patience,
            () = &mut accepting => Duration::ZERO,
        };
        let deadline = Instant::now() + patience;
        connections.enter(Stage::LastRequests);
        let _ = tokio::time::timeout(LAST_REQUESTS.min(patience), &mut accepting).await;
        if listener::refuse_new(&listener).is_ok() {
            let _ = tokio::time::timeout(LAST_HANDSHAKES.min(patience), accepting).await;
        }
        deadline
    };
    // Whoever the kernel has accepted for us is not turned away.
    // The system is asked itself: tokio may not have heard of the latest yet.
    if let Ok(listener) = listener.into_std() {
        while let Ok(permit) = Arc::clone(&gate).try_acquire_owned()
            && let Ok((stream, peer)) = listener.accept()
        {
            if stream.set_nonblocking(true).is_ok()
                && let Ok(stream) = TcpStream::from_std(stream)
            {
                start(stream, peer, permit);
            }
        }
    }
    connections.enter(Stage::Closing);
    let _ = tokio::time::timeout_at(deadline, connections.closed()).await;
    connections.count()
}

/// Errors of the connection that was to be accepted, not of accepting.
fn is_the_clients(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}
