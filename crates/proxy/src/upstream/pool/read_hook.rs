//! Stream with a hook for reads. Its writes do not fail.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::http::read_gate::{GatedReader, ReadGate};

/// Stream that reads through a [`ReadHook`].
///
/// A failed write discards its bytes, and is no error: an upstream may have responded before it closed the connection. Reads
/// go on, and report the end of the connection after what has arrived.
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
}

/// Returns `discarded` if a write has failed.
fn without_error<T>(progress: Poll<io::Result<T>>, discarded: impl FnOnce() -> T) -> Poll<io::Result<T>> {
    progress.map(|result| Ok(result.unwrap_or_else(|_| discarded())))
}

impl<S: AsyncRead + Unpin, H: ReadHook + Unpin> AsyncRead for HookedIo<S, H> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.hook.poll_read(Pin::new(&mut GatedReader(&mut this.inner, &mut this.gate)), cx, buf)
    }
}

impl<S: AsyncWrite + Unpin, H: Unpin> AsyncWrite for HookedIo<S, H> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(cx, buf);
        without_error(written, || buf.len())
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.inner).poll_flush(cx);
        without_error(flushed, || ())
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write_vectored(cx, bufs);
        without_error(written, || bufs.iter().map(|buf| buf.len()).sum())
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// Connection that an upstream has closed after `response`.
    struct Closed {
        response: &'static [u8],
    }

    impl AsyncRead for Closed {
        fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            Pin::new(&mut self.response).poll_read(cx, buf)
        }
    }

    impl AsyncWrite for Closed {
        fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
            Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    struct Unchanged;

    impl ReadHook for Unchanged {
        fn poll_read<S: AsyncRead>(
            &mut self,
            inner: Pin<&mut S>,
            cx: &mut Context<'_>,
            buf: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            inner.poll_read(cx, buf)
        }
    }

    #[tokio::test]
    async fn reads_go_on_after_a_failed_write() {
        let mut io = HookedIo::new(Closed { response: b"HTTP/1.1 401 Unauthorized" }, Unchanged);
        for _ in 0..3 {
            io.write_all(b"a part of the body").await.unwrap();
            io.flush().await.unwrap();
        }
        let mut response = String::new();
        io.read_to_string(&mut response).await.unwrap();
        assert_eq!(response, "HTTP/1.1 401 Unauthorized");
    }
}
