//! Byte stream of a client connection: cleartext or TLS.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::{ProtocolVersion, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::task::coop::consume_budget;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tollgate_config::ACME_TLS;

use crate::http::sockets::part;
use crate::server::sniff::{Protocol, sniff};

/// ALPN identifier of HTTP/2 (RFC 9113 §3.2).
pub const ALPN_H2: &[u8] = b"h2";
/// First byte of a TLS connection: the type of a handshake record (RFC 8446 §5.1).
const HANDSHAKE: u8 = 22;
/// Response to a client that speaks plain HTTP to a TLS port.
const CLEARTEXT_RESPONSE: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n\
    Content-Length: 45\r\nConnection: close\r\n\r\nthis port requires TLS: use an https:// URL\r\n";

/// Bytes of the largest write of encrypted records, without their 22 bytes each.
const WRITE_BYTES: usize = part(64 * 1024);

/// Byte stream of a client connection.
#[derive(Debug)]
pub enum ClientStream {
    /// Cleartext.
    Plain(TcpStream),
    /// TLS, after the handshake.
    Tls(Box<TlsStream<TcpStream>>),
}

impl ClientStream {
    /// Performs the TLS handshake of a new connection. The caller must set a timeout.
    ///
    /// # Errors
    /// The handshake fails, or the client speaks plain HTTP. Such a client gets a response with status 400.
    pub async fn handshake(mut stream: TcpStream, tls: Arc<ServerConfig>) -> io::Result<(Self, Protocol)> {
        let mut first = [0];
        if stream.peek(&mut first).await? == 1 && first[0] != HANDSHAKE {
            stream.write_all(CLEARTEXT_RESPONSE).await?;
            stream.shutdown().await?;
            discard(&stream).await?;
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the client does not speak TLS"));
        }
        let mut stream = TlsAcceptor::from(tls).accept(stream).await?;
        stream.get_mut().1.set_buffer_limit(Some(WRITE_BYTES));
        let protocol = match stream.get_ref().1.alpn_protocol() {
            Some(ALPN_H2) => Protocol::Http2,
            // The handshake is the answer to the challenge of an ACME server, which closes (RFC 8737 §3).
            Some(ACME_TLS) => {
                stream.shutdown().await?;
                return Err(io::Error::new(io::ErrorKind::ConnectionAborted, "an ACME server has verified a name"));
            }
            _ => Protocol::Http1,
        };
        Ok((Self::Tls(Box::new(stream)), protocol))
    }

    /// Returns the socket, below TLS.
    #[must_use]
    pub fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream,
            Self::Tls(stream) => stream.get_ref().0,
        }
    }

    /// True under TLS.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        matches!(self, Self::Tls(_))
    }

    /// Returns the version of TLS, such as `TLSv1.3`; `None` in cleartext.
    #[must_use]
    pub fn tls_version(&self) -> Option<&'static str> {
        let Self::Tls(stream) = self else { return None };
        match stream.get_ref().1.protocol_version()? {
            ProtocolVersion::TLSv1_2 => Some("TLSv1.2"),
            ProtocolVersion::TLSv1_3 => Some("TLSv1.3"),
            _ => None,
        }
    }

    /// Returns the client's certificate, which the handshake has verified, and those that it sent behind it; `None` without one.
    #[must_use]
    pub fn client_chain(&self) -> Option<&[CertificateDer<'static>]> {
        let Self::Tls(stream) = self else { return None };
        stream.get_ref().1.peer_certificates()
    }

    /// Waits until an idle client sends bytes, without consuming them, and returns the detected protocol.
    ///
    /// Under TLS the handshake has selected the protocol and the result has no meaning. There the wait is correct only
    /// if all earlier bytes have been read.
    ///
    /// # Errors
    /// Errors of the socket.
    pub async fn first_bytes(&self) -> io::Result<Protocol> {
        match self {
            Self::Plain(stream) => sniff(stream).await,
            Self::Tls(stream) => stream.get_ref().0.readable().await.map(|()| Protocol::Http1),
        }
    }
}

impl AsyncRead for ClientStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for ClientStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::io::Write;

    use tokio::net::TcpListener;
    use tokio::time::{Instant, sleep};

    use super::*;
    use crate::server::connection::linger;
    use crate::server::drain::Connections;

    /// Returns both ends of a connection: the client's and the gateway's.
    async fn connected() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (client, listener.accept().await.unwrap().0)
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_client_is_waited_for_during_five_seconds() {
        let (_client, socket) = connected().await;
        let start = Instant::now();
        assert_eq!(discard(&socket).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(start.elapsed().as_secs(), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_trickles_is_read_during_thirty_seconds() {
        let (mut client, socket) = connected().await;
        let trickling = tokio::spawn(async move {
            while client.write_all(b"x").await.is_ok() {
                sleep(Duration::from_secs(1)).await;
            }
        });
        let (stream, open) = (ClientStream::Plain(socket), Arc::<Connections>::default().open());
        let start = Instant::now();
        linger(&stream, true, &open).await;
        assert_eq!(start.elapsed().as_secs(), 30);
        trickling.abort();
    }

    #[tokio::test]
    async fn no_more_than_64_mib_are_read() {
        /// More than the buffers of two sockets hold.
        const BUFFERS: usize = 32 * 1024 * 1024;
        let (client, socket) = connected().await;
        let mut client = client.into_std().unwrap();
        client.set_nonblocking(false).unwrap();
        let sending = std::thread::spawn(move || {
            let part = [b'x'; READ_BYTES];
            (0..).map(|_| client.write(&part)).map_while(Result::ok).sum::<usize>()
        });
        discard(&socket).await.unwrap();
        drop(socket);
        let sent = sending.join().unwrap();
        assert!((64 * 1024 * 1024..64 * 1024 * 1024 + BUFFERS).contains(&sent), "{sent}");
    }
}
