//! Connections of the admin port and of its Unix socket.

use std::convert::Infallible;
use std::error::Error;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use http_body_util::BodyExt as _;
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream, unix};
use tokio::sync::watch;

use crate::admin::access::{Peer, RefusalReason};
use crate::admin::admin_state::AdminState;
use crate::admin::connection_slots::{ConnectionSlot, ConnectionSlots, Deadline, REQUEST_TIMEOUT};
use crate::admin::events;
use crate::admin::respond::respond;
use tollgate_proxy::server::stream::ClientStream;
use tollgate_transport::certificate::client_certificate;
use tollgate_transport::executor::spawn_boxed;

/// Maximum number of connections of the port, and of the socket. A further client gets the slot of the longest idle
/// connection. If all have requests in progress, it waits.
const MAX_CONNECTIONS: usize = 128;
/// Pause after `accept` has failed.
const BACK_OFF: Duration = Duration::from_millis(100);

/// Serves the admin port until the process ends. Accepts connections while `open` is true, and `listener` listens from then on.
pub async fn port(listener: std::net::TcpListener, state: Arc<AdminState>, mut open: watch::Receiver<bool>) {
    events::record(&state);
    if open.wait_for(|is_open| *is_open).await.is_err() {
        return;
    }
    let listener = match TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "the admin port cannot be served"),
    };
    let serve = |(stream, peer): (TcpStream, SocketAddr), state, slot| {
        serve_client(stream, peer.ip().to_canonical(), state, slot)
    };
    accept(|| listener.accept(), serve, &state, open).await;
}

/// Serves the Unix socket until the process ends. Its connections count apart from those of the port.
pub async fn socket(listener: UnixListener, state: Arc<AdminState>, open: watch::Receiver<bool>) {
    events::record(&state);
    let serve =
        |(stream, _): (UnixStream, unix::SocketAddr), state, slot| serve_connection(stream, Peer::Socket, state, slot);
    accept(|| listener.accept(), serve, &state, open).await;
}

async fn accept<S, A, F>(
    accept: impl Fn() -> A,
    serve: impl Fn(S, Arc<AdminState>, Rc<ConnectionSlot>) -> F,
    state: &Arc<AdminState>,
    mut open: watch::Receiver<bool>,
) where
    A: Future<Output = io::Result<S>>,
    F: Future<Output = ()> + 'static,
{
    let slots = ConnectionSlots::new(MAX_CONNECTIONS);
    loop {
        let accepted = tokio::select! {
            biased;
            true = is_closed(&mut open) => {
                if open.wait_for(|is_open| *is_open).await.is_err() {
                    return;
                }
                continue;
            }
            accepted = accept() => accepted,
        };
        let Ok(accepted) = accepted else {
            tokio::time::sleep(BACK_OFF).await;
            continue;
        };
        let slot = slots.take().await;
        let serving = serve(accepted, Arc::clone(state), Rc::clone(&slot));
        spawn_boxed(async move {
            // An evicted connection reads no further request.
            tokio::select! {
                biased;
                () = slot.evicted() => {}
                () = serving => {}
            }
        });
    }
}

/// Waits until another process accepts the connections. Returns false if that never happens.
async fn is_closed(open: &mut watch::Receiver<bool>) -> bool {
    open.wait_for(|is_open| !is_open).await.is_ok()
}

/// Serves a connection of the port, after a TLS handshake if the configuration has TLS.
async fn serve_client(stream: TcpStream, client: IpAddr, state: Arc<AdminState>, slot: Rc<ConnectionSlot>) {
    let Some(tls) = state.config.load().management.tls.as_ref().map(|tls| Arc::clone(&tls.config)) else {
        return serve_connection(stream, Peer::Port { client, certificate: None }, state, slot).await;
    };
    match tokio::time::timeout(HEADER_TIMEOUT, Box::pin(ClientStream::handshake(stream, tls))).await {
        Ok(Ok((stream, _))) => {
            let certificate =
                stream.client_chain().and_then(<[_]>::first).map(|leaf| Arc::new(client_certificate(leaf)));
            serve_connection(stream, Peer::Port { client, certificate }, state, slot).await;
        }
        Ok(Err(error)) => tracing::warn!(%client, %error, "tls handshake on the admin port failed"),
        Err(_) => tracing::warn!(%client, "tls handshake on the admin port timed out"),
    }
}

/// Timeout for a TLS handshake, for a request head, and for an idle connection.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum size of a request head in bytes.
const MAX_HEAD_BYTES: usize = 64 * 1024;

/// Serves one connection of `peer`.
async fn serve_connection(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    peer: Peer,
    state: Arc<AdminState>,
    slot: Rc<ConnectionSlot>,
) {
    let (client, peer) = (peer.to_string(), Rc::new(peer));
    let of_requests = Arc::clone(&state);
    let served = serve_requests(stream, slot, move |request, deadline| {
        let (state, peer) = (Arc::clone(&of_requests), Rc::clone(&peer));
        async move { respond(request, &peer, &state, deadline).await }
    });
    if let Err(error) = served.await
        && error.is_parse()
    {
        let reason = RefusalReason::Malformed;
        state.refusals.count(reason);
        tracing::warn!(%client, reason = reason.as_str(), %error, "request to the admin port refused");
    }
}

/// Serves one connection, until it ends or its deadline passes. Each request moves the deadline.
///
/// # Errors
/// A request could not be read, or a response not be written.
async fn serve_requests<S, B, F>(
    stream: S,
    slot: Rc<ConnectionSlot>,
    respond: impl Fn(Request<Incoming>, Deadline) -> F,
) -> hyper::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
    B: Body + Unpin + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
    F: Future<Output = Response<B>>,
{
    let deadline = Deadline::new();
    let latest = deadline.clone();
    let service = service_fn(move |request| {
        latest.set(REQUEST_TIMEOUT);
        let busy = slot.begin();
        let response = respond(request, latest.clone());
        async move {
            // The connection is busy until the body is dropped.
            let hold = move |_: &_| {
                let _ = &busy;
            };
            Ok::<_, Infallible>(response.await.map(|body| body.inspect_frame(hold)))
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        result = connection => result,
        () = deadline.passed() => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::net::Ipv4Addr;

    use bytes::Bytes;
    use http_body_util::Full;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
    use tokio::task::LocalSet;
    use tokio::time::Instant;

    use super::*;
    use crate::admin::ConfigState;
    use crate::admin::connection_slots::ConnectionSlots;
    use tollgate_config::StartSettings;
    use tollgate_proxy::state::stores::SharedStores;
    use tollgate_telemetry::top_keys::Readers;

    fn state() -> Arc<AdminState> {
        let yaml = "routes: [{id: a, uri: 'echo:', predicates: [Path=/a]}]";
        let loaded = tollgate_config::parse("test", yaml, &|_| None).map_err(|report| report.render(false)).unwrap();
        let (config, notes) = (Arc::new(loaded.config), ConfigState::new(&[], loaded.notes));
        let stores = SharedStores::new(&config);
        AdminState::new(
            (Ipv4Addr::LOCALHOST.into(), Arc::clone(&config), notes, StartSettings::of(&config)),
            stores,
            Arc::default(),
            Arc::default(),
            Readers::default(),
            None,
            None,
        )
        .0
    }

    fn peer() -> Peer {
        Peer::Port { client: Ipv4Addr::LOCALHOST.into(), certificate: None }
    }

    /// Asks for events. The connection holds 1024 bytes.
    async fn view(state: &Arc<AdminState>) -> (DuplexStream, tokio::task::JoinHandle<()>) {
        let (mut client, server) = tokio::io::duplex(1024);
        let state = Arc::clone(state);
        let slot = ConnectionSlots::new(1).take().await;
        let served = tokio::task::spawn_local(serve_connection(server, peer(), state, slot));
        client.write_all(b"GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
        (client, served)
    }

    #[tokio::test(start_paused = true)]
    async fn a_viewer_that_reads_is_kept_and_one_that_does_not_is_dropped() {
        let body = async {
            let (state, started) = (state(), Instant::now());
            let (_silent, served) = view(&state).await;
            let (mut reading, _kept) = view(&state).await;
            let reads = async {
                let mut buffer = [0; 4096];
                while reading.read(&mut buffer).await.unwrap() > 0 {}
            };
            tokio::select! {
                ended = served => ended.unwrap(),
                () = reads => unreachable!("the viewer that reads was dropped"),
            }
            // The server holds a few snapshots, of which there is one a second.
            assert!(started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
            assert_eq!(state.events.count(), 1);
        };
        LocalSet::new().run_until(body).await;
    }

    const HEAD: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n";

    /// Sends `request` and reads nothing. Returns the time until the connection ends, on a virtual clock.
    async fn lifetime(request: &[u8], response_bytes: usize) -> Duration {
        let (mut client, server) = tokio::io::duplex(1024);
        client.write_all(request).await.unwrap();
        let started = Instant::now();
        let body = Bytes::from(vec![b'x'; response_bytes]);
        let slot = ConnectionSlots::new(1).take().await;
        let _ = serve_requests(server, slot, |_, _| std::future::ready(Response::new(Full::new(body.clone())))).await;
        started.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_that_does_not_arrive_ends_the_connection() {
        assert_eq!(lifetime(HEAD, 1).await.as_secs(), HEADER_TIMEOUT.as_secs());
        assert_eq!(lifetime(b"", 1).await.as_secs(), HEADER_TIMEOUT.as_secs(), "no byte");
    }

    #[tokio::test(start_paused = true)]
    async fn a_response_that_is_not_read_ends_the_connection() {
        let request = [HEAD, b"\r\n"].concat();
        assert_eq!(lifetime(&request, 1 << 20).await.as_secs(), REQUEST_TIMEOUT.as_secs());
        assert_eq!(lifetime(&request, 1).await.as_secs(), HEADER_TIMEOUT.as_secs(), "an idle connection");
    }
}
