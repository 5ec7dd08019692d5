//! Connections of the admin port and of its Unix socket.

use std::cell::Cell;
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream, unix};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::admin::peer::Peer;
use crate::admin::respond;
use crate::admin::state::AdminState;
use crate::http::certificate::CertificateNames;
use crate::server::stream::ClientStream;

/// Timeout for a TLS handshake, for a request head, and for an idle connection.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout for a request as a whole, from its head to the last byte of the response that the client reads.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum size of a request head in bytes.
const MAX_HEAD_BYTES: usize = 64 * 1024;
/// Maximum number of connections of the port, and of the socket. Further clients wait in the accept queue.
const MAX_CONNECTIONS: usize = 128;
/// Pause after `accept` has failed.
const BACK_OFF: Duration = Duration::from_millis(100);

/// Serves the admin port until the process ends.
pub async fn port(listener: TcpListener, state: Arc<AdminState>) {
    let serve = |(stream, peer): (TcpStream, SocketAddr), state| serve_client(stream, peer.ip(), state);
    accept(|| listener.accept(), serve, &state).await;
}

/// Serves the Unix socket until the process ends. Its connections count apart from those of the port.
pub async fn socket(listener: UnixListener, state: Arc<AdminState>) {
    let serve = |(stream, _): (UnixStream, unix::SocketAddr), state| serve_stream(stream, Peer::Socket, state);
    accept(|| listener.accept(), serve, &state).await;
}

async fn accept<S, A, F>(accept: impl Fn() -> A, serve: impl Fn(S, Arc<AdminState>) -> F, state: &Arc<AdminState>)
where
    A: Future<Output = io::Result<S>>,
    F: Future<Output = ()> + 'static,
{
    let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
        let Ok(accepted) = accept().await else {
            tokio::time::sleep(BACK_OFF).await;
            continue;
        };
        let serving = serve(accepted, Arc::clone(state));
        tokio::task::spawn_local(async move {
            serving.await;
            drop(permit);
        });
    }
}

/// Serves a connection of the port, after a TLS handshake if the configuration has TLS.
async fn serve_client(stream: TcpStream, client: IpAddr, state: Arc<AdminState>) {
    let Some(tls) = state.config.load().management.tls.as_ref().map(|tls| Arc::clone(&tls.config)) else {
        return serve_stream(stream, Peer::Port { client, certificate: None }, state).await;
    };
    match tokio::time::timeout(HEADER_TIMEOUT, Box::pin(ClientStream::handshake(stream, tls))).await {
        Ok(Ok((stream, _))) => {
            let certificate = stream.client_certificate().map(CertificateNames::of);
            serve_stream(stream, Peer::Port { client, certificate }, state).await;
        }
        Ok(Err(error)) => tracing::debug!(%client, %error, "tls handshake of an admin client failed"),
        Err(_) => tracing::debug!(%client, "tls handshake of an admin client timed out"),
    }
}

/// Serves one connection.
async fn serve_stream<S>(stream: S, peer: Peer, state: Arc<AdminState>)
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let peer = Rc::new(peer);
    serve_requests(stream, move |request| {
        let (state, peer) = (Arc::clone(&state), Rc::clone(&peer));
        async move { respond(request, &peer, &state).await }
    })
    .await;
}

/// Serves one connection, until it ends or a request takes longer than [`REQUEST_TIMEOUT`].
async fn serve_requests<S, F>(stream: S, respond: impl Fn(Request<Incoming>) -> F)
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
    F: Future<Output = Response<Full<Bytes>>>,
{
    let started = Rc::new(Cell::new(Instant::now()));
    let latest = Rc::clone(&started);
    let service = service_fn(move |request| {
        latest.set(Instant::now());
        let response = respond(request);
        async move { Ok::<_, Infallible>(response.await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    let expired = async {
        // Each request moves the deadline.
        loop {
            let deadline = started.get() + REQUEST_TIMEOUT;
            tokio::time::sleep_until(deadline).await;
            if started.get() + REQUEST_TIMEOUT <= deadline {
                return;
            }
        }
    };
    tokio::select! {
        _ = connection => {}
        () = expired => {}
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use tokio::io::AsyncWriteExt;

    use super::*;

    const HEAD: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n";

    /// Sends `request` and reads nothing. Returns the time until the connection ends, on a virtual clock.
    async fn lifetime(request: &[u8], response_bytes: usize) -> Duration {
        let (mut client, server) = tokio::io::duplex(1024);
        client.write_all(request).await.unwrap();
        let started = Instant::now();
        let body = Bytes::from(vec![b'x'; response_bytes]);
        serve_requests(server, |_| std::future::ready(Response::new(Full::new(body.clone())))).await;
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
