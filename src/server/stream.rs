//! A client's connection as it carries bytes: in clear text, or under TLS.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::server::sniff::{Protocol, sniff};

/// What HTTP/2 is called in ALPN (RFC 9113 §3.2).
pub const ALPN_H2: &[u8] = b"h2";
/// The first byte of a TLS connection: a record of the handshake (RFC 8446 §5.1).
const HANDSHAKE: u8 = 22;
/// What a client that does not speak TLS is told.
const PLAIN_REFUSED: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n\
    Content-Length: 44\r\nConnection: close\r\n\r\nthis port speaks TLS: ask it with https://\r\n";
/// Bytes that are still read of such a client, so that it gets to read its answer.
const PLAIN_READ: u64 = 64 * 1024;

/// A client's connection.
#[derive(Debug)]
pub enum ClientStream {
    /// In clear text.
    Plain(TcpStream),
    /// Under TLS, after its handshake.
    Tls(Box<TlsStream<TcpStream>>),
}

impl ClientStream {
    /// Takes a new connection through its TLS handshake. The caller bounds the time.
    ///
    /// # Errors
    /// The handshake fails, or the client speaks plain HTTP, which it has been told then.
    pub async fn handshake(mut stream: TcpStream, tls: Arc<ServerConfig>) -> io::Result<(Self, Protocol)> {
        let mut first = [0];
        if stream.peek(&mut first).await? == 1 && first[0] != HANDSHAKE {
            stream.write_all(PLAIN_REFUSED).await?;
            stream.shutdown().await?;
            tokio::io::copy(&mut stream.take(PLAIN_READ), &mut tokio::io::sink()).await?;
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the client does not speak TLS"));
        }
        let stream = TlsAcceptor::from(tls).accept(stream).await?;
        let protocol = match stream.get_ref().1.alpn_protocol() {
            Some(ALPN_H2) => Protocol::Http2,
            _ => Protocol::Http1,
        };
        Ok((Self::Tls(Box::new(stream)), protocol))
    }

    /// Whether it is under TLS.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        matches!(self, Self::Tls(_))
    }

    /// Waits, without taking anything, until an idle client sends something, and tells what it speaks. Under TLS that
    /// was settled by the handshake, and the waiting is done right only if all that came before has been read.
    ///
    /// # Errors
    /// The socket's own.
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
