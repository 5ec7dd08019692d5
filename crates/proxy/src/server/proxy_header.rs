//! PROXY headers: connections of trusted load balancers begin with the address of their client.

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

use tokio::net::TcpStream;
use tollgate_config::ProxyProtocol;
use tollgate_proxy_protocol::{HeaderError, MAX_BYTES, parse};

use crate::http::proxy_header::{HeaderFailure, ProxyHeader};
use crate::server::connection::wait_for_client;
use crate::server::drain::OpenConnection;
use crate::server::sniff::peek_until;

/// Bytes of a header that are consumed at once.
const CONSUMED_BYTES: usize = 256;

/// Client of a connection: its address, and the header that named it.
#[derive(Clone, Debug)]
pub(super) struct Client {
    pub(super) peer: SocketAddr,
    pub(super) proxy_header: Option<Rc<ProxyHeader>>,
}

impl From<SocketAddr> for Client {
    fn from(peer: SocketAddr) -> Self {
        Self { peer, proxy_header: None }
    }
}

/// Connection that is closed before its first request.
pub(super) enum Unserved {
    /// The header is late or broken.
    Failed(HeaderFailure),
    /// The connection has ended, or the gateway has closed it to make room or to shut down.
    Ended,
}

/// Reads the header at the start of a connection from `peer`, and leaves the bytes behind it. Without a header, the client is
/// `peer` if `protocol` permits that.
pub(super) async fn receive(
    stream: &TcpStream,
    peer: SocketAddr,
    protocol: &ProxyProtocol,
    open: &OpenConnection,
) -> Result<Client, Unserved> {
    let has_bytes = Cell::new(false);
    let reading = peek_until::<MAX_BYTES, _>(stream, |bytes, is_last| {
        has_bytes.set(!bytes.is_empty());
        match parse(bytes) {
            Ok(Some(header)) => {
                let peer = header.source.unwrap_or(peer);
                let client = Client { peer, proxy_header: Some(Rc::new(ProxyHeader::from(&header))) };
                Some(Ok((header.length, client)))
            }
            Err(HeaderError::Missing) if protocol.is_optional() => Some(Ok((0, peer.into()))),
            Err(error) => Some(Err(Unserved::Failed(error.into()))),
            Ok(None) if bytes.is_empty() => Some(Err(Unserved::Ended)),
            Ok(None) if is_last => Some(Err(Unserved::Failed(HeaderFailure::Malformed))),
            Ok(None) => None,
        }
    });
    match wait_for_client(reading, open, protocol.timeout.get()).await {
        Ok(received) => {
            let (length, client) = received?;
            consume(stream, length).map_err(|_| Unserved::Ended)?;
            Ok(client)
        }
        Err(error) if error.kind() != io::ErrorKind::TimedOut => Err(Unserved::Ended),
        Err(_) if protocol.is_optional() && !has_bytes.get() => Ok(peer.into()),
        Err(_) => Err(Unserved::Failed(HeaderFailure::Timeout)),
    }
}

/// Reads `length` bytes that have arrived.
fn consume(stream: &TcpStream, mut length: usize) -> io::Result<()> {
    let mut space = [0; CONSUMED_BYTES];
    while length > 0 {
        match stream.try_read(&mut space[..length.min(CONSUMED_BYTES)])? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => length -= count,
        }
    }
    Ok(())
}
