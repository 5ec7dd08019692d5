//! Connection that has switched protocols.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::upstream::pool::http1::SharedIo;

/// Bytes of a connection behind its response with status 101.
pub(in crate::upstream) struct UpstreamTunnel {
    io: SharedIo,
    /// Bytes that were read together with the response head.
    received: Bytes,
}

impl UpstreamTunnel {
    pub(super) fn new(io: SharedIo, received: Bytes) -> Self {
        Self { io, received }
    }
}

impl AsyncRead for UpstreamTunnel {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.received.is_empty() {
            return Pin::new(&mut *self.io.borrow_mut()).poll_read(cx, buf);
        }
        let length = self.received.len().min(buf.remaining());
        let part = self.received.split_to(length);
        buf.put_slice(&part);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for UpstreamTunnel {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.io.borrow_mut()).poll_write(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.io.borrow_mut()).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.io.borrow_mut()).poll_shutdown(cx)
    }
}
