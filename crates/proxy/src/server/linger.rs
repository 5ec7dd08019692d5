//! Bytes that a client still sends when the gateway has closed its sending side (RFC 9112 §9.6).
//!
//! If a socket is closed before all received bytes have been read, the kernel resets the connection. A client that sends
//! its whole request before it reads loses the response then. So these bytes are read and discarded first.

use std::io;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::task::coop::consume_budget;
use tokio::time::timeout;

/// Time limit for the bytes of a connection.
pub(super) const LINGER_TIME: Duration = Duration::from_secs(30);
/// Time without a byte after which the connection is closed.
const LINGER_IDLE: Duration = Duration::from_secs(5);
/// Bytes that are discarded, at most.
const LINGER_BYTES: usize = 64 * 1024 * 1024;
/// Bytes that are discarded at once.
const READ_BYTES: usize = 16 * 1024;

/// Discards bytes that have arrived. Returns their number, which is 0 at the end.
pub(super) fn discard_some(socket: &TcpStream) -> io::Result<usize> {
    socket.try_read(&mut [0; READ_BYTES])
}

/// Discards bytes until the client has closed its sending side, for [`LINGER_BYTES`] at most. The caller must set
/// [`LINGER_TIME`].
pub(super) async fn discard(socket: &TcpStream) -> io::Result<()> {
    let mut left = LINGER_BYTES;
    while left > 0 {
        match discard_some(socket) {
            Ok(0) => break,
            Ok(count) => left = left.saturating_sub(count),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                timeout(LINGER_IDLE, socket.readable()).await.map_err(io::Error::from)??;
            }
            Err(error) => return Err(error),
        }
        consume_budget().await;
    }
    Ok(())
}
