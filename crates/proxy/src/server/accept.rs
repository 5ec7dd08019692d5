//! Accept loop of one worker, from its first connection to the end of its last.

use std::cell::{Cell, RefCell};
use std::future::{pending, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, sleep};

use crate::http::handler::Handler;
use crate::server::connection::{Acceptor, ConnectionLimits};
use crate::server::drain::{Connections, DrainStage};
use crate::server::gate::Gate;
use crate::server::listener;

/// Pause after `accept` failed because the process is out of file descriptors or memory. An immediate retry would fail
/// again and use CPU time that open requests need.
const BACK_OFF: Duration = Duration::from_millis(100);
/// Minimum interval between two log lines about failed accepts.
const LOG_EVERY: Duration = Duration::from_secs(1);
/// Time for which a draining gateway still accepts connections and takes requests on open ones. Clients and load
/// balancers learn of the shutdown from the responses.
pub const LAST_REQUESTS: Duration = Duration::from_secs(1);
/// Time limit for TCP handshakes that have begun when the listener stops. They are completed because the client may
/// have sent its request with the last packet; closing the socket would reset it.
const LAST_HANDSHAKES: Duration = Duration::from_millis(100);

/// Order of the process to its workers.
#[derive(Clone, Debug)]
pub enum Order {
    /// Accept no connection yet: the sockets may not listen.
    Wait,
    /// Accept and serve connections.
    Serve,
    /// Accept and serve connections, each response being the last one of its connection.
    Announce,
    /// Accept no connection, and close idle ones. A permit is added for each worker that has stopped.
    Pause(Arc<Semaphore>),
    /// End.
    Drain(Drain),
}

/// End of a worker.
#[derive(Clone, Debug)]
pub struct Drain {
    /// Time for requests in flight.
    pub timeout: Duration,
    /// True if another process has all listening sockets too: it accepts the connections in their queues.
    pub leaves_queues: bool,
    /// A permit is added for each worker that takes no more requests.
    pub closed: Arc<Semaphore>,
}

/// Listening socket of a worker.
pub type Listener<L> = (L, ListenerKind);

/// Properties of a listening socket.
#[derive(Clone, Copy, Debug, Default)]
pub struct ListenerKind {
    /// True if it serves clear text beside listeners with TLS.
    pub is_plain: bool,
    /// True if a service manager keeps it open. The next process accepts the connections in its queue.
    pub is_kept: bool,
}

/// Accepts and serves connections until `orders` ask to drain; then drains. `gate` admits the connections of all workers.
///
/// Returns the number of connections that were still open at the end.
pub async fn run<H: Handler>(
    listeners: Vec<Listener<TcpListener>>,
    handler: Rc<H>,
    limits: Rc<RefCell<ConnectionLimits>>,
    gate: Gate,
    connections: Arc<Connections>,
    mut orders: watch::Receiver<Order>,
) -> usize {
    let acceptor = Rc::new(Acceptor::new(handler, gate.clone()));
    let start = |(stream, peer, kind): Accepted, place| {
        // A listener on `::` reports clients of IPv4 as `::ffff:192.0.2.1`.
        let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
        let mut limits = limits.borrow().clone();
        limits.tls = limits.tls.filter(|_| !kind.is_plain);
        acceptor.start(stream, peer, limits, connections.open(), place);
    };
    let waiting = Cell::new(None);
    let accepts: Cell<Accepts> = Cell::new(|_| true);
    let accepting = accept_all((&listeners, &accepts), &gate, &waiting, &start);
    let (deadline, closed) = {
        let mut accepting = std::pin::pin!(accepting);
        let drain = follow(&mut orders, &connections, accepting.as_mut()).await;
        let Drain { timeout, leaves_queues, closed } = drain;
        let deadline = Instant::now() + timeout;
        accepts.set(if leaves_queues { |_| false } else { |kind| !kind.is_kept });
        if connections.stage() < DrainStage::Closing {
            connections.enter(DrainStage::LastRequests);
            accept_until(sleep(LAST_REQUESTS.min(timeout)), accepting.as_mut(), true).await;
        }
        let mut ending = listeners.iter().filter(|(_, kind)| accepts.get()(*kind)).peekable();
        if ending.peek().is_some() && ending.all(|(listener, _)| listener::refuse_new(listener).is_ok()) {
            let _ = tokio::time::timeout(LAST_HANDSHAKES.min(timeout), accepting).await;
        }
        (deadline, closed)
    };
    if let Some(accepted) = waiting.take()
        && let Some(place) = gate.try_place()
    {
        start(accepted, place);
    }
    accept_queued(listeners.into_iter().filter(|(_, kind)| accepts.get()(*kind)), &gate, &start);
    connections.enter(DrainStage::Closing);
    closed.add_permits(1);
    let _ = tokio::time::timeout_at(deadline, connections.closed()).await;
    connections.count()
}

/// Follows the orders until one asks to drain. If the process has ended, there is no time.
async fn follow(
    orders: &mut watch::Receiver<Order>,
    connections: &Connections,
    mut accepting: Pin<&mut impl Future<Output = ()>>,
) -> Drain {
    loop {
        let order = orders.borrow_and_update().clone();
        let accepts = match order {
            Order::Wait => false,
            Order::Serve => {
                connections.enter(DrainStage::Serving);
                true
            }
            Order::Announce => {
                connections.enter(DrainStage::LastRequests);
                true
            }
            Order::Pause(paused) => {
                connections.enter(DrainStage::Closing);
                paused.add_permits(1);
                false
            }
            Order::Drain(drain) => return drain,
        };
        let mut has_ended = false;
        let changed = async { has_ended = orders.changed().await.is_err() };
        accept_until(changed, accepting.as_mut(), accepts).await;
        if has_ended {
            return Drain { timeout: Duration::ZERO, leaves_queues: false, closed: Arc::new(Semaphore::new(0)) };
        }
    }
}

/// Waits for `event`. If `accepts`, connections are accepted meanwhile.
async fn accept_until(event: impl Future<Output = ()>, accepting: Pin<&mut impl Future<Output = ()>>, accepts: bool) {
    tokio::select! {
        () = event => {}
        () = accepting, if accepts => {}
    }
}

/// Connection with its peer, and the kind of its listener.
type Accepted = (TcpStream, SocketAddr, ListenerKind);
/// Returns true for the listeners whose connections are accepted.
type Accepts = fn(ListenerKind) -> bool;
/// Connection that was accepted and waits for a place.
type Waiting = Cell<Option<Accepted>>;

/// Accepts and starts connections, without an end.
async fn accept_all(
    (listeners, accepts): (&[Listener<TcpListener>], &Cell<Accepts>),
    gate: &Gate,
    waiting: &Waiting,
    start: &impl Fn(Accepted, OwnedSemaphorePermit),
) {
    let mut logged = None;
    loop {
        match accept(listeners, accepts).await {
            Ok(accepted) => {
                if let Some(place) = gate.try_place() {
                    start(accepted, place);
                    continue;
                }
                // At the limit, further connections stay in the kernel's accept queue.
                waiting.set(Some(accepted));
                let Some(place) = gate.place().await else { return pending().await };
                if let Some(accepted) = waiting.take() {
                    start(accepted, place);
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

/// Accepts a connection from one of the listeners that `accepts` returns true for.
async fn accept(listeners: &[Listener<TcpListener>], accepts: &Cell<Accepts>) -> io::Result<Accepted> {
    poll_fn(|cx| {
        let accepted = listeners
            .iter()
            .filter(|(_, kind)| accepts.get()(*kind))
            .map(|(listener, kind)| listener.poll_accept(cx).map_ok(|(stream, peer)| (stream, peer, *kind)));
        let mut ready = accepted.filter(Poll::is_ready);
        ready.next().unwrap_or(Poll::Pending)
    })
    .await
}

/// Serves the connections already in the accept queues. `accept` is called on the sockets themselves, because tokio may not
/// know of the latest connections yet.
fn accept_queued(
    listeners: impl Iterator<Item = Listener<TcpListener>>,
    gate: &Gate,
    start: &impl Fn(Accepted, OwnedSemaphorePermit),
) {
    for (listener, kind) in listeners {
        let Ok(listener) = listener.into_std() else { continue };
        while let Some(place) = gate.try_place()
            && let Ok((stream, peer)) = listener.accept()
        {
            if stream.set_nonblocking(true).is_ok()
                && let Ok(stream) = TcpStream::from_std(stream)
            {
                start((stream, peer, kind), place);
            }
        }
    }
}

/// Returns true if the error is about the accepted connection and not about accepting.
fn is_connection_error(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}
