//! Stream that remembers its first read error.
//!
//! hyper reports to the requests of an HTTP/2 connection only that it is closed. An alert of TLS 1.3, such as
//! "certificate required", arrives when the connection is already established.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// First read error of a stream.
pub(super) type CapturedError = Arc<OnceLock<String>>;

/// Stream that stores its first read error in a [`CapturedError`].
#[derive(Debug)]
pub(super) struct ErrorCapture<S> {
    inner: S,
    captured: CapturedError,
}

impl<S> ErrorCapture<S> {
    pub(super) fn new(inner: S) -> (Self, CapturedError) {
        let captured = CapturedError::default();
        (Self { inner, captured: Arc::clone(&captured) }, captured)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ErrorCapture<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.inner).poll_read(cx, buf);
        if let Poll::Ready(Err(error)) = &read {
            let _ = self.captured.set(error.to_string());
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ErrorCapture<S> {
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
