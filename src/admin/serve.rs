//! Connections of the admin port and of its Unix socket.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream, unix};

use crate::admin::connection::{self, HEADER_TIMEOUT};
use crate::admin::connection_slots::{ConnectionSlot, ConnectionSlots};
use crate::admin::peer::Peer;
use crate::admin::state::AdminState;
use tollgate_proxy::http::certificate::CertificateNames;
use tollgate_proxy::server::stream::ClientStream;
use tollgate_transport::executor::spawn_boxed;

/// Maximum number of connections of the port, and of the socket. A further client gets the slot of the longest idle
/// connection. If all have requests in progress, it waits.
const MAX_CONNECTIONS: usize = 128;
/// Pause after `accept` has failed.
const BACK_OFF: Duration = Duration::from_millis(100);

/// Serves the admin port until the process ends.
pub async fn port(listener: TcpListener, state: Arc<AdminState>) {
    let serve = |(stream, peer): (TcpStream, SocketAddr), state, slot| serve_client(stream, peer.ip(), state, slot);
    accept(|| listener.accept(), serve, &state).await;
}

/// Serves the Unix socket until the process ends. Its connections count apart from those of the port.
pub async fn socket(listener: UnixListener, state: Arc<AdminState>) {
    let serve =
        |(stream, _): (UnixStream, unix::SocketAddr), state, slot| connection::serve(stream, Peer::Socket, state, slot);
    accept(|| listener.accept(), serve, &state).await;
}

async fn accept<S, A, F>(
    accept: impl Fn() -> A,
    serve: impl Fn(S, Arc<AdminState>, Rc<ConnectionSlot>) -> F,
    state: &Arc<AdminState>,
) where
    A: Future<Output = io::Result<S>>,
    F: Future<Output = ()> + 'static,
{
    let slots = ConnectionSlots::new(MAX_CONNECTIONS);
    loop {
        let Ok(accepted) = accept().await else {
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

/// Serves a connection of the port, after a TLS handshake if the configuration has TLS.
async fn serve_client(stream: TcpStream, client: IpAddr, state: Arc<AdminState>, slot: Rc<ConnectionSlot>) {
    let Some(tls) = state.config.load().management.tls.as_ref().map(|tls| Arc::clone(&tls.config)) else {
        return connection::serve(stream, Peer::Port { client, certificate: None }, state, slot).await;
    };
    match tokio::time::timeout(HEADER_TIMEOUT, Box::pin(ClientStream::handshake(stream, tls))).await {
        Ok(Ok((stream, _))) => {
            let certificate = stream.client_certificate().map(CertificateNames::of);
            connection::serve(stream, Peer::Port { client, certificate }, state, slot).await;
        }
        Ok(Err(error)) => tracing::warn!(%client, %error, "tls handshake on the admin port failed"),
        Err(_) => tracing::warn!(%client, "tls handshake on the admin port timed out"),
    }
}
