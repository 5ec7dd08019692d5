//! Detection of HTTP/2 with prior knowledge beside HTTP/1.1 on one port (RFC 9113 §3.3).

use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::task::{Poll, ready};

use tokio::io::{Interest, ReadBuf};
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
    peek_until::<{ PREFACE.len() }, _>(stream, |start, is_last| match start {
        start if start == PREFACE => Some(Protocol::Http2),
        // "P" or "PR", as in POST or PRI.
        start if !start.is_empty() && !is_last && PREFACE.starts_with(start) => None,
        _ => Some(Protocol::Http1),
    })
    .await
}

/// Peeks at the first bytes of a connection, `MAX` at most, and again when more have arrived, until `decide` returns a value.
/// Its second argument is true if no more will arrive: the client has closed its sending side.
///
/// # Errors
/// Errors of the socket.
pub(super) async fn peek_until<const MAX: usize, T>(
    stream: &TcpStream,
    mut decide: impl FnMut(&[u8], bool) -> Option<T>,
) -> io::Result<T> {
    loop {
        // Asked before the bytes: later, bytes could have arrived between.
        let is_last = stream.ready(Interest::READABLE).await?.is_read_closed();
        let decided = poll_fn(|cx| {
            let mut space = [MaybeUninit::uninit(); MAX];
            let mut bytes = ReadBuf::uninit(&mut space);
            ready!(stream.poll_peek(cx, &mut bytes))?;
            Poll::Ready(io::Result::Ok(decide(bytes.filled(), is_last)))
        });
        if let Some(decided) = decided.await? {
            return Ok(decided);
        }
        // Waits for more bytes before peeking again.
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
    async fn a_connection_that_ends_within_the_preface_is_not_waited_for() {
        assert_eq!(sniffed(&[b"P"]).await, Protocol::Http1);
        assert_eq!(sniffed(&[b"P", b"R"]).await, Protocol::Http1);
    }

    #[tokio::test]
    async fn an_immediate_disconnect_is_not_an_error() {
        assert_eq!(sniffed(&[]).await, Protocol::Http1);
    }
}
