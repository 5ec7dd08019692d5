//! From an origin to a connected socket.

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

/// A connection to `origin`, through the proxy if that is for it. `address` is the origin's, where its host is one.
pub(super) async fn dial(
    origin: &Origin,
    address: Option<SocketAddr>,
    proxy: Option<&Proxy>,
    names: &NameLookup,
) -> Result<TcpStream, ConnectError> {
    let Some(proxy) = proxy.filter(|proxy| proxy::applies(proxy, &origin.host)) else {
        return match address {
            Some(address) => Ok(tuned(TcpStream::connect(address).await.map_err(ConnectError::Connect)?)),
            None => dial_by_name(names, &origin.host, origin.port).await,
        };
    };
    let mut stream = dial_by_name(names, &proxy.host, proxy.port).await?;
    let host = origin.address.map_or_else(|| origin.host.clone(), |address| address.to_string());
    proxy::ask(&mut stream, proxy, &host, origin.port).await.map_err(ConnectError::Proxy)?;
    Ok(stream)
}

/// The first of the name's addresses that takes a connection.
async fn dial_by_name(names: &NameLookup, host: &str, port: u16) -> Result<TcpStream, ConnectError> {
    let addresses = names.look_up(host, port).await.map_err(ConnectError::Resolve)?;
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(tuned(stream)),
            Err(error) => last = error,
        }
    }
    Err(ConnectError::Connect(last))
}

fn tuned(stream: TcpStream) -> TcpStream {
    let _ = stream.set_nodelay(true);
    let keepalive = TcpKeepalive::new().with_time(Duration::from_secs(30)).with_interval(Duration::from_secs(10));
    let _ = SockRef::from(&stream).set_tcp_keepalive(&keepalive);
    stream
}
