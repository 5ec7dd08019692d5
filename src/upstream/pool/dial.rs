//! From an origin to a connected socket.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;

use super::ConnectError;

/// A connection to `address`, or to the first of `host`'s addresses that takes one.
pub(super) async fn dial(host: &str, port: u16, address: Option<SocketAddr>) -> Result<TcpStream, ConnectError> {
    let stream = match address {
        Some(address) => TcpStream::connect(address).await.map_err(ConnectError::Connect)?,
        None => dial_by_name(host, port).await?,
    };
    let _ = stream.set_nodelay(true);
    let keepalive = TcpKeepalive::new().with_time(Duration::from_secs(30)).with_interval(Duration::from_secs(10));
    let _ = SockRef::from(&stream).set_tcp_keepalive(&keepalive);
    Ok(stream)
}

async fn dial_by_name(host: &str, port: u16) -> Result<TcpStream, ConnectError> {
    let addresses = tokio::net::lookup_host((host, port)).await.map_err(ConnectError::Resolve)?;
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(ConnectError::Connect(last))
}
