//! TCP connections to origins and proxies.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;

use crate::upstream::origin::Origin;
use crate::upstream::pool::ConnectError;
use crate::upstream::pool::name_lookup::NameLookup;
use crate::upstream::proxy;
use tollgate_config::Proxy;

/// Connects to `origin`, through the proxy if it applies. `address` is the origin's address, if its host is one.
pub(super) async fn dial(
    origin: &Origin,
    address: Option<SocketAddr>,
    proxy: Option<&Proxy>,
    names: &NameLookup,
) -> Result<TcpStream, ConnectError> {
    let Some(proxy) = proxy.filter(|proxy| proxy::applies_to(proxy, &origin.host)) else {
        return match address {
            Some(address) => Ok(configured(TcpStream::connect(address).await.map_err(ConnectError::Connect)?)),
            None => dial_by_name(names, &origin.host, origin.port).await,
        };
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

fn configured(stream: TcpStream) -> TcpStream {
    let _ = stream.set_nodelay(true);
    let keepalive = TcpKeepalive::new().with_time(Duration::from_secs(30)).with_interval(Duration::from_secs(10));
    let _ = SockRef::from(&stream).set_tcp_keepalive(&keepalive);
    stream
}
