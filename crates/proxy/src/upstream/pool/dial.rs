//! TCP connections to origins and proxies, the handshakes of TLS and HTTP/2 on them, and the errors of establishing a connection.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

use socket2::SockRef;
use thiserror::Error;
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;

use crate::http::sockets::KEEPALIVE;
use crate::http::upgrade::TunnelStream;
use crate::upstream::origin::Origin;
use crate::upstream::pool::PoolSettings;
use crate::upstream::pool::http1::{HeadLimits, Http1Connection};
use crate::upstream::pool::http2::streams::Streams;
use crate::upstream::pool::http2::{ConnectionSlot, connect};
use crate::upstream::pool::name_lookup::{NameLookup, Peer};
use crate::upstream::proxy::{self, ProxyError};
use tollgate_transport::tls::{TlsConnectors, TlsError};

/// Connection, with the address of a name that it leads to; `None` if it was connected by address.
type Dialed = (TcpStream, Option<Peer>);

/// Connects to `origin`, through the proxy of `settings` if it applies. `address` is the origin's address, if its host is one.
pub(super) async fn dial(
    origin: &Origin,
    address: Option<SocketAddr>,
    settings: &PoolSettings,
    names: &NameLookup,
) -> Result<Dialed, ConnectError> {
    let proxy = settings.proxy.as_deref().filter(|proxy| proxy::applies_to(proxy, &origin.host));
    let Some(proxy) = proxy else {
        let (stream, peer) = match address {
            Some(address) => (configured(TcpStream::connect(address).await.map_err(ConnectError::Connect)?), None),
            None => dial_by_name(names, &origin.host, origin.port).await?,
        };
        return Ok((check_peer(stream, settings.refused)?, peer));
    };
    let (mut stream, peer) = dial_by_name(names, &proxy.host, proxy.port).await?;
    let host = origin.address.map_or_else(|| origin.host.clone(), |address| address.to_string());
    proxy::open_tunnel(&mut stream, proxy, &host, origin.port).await.map_err(ConnectError::Proxy)?;
    Ok((stream, peer))
}

/// Connects to the first address of the name that accepts.
async fn dial_by_name(names: &NameLookup, host: &str, port: u16) -> Result<Dialed, ConnectError> {
    let addresses = names.look_up(host, port).await.map_err(ConnectError::Resolve)?;
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host name has no address");
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok((configured(stream), Some(names.peer(address)))),
            Err(error) => last = error,
        }
    }
    Err(ConnectError::Connect(last))
}

/// Refuses a connection to the address `refused`. The peer's address is compared, which no spelling of the target changes:
/// `0.0.0.0`, `::ffff:127.0.0.1` and every name of this host lead to the same one.
fn check_peer(stream: TcpStream, refused: Option<SocketAddr>) -> Result<TcpStream, ConnectError> {
    let canonical = |address: SocketAddr| (address.ip().to_canonical(), address.port());
    match refused {
        Some(refused) if stream.peer_addr().is_ok_and(|peer| canonical(peer) == canonical(refused)) => {
            Err(ConnectError::OwnAdminPort)
        }
        _ => Ok(stream),
    }
}

fn configured(stream: TcpStream) -> TcpStream {
    let _ = stream.set_nodelay(true);
    let _ = SockRef::from(&stream).set_tcp_keepalive(&KEEPALIVE);
    stream
}

/// Error of establishing a connection to an upstream.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The host name could not be resolved.
    #[error("cannot resolve the host name of the upstream")]
    Resolve(#[source] io::Error),
    /// The connection was refused, or the host is unreachable.
    #[error("cannot connect to the upstream")]
    Connect(#[source] io::Error),
    /// The address is the gateway's own admin port, which would take the request for one of an operator.
    #[error("the target is the admin port of the gateway itself")]
    OwnAdminPort,
    /// The connect timeout passed.
    #[error("the upstream did not accept the connection in time")]
    Timeout,
    /// The proxy refused or failed.
    #[error("cannot connect through `httpclient.proxy`")]
    Proxy(#[source] ProxyError),
    /// The TLS handshake failed.
    #[error("TLS handshake with the upstream failed")]
    Tls(#[source] TlsError),
    /// The TLS handshake exceeded `handshake-timeout`.
    #[error("the upstream did not complete the TLS handshake in time")]
    TlsTimeout,
    /// The HTTP/2 handshake failed.
    #[error("HTTP handshake with the upstream failed")]
    Http2(#[source] h2::Error),
    /// All connections allowed by `httpclient.pool.max-connections`, or their streams, were in use for `acquire-timeout`.
    #[error("all connections allowed by `httpclient.pool.max-connections` are in use")]
    Exhausted,
}

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
