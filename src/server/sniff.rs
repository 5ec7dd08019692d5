//! Telling HTTP/2 with prior knowledge from HTTP/1.1 on one port (RFC 9113 §3.3).

use std::io;

use tokio::io::Interest;
use tokio::net::TcpStream;

/// How an HTTP/2 client opens (RFC 9113 §3.4). `PRI` is not a method of any HTTP/1 request, so three bytes tell.
const PREFACE: &[u8; 3] = b"PRI";

/// What the client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.0 or HTTP/1.1.
    Http1,
    /// HTTP/2 in clear text.
    Http2,
}

/// Looks at the first bytes without taking them; waits as long as they could still become either. The caller bounds
/// the time.
///
/// # Errors
/// The socket's own.
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
        // "P" or "PR", as in POST or PRI: peek again once more has come, not at once.
        let _ = stream.try_io(Interest::READABLE, || Err::<(), _>(io::ErrorKind::WouldBlock.into()));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// What is sniffed of a client that sends these pieces, each once the one before has been looked at, and leaves.
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
        assert_eq!(left, pieces.concat(), "nothing was taken from the stream");
        protocol.unwrap()
    }

    #[tokio::test]
    async fn the_http2_preface_is_told_from_methods_that_start_alike() {
        assert_eq!(sniffed(&[b"PRI * HTTP/2.0\r\n"]).await, Protocol::Http2);
        assert_eq!(sniffed(&[b"P", b"R", b"I * HTTP/2.0"]).await, Protocol::Http2);
        assert_eq!(sniffed(&[b"P", b"OST / HTTP/1.1"]).await, Protocol::Http1);
        assert_eq!(sniffed(&[b"PR", b"OPFIND / HTTP/1.1"]).await, Protocol::Http1);
        assert_eq!(sniffed(&[b"GET / HTTP/1.1"]).await, Protocol::Http1);
    }

    #[tokio::test]
    async fn a_client_that_leaves_at_once_is_no_error() {
        assert_eq!(sniffed(&[]).await, Protocol::Http1);
    }
}
