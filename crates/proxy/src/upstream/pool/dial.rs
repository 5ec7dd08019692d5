//! TCP connections to origins and proxies.

use std::io;
use std::net::SocketAddr;

use socket2::SockRef;
use tokio::net::TcpStream;

use crate::http::keepalive::KEEPALIVE;
use crate::upstream::origin::Origin;
use crate::upstream::pool::name_lookup::NameLookup;
use crate::upstream::pool::{ConnectError, PoolSettings};
use crate::upstream::proxy;

/// Connects to `origin`, through the proxy of `settings` if it applies. `address` is the origin's address, if its host is one.
pub(super) async fn dial(
    origin: &Origin,
    address: Option<SocketAddr>,
    settings: &PoolSettings,
    names: &NameLookup,
) -> Result<TcpStream, ConnectError> {
    let proxy = settings.proxy.as_deref().filter(|proxy| proxy::applies_to(proxy, &origin.host));
    let Some(proxy) = proxy else {
        let stream = match address {
            Some(address) => configured(TcpStream::connect(address).await.map_err(ConnectError::Connect)?),
            None => dial_by_name(names, &origin.host, origin.port).await?,
        };
        return check_peer(stream, settings.refused);
    };
    let mut stream = dial_by_name(names, &proxy.host, proxy.port).await?;
    let host = origin.address.map_or_else(|| origin.host.clone(), |address| address.to_string());
    proxy::open_tunnel(&mut stream, proxy, &host, origin.port).await.map_err(ConnectError::Proxy)?;
    Ok(stream)
}

/// Connects to the first address of the name that accepts.
async fn dial_by_name(names: &NameLookup, host: &str, port: u16) -> Result<TcpStream, ConnectError> {
    let addresses = names.look_up(host, port).await.map_err(ConnectError::Resolve)?;
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host name has no address");
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(configured(stream)),
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
