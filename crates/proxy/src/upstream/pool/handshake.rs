//! TLS and HTTP handshakes on a connected socket.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;

use crate::http::read_ahead;
use crate::upstream::origin::Origin;
use crate::upstream::pool::connection::Http1Sender;
use crate::upstream::pool::dial::ConnectError;
use crate::upstream::pool::head_limit::limit_heads;
use crate::upstream::pool::http2::streams::Streams;
use crate::upstream::pool::http2::{ConnectionSlot, connect};
use crate::upstream::pool::pool_settings::PoolSettings;
use tollgate_transport::executor::spawn_boxed;
use tollgate_transport::tls::TlsConnectors;

/// Connection after its handshakes.
pub(super) enum NewConnection {
    Http1(Http1Sender, Option<OwnedSemaphorePermit>),
    Http2(Rc<Streams>),
}

/// Performs the TLS handshake, if the origin requires TLS, and then the HTTP handshake. Under TLS the server chooses
/// the HTTP version; without TLS, the connection speaks HTTP/2 if `offers_http2`.
pub(super) async fn handshake(
    stream: TcpStream,
    origin: &Origin,
    tls: Option<&TlsConnectors>,
    offers_http2: bool,
    settings: &PoolSettings,
    slot: ConnectionSlot,
) -> Result<NewConnection, ConnectError> {
    let Some(tls) = tls else {
        return match offers_http2 {
            true => Ok(NewConnection::Http2(connect(stream, origin, settings, slot).await?)),
            false => http1(stream, settings, slot.permit).await,
        };
    };
    let connecting = tls.connect(stream, offers_http2);
    let connected =
        tokio::time::timeout(settings.handshake_timeout, connecting).await.map_err(|_| ConnectError::TlsTimeout)?;
    let stream = connected.map_err(ConnectError::Tls)?;
    if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
        Ok(NewConnection::Http2(connect(stream, origin, settings, slot).await?))
    } else {
        http1(stream, settings, slot.permit).await
    }
}

async fn http1<S>(
    stream: S,
    settings: &PoolSettings,
    permit: Option<OwnedSemaphorePermit>,
) -> Result<NewConnection, ConnectError>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (stream, head_limit) = limit_heads(stream, settings);
    let gate = stream.gate();
    let (mut sender, connection) = http1::Builder::new()
        .max_header_size(settings.max_head_bytes)
        .max_headers(settings.max_head_fields)
        .max_buf_size(settings.max_head_bytes.max(read_ahead::MAX))
        .handshake(TokioIo::new(stream))
        .await
        .map_err(ConnectError::Handshake)?;
    let read_ahead = head_limit.read_ahead().clone();
    let task = spawn_boxed(async move {
        let mut connection = pin!(connection.with_upgrades());
        let mut is_cut = false;
        // Requests on the connection get its errors. Unexpected bytes on an idle connection close it.
        let _ = poll_fn(|cx| {
            // hyper wakes the task once more when the last part of a response has been taken.
            let is_at_rest = read_ahead.is_at_rest() && gate.is_closed() && !is_cut;
            if is_at_rest || read_ahead.is_idle(cx) {
                return Poll::Pending;
            }
            let progress = connection.as_mut().poll(cx);
            is_cut = !tokio::task::coop::has_budget_remaining();
            progress
        })
        .await;
    });
    // The sender becomes ready when the task has been polled.
    sender.ready().await.map_err(ConnectError::Handshake)?;
    Ok(NewConnection::Http1(Http1Sender::new(sender, head_limit, task), permit))
}
