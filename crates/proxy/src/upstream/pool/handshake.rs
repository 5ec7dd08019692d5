//! TLS and HTTP/2 handshakes on a connected socket.

use std::rc::Rc;

use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;

use crate::http::upgrade::TunnelStream;
use crate::upstream::origin::Origin;
use crate::upstream::pool::dial::ConnectError;
use crate::upstream::pool::http1::{HeadLimits, Http1Connection};
use crate::upstream::pool::http2::streams::Streams;
use crate::upstream::pool::http2::{ConnectionSlot, connect};
use crate::upstream::pool::pool_settings::PoolSettings;
use tollgate_transport::tls::TlsConnectors;

/// Connection after its handshakes.
#[expect(clippy::large_enum_variant, reason = "it is taken apart at once")]
pub(super) enum NewConnection {
    Http1(Http1Connection, Option<OwnedSemaphorePermit>),
    Http2(Rc<Streams>),
}

/// Performs the TLS handshake, if the origin requires TLS, and then that of HTTP/2. Under TLS the server chooses
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
            false => Ok(http1(stream, settings, slot.permit)),
        };
    };
    let connecting = tls.connect(stream, offers_http2);
    let connected =
        tokio::time::timeout(settings.handshake_timeout, connecting).await.map_err(|_| ConnectError::TlsTimeout)?;
    let stream = connected.map_err(ConnectError::Tls)?;
    if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
        Ok(NewConnection::Http2(connect(stream, origin, settings, slot).await?))
    } else {
        Ok(http1(stream, settings, slot.permit))
    }
}

fn http1(
    stream: impl TunnelStream + 'static,
    settings: &PoolSettings,
    permit: Option<OwnedSemaphorePermit>,
) -> NewConnection {
    let limits = HeadLimits { max_bytes: settings.max_head_bytes, max_fields: settings.max_head_fields };
    NewConnection::Http1(Http1Connection::new(stream, limits), permit)
}
