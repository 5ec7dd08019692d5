//! Stream with a hook for reads.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::http::read_gate::{GatedReader, ReadGate, ReadGateState};

/// Stream that reads through a [`ReadHook`]. Writes are unchanged.
#[derive(Debug)]
pub(super) struct HookedIo<S, H> {
    inner: S,
    gate: ReadGate,
    hook: H,
}

/// Observes or refuses the reads of a stream.
pub(super) trait ReadHook {
    /// Reads from `inner`.
    fn poll_read<S: AsyncRead>(
        &mut self,
        inner: Pin<&mut S>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>>;
}

/// Reads from `inner` for a hook. Returns the result, and the bytes that were read.
#[inline]
pub(super) fn read_bytes<'b, S: AsyncRead>(
    inner: Pin<&mut S>,
    cx: &mut Context<'_>,
    buf: &'b mut ReadBuf<'_>,
) -> (Poll<io::Result<()>>, &'b [u8]) {
    let before = buf.filled().len();
    let read = inner.poll_read(cx, buf);
    (read, buf.filled().get(before..).unwrap_or_default())
}

impl<S, H> HookedIo<S, H> {
    pub(super) fn new(inner: S, hook: H) -> Self {
        Self { inner, gate: ReadGate::default(), hook }
    }

    /// Returns a view of the gate that reads pass through.
    pub(super) fn gate(&self) -> ReadGateState {
        self.gate.state()
    }
}

impl<S: AsyncRead + Unpin, H: ReadHook + Unpin> AsyncRead for HookedIo<S, H> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.hook.poll_read(Pin::new(&mut GatedReader(&mut this.inner, &mut this.gate)), cx, buf)
    }
}

impl<S: AsyncWrite + Unpin, H: Unpin> AsyncWrite for HookedIo<S, H> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}
