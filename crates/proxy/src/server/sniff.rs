//! Detection of HTTP/2 with prior knowledge beside HTTP/1.1 on one port (RFC 9113 §3.3).

use std::io;

use tokio::io::Interest;
use tokio::net::TcpStream;

/// Start of the HTTP/2 connection preface (RFC 9113 §3.4). HTTP/1 has no method `PRI`, so three bytes are enough.
const PREFACE: &[u8; 3] = b"PRI";

/// Protocol of a client connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.0 or HTTP/1.1.
    Http1,
    /// HTTP/2.
    Http2,
}

/// Detects the protocol by peeking at the first bytes. Waits while they fit both protocols, so the caller must set a
/// timeout.
///
/// # Errors
/// Errors of the socket.
pub async fn sniff(stream: &TcpStream) -> io::Result<Protocol> {
    let mut start = [0; PREFACE.len()];
    loop {
        let length = stream.peek(&mut start).await?;
        if length == 0 || !PREFACE.starts_with(&start[..length]) {
            return Ok(Protocol::Http1);
        }
        if length == PREFACE.len() {
            return Ok(Protocol::Http2);
        }
        // "P" or "PR", as in POST or PRI: wait for more bytes before peeking again.
        let _ = stream.try_io(Interest::READABLE, || Err::<(), _>(io::ErrorKind::WouldBlock.into()));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// Returns the protocol detected for a client that sends these pieces one after the other and disconnects.
    async fn sniffed(pieces: &[&[u8]]) -> Protocol {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        client.set_nodelay(true).unwrap();
        let (mut server, _) = listener.accept().await.unwrap();
        let sending = async {
            for piece in pieces {
                client.write_all(piece).await.unwrap();
                tokio::task::yield_now().await;
            }
            client.shutdown().await.unwrap();
        };
        let (protocol, ()) = tokio::join!(sniff(&server), sending);
        let mut left = Vec::new();
        server.read_to_end(&mut left).await.unwrap();
        assert_eq!(left, pieces.concat(), "no bytes were consumed");
        protocol.unwrap()
    }

    #[tokio::test]
    async fn the_http2_preface_is_distinguished_from_methods_with_the_same_start() {
        assert_eq!(sniffed(&[b"PRI * HTTP/2.0\r\n"]).await, Protocol::Http2);
        assert_eq!(sniffed(&[b"P", b"R", b"I * HTTP/2.0"]).await, Protocol::Http2);
        assert_eq!(sniffed(&[b"P", b"OST / HTTP/1.1"]).await, Protocol::Http1);
        assert_eq!(sniffed(&[b"PR", b"OPFIND / HTTP/1.1"]).await, Protocol::Http1);
        assert_eq!(sniffed(&[b"GET / HTTP/1.1"]).await, Protocol::Http1);
    }

    #[tokio::test]
    async fn an_immediate_disconnect_is_not_an_error() {
        assert_eq!(sniffed(&[]).await, Protocol::Http1);
    }
}
