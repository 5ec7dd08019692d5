//! A stream that remembers why it could not be read: hyper tells those who use an HTTP/2 connection only that it is
//! gone, and an alert of TLS 1.3, such as "certificate required", comes when the connection stands already.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Why a stream could not be read.
pub(super) type CapturedError = Arc<OnceLock<String>>;

/// A stream that writes its first failure into a [`CapturedError`].
#[derive(Debug)]
pub(super) struct ErrorCapture<S> {
    inner: S,
    note: CapturedError,
}

impl<S> ErrorCapture<S> {
    pub(super) fn new(inner: S) -> (Self, CapturedError) {
        let note = CapturedError::default();
        (Self { inner, note: Arc::clone(&note) }, note)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ErrorCapture<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.inner).poll_read(cx, buf);
        if let Poll::Ready(Err(error)) = &read {
            let _ = self.note.set(error.to_string());
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
