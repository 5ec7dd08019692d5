//! PROXY headers: connections of trusted load balancers begin with the address of their client.

use std::cell::Cell;
use std::io;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;

use rustix::net::{RecvFlags, recv};
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
    // A load balancer sends the header when it has connected: it has usually arrived, and nothing waits.
    if let Some(received) = arrived(stream, peer, protocol) {
        return received;
    }
    wait(stream, peer, protocol, open).await
}

/// Reads a header that has arrived. Returns `None` if more bytes are needed.
fn arrived(stream: &TcpStream, peer: SocketAddr, protocol: &ProxyProtocol) -> Option<Result<Client, Unserved>> {
    let mut space = [MaybeUninit::uninit(); MAX_BYTES];
    // The runtime has not been told yet that bytes have arrived, so the socket itself is asked.
    let ((bytes, _), _) = recv(stream, &mut space[..], RecvFlags::PEEK | RecvFlags::DONTWAIT).ok()?;
    read(stream, bytes, peer, protocol)
}

/// Waits for a header.
async fn wait(
    stream: &TcpStream,
    peer: SocketAddr,
    protocol: &ProxyProtocol,
    open: &OpenConnection,
) -> Result<Client, Unserved> {
    let has_bytes = Cell::new(false);
    let reading = pin!(peek_until::<MAX_BYTES, _>(stream, |bytes, is_last| {
        has_bytes.set(!bytes.is_empty());
        let ended = match bytes {
            _ if !is_last && !bytes.is_empty() => None,
            [] => Some(Err(Unserved::Ended)),
            _ => Some(Err(Unserved::Failed(HeaderFailure::Malformed))),
        };
        read(stream, bytes, peer, protocol).or(ended)
    }));
    match wait_for_client(reading, open, protocol.timeout.get()).await {
        Ok(received) => received,
        Err(error) if error.kind() != io::ErrorKind::TimedOut => Err(Unserved::Ended),
        Err(_) if protocol.is_optional() && !has_bytes.get() => Ok(peer.into()),
        Err(_) => Err(Unserved::Failed(HeaderFailure::Timeout)),
    }
}

/// Reads the header at the start of `bytes`, which have arrived and are still in the socket. Returns `None` if more bytes are
/// needed.
fn read(
    stream: &TcpStream,
    bytes: &[u8],
    peer: SocketAddr,
    protocol: &ProxyProtocol,
) -> Option<Result<Client, Unserved>> {
    match parse(bytes) {
        Ok(header) => {
            let header = header?;
            let peer = header.source.unwrap_or(peer);
            let client = Client { peer, proxy_header: Some(Rc::new(ProxyHeader::from(&header))) };
            Some(consume(stream, header.length).map(|()| client).map_err(|_| Unserved::Ended))
        }
        Err(HeaderError::Missing) if protocol.is_optional() => Some(Ok(peer.into())),
        Err(error) => Some(Err(Unserved::Failed(error.into()))),
    }
}

/// Removes `length` bytes that have arrived from the socket.
fn consume(stream: &TcpStream, mut length: usize) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); CONSUMED_BYTES];
    while length > 0 {
        match recv(stream, &mut space[..length.min(CONSUMED_BYTES)], RecvFlags::DONTWAIT)? {
            (_, 0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            (_, count) => length -= count,
        }
    }
    Ok(())
}
