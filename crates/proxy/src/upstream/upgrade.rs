//! Tunnels. From the upstream's status 101 on, bytes pass both ways unread (RFC 9110 §7.8).

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Response;
use http::header::{CONNECTION, HeaderValue, UPGRADE};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, sleep_until};
use tollgate_filters::context::Tunnel;

use crate::http::body::Body;
use crate::http::upgrade::{TunnelClient, TunnelState, Upgrade};
use crate::upstream::incoming::Incoming;
use crate::upstream::pick::HeldConnection;
use crate::upstream::pool::http1::UpstreamTunnel;
use tollgate_transport::executor::spawn_boxed;

/// Returns the upstream's status 101 to the client and connects the two connections once it has been written. A
/// draining gateway waits for tunnels as it does for requests: until the deadline.
pub(super) fn tunnel(
    response: Response<Incoming>,
    mut upstream: UpstreamTunnel,
    connection: HeldConnection,
    requested: &Upgrade,
) -> Response<Body> {
    let (client, idle_timeout) = (requested.host.open_tunnel(), requested.idle_timeout);
    let (tunnel, end) = Tunnel::open();
    let state = TunnelState::default();
    let closing = state.clone();
    spawn_boxed(async move {
        // The connection with the upstream is held until the end.
        let _held = (end, connection);
        let Ok(TunnelClient { stream, open: _open }) = client.await else { return };
        let latest = Cell::new(Instant::now());
        let mut client = ClientSide { stream, latest: &latest };
        tokio::select! {
            // A reset by either side is a normal end of a tunnel.
            _ = tokio::io::copy_bidirectional(&mut client, &mut upstream) => {}
            () = idle(&latest, idle_timeout) => closing.set_idle(),
        }
    });
    let (mut head, _) = response.into_parts();
    head.extensions.insert(tunnel);
    head.extensions.insert(state);
    let protocol = head.headers.remove(UPGRADE);
    for name in [CONNECTION, http::header::TRANSFER_ENCODING, http::header::CONTENT_LENGTH] {
        head.headers.remove(name);
    }
    head.headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    if let Some(protocol) = protocol {
        head.headers.insert(UPGRADE, protocol);
    }
    Response::from_parts(head, Body::default())
}

/// Client's side of a tunnel, with the time of the latest bytes. Those of both directions pass it.
struct ClientSide<'t, S> {
    stream: S,
    latest: &'t Cell<Instant>,
}

impl<S> ClientSide<'_, S> {
    fn note<T>(&self, passed: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if passed.is_ready() {
            self.latest.set(Instant::now());
        }
        passed
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ClientSide<'_, S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        self.note(read)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ClientSide<'_, S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.note(written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Completes when no byte has passed since `timeout`.
async fn idle(latest: &Cell<Instant>, timeout: Option<Duration>) {
    let Some(timeout) = timeout else { return std::future::pending().await };
    while latest.get() + timeout > Instant::now() {
        sleep_until(latest.get() + timeout).await;
    }
}
