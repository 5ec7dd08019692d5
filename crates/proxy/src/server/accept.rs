//! Accept loop of one worker, from its first connection to the end of its last.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep};

use crate::http::handler::Handler;
use crate::server::connection::{ConnectionLimits, serve};
use crate::server::drain::{Connections, DrainStage};
use crate::server::gate::{Gate, Refused};
use crate::server::listener;
use tollgate_transport::executor::spawn_boxed;

/// Pause after `accept` failed because the process is out of file descriptors or memory. An immediate retry would fail
/// again and use CPU time that open requests need.
const BACK_OFF: Duration = Duration::from_millis(100);
/// Minimum interval between two log lines about failed accepts.
const LOG_EVERY: Duration = Duration::from_secs(1);
/// Time for which a draining gateway still accepts connections and takes requests on open ones. Clients and load
/// balancers learn of the shutdown from the responses.
const LAST_REQUESTS: Duration = Duration::from_secs(1);
/// Time limit for TCP handshakes that have begun when the listener stops. They are completed because the client may
/// have sent its request with the last packet; closing the socket would reset it.
const LAST_HANDSHAKES: Duration = Duration::from_millis(100);

/// Accepts and serves connections until `stop` resolves to the drain timeout; then drains for at most that long.
/// `gate` admits the connections of all workers.
///
/// Returns the number of connections that were still open at the end.
pub async fn run<H: Handler>(
    listener: TcpListener,
    handler: Rc<H>,
    limits: Rc<RefCell<ConnectionLimits>>,
    gate: Gate,
    connections: Arc<Connections>,
    stop: impl Future<Output = Duration>,
) -> usize {
    let refused = RefCell::new(Refused::default());
    let start = |stream: TcpStream, peer: SocketAddr, place| {
        // A listener on `::` reports clients of IPv4 as `::ffff:192.0.2.1`.
        let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
        let limits = limits.borrow().clone();
        let Some(permit) = gate.admit(place, peer.ip(), limits.of_client(peer.ip())) else {
            return refused.borrow_mut().add(peer.ip());
        };
        let (connections, handler) = (Arc::clone(&connections), Rc::clone(&handler));
        spawn_boxed(serve(stream, peer, limits, connections, permit, handler));
    };
    let waiting = Cell::new(None);
    let accepting = accept_all(&listener, &gate, &waiting, &start);
    let deadline = {
        let mut accepting = std::pin::pin!(accepting);
        let timeout = tokio::select! {
            timeout = stop => timeout,
            () = &mut accepting => Duration::ZERO,
        };
        let deadline = Instant::now() + timeout;
        connections.enter(DrainStage::LastRequests);
        let _ = tokio::time::timeout(LAST_REQUESTS.min(timeout), &mut accepting).await;
        if listener::refuse_new(&listener).is_ok() {
            let _ = tokio::time::timeout(LAST_HANDSHAKES.min(timeout), accepting).await;
        }
        deadline
    };
    if let Some((stream, peer)) = waiting.take()
        && let Some(place) = gate.try_place()
    {
        start(stream, peer, place);
    }
    accept_queued(listener, &gate, &start);
    connections.enter(DrainStage::Closing);
    let _ = tokio::time::timeout_at(deadline, connections.closed()).await;
    connections.count()
}

/// Connection that was accepted and waits for a place.
type Waiting = Cell<Option<(TcpStream, SocketAddr)>>;

async fn accept_all(
    listener: &TcpListener,
    gate: &Gate,
    waiting: &Waiting,
    start: &impl Fn(TcpStream, SocketAddr, OwnedSemaphorePermit),
) {
    let mut logged = None;
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                if let Some(place) = gate.try_place() {
                    start(stream, peer, place);
                    continue;
                }
                // At the limit, further connections stay in the kernel's accept queue.
                waiting.set(Some((stream, peer)));
                let Some(place) = gate.place().await else { return };
                if let Some((stream, peer)) = waiting.take() {
                    start(stream, peer, place);
                }
            }
            Err(error) if is_connection_error(&error) => {}
            Err(error) => {
                if logged.is_none_or(|at: Instant| at.elapsed() >= LOG_EVERY) {
                    tracing::error!(%error, "cannot accept connections; retrying");
                    logged = Some(Instant::now());
                }
                sleep(BACK_OFF).await;
            }
        }
    }
}

/// Serves the connections already in the accept queue. `accept` is called on the socket itself, because tokio may not
/// know of the latest connections yet.
fn accept_queued(listener: TcpListener, gate: &Gate, start: &impl Fn(TcpStream, SocketAddr, OwnedSemaphorePermit)) {
    let Ok(listener) = listener.into_std() else { return };
    while let Some(place) = gate.try_place()
        && let Ok((stream, peer)) = listener.accept()
    {
        if stream.set_nonblocking(true).is_ok()
            && let Ok(stream) = TcpStream::from_std(stream)
        {
            start(stream, peer, place);
        }
    }
}

/// Returns true if the error is about the accepted connection and not about accepting.
fn is_connection_error(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}
