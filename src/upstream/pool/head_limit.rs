//! A stream that ends when more comes before an answer's head than heads have a right to: hyper skips interim answers
//! (1xx) without end, and an upstream that sends nothing else would keep a worker busy with them.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};

use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes of interim answers before an answer's head. More than hyper reads ahead of whoever wants the body, so that a body's
/// beginning is never taken for them.
const INTERIM_BYTES: usize = 1024 * 1024;

/// How many bytes may come before the head that is waited for.
#[derive(Clone, Debug)]
pub struct HeadLimit {
    left: Arc<AtomicUsize>,
    most: usize,
}

/// A stream that is read no further than its [`HeadLimit`].
#[derive(Debug)]
pub(super) struct HeadLimitedIo<S> {
    inner: S,
    left: Arc<AtomicUsize>,
}

#[derive(Debug, Error)]
#[error("interim answers without end")]
struct Endless;

impl HeadLimit {
    /// An answer is waited for from now on.
    pub fn begin(&self) {
        self.left.store(self.most, Relaxed);
    }

    /// Its head has come: what follows is its body, which has no bound here.
    pub fn end(&self) {
        self.left.store(usize::MAX, Relaxed);
    }
}

impl<S> HeadLimitedIo<S> {
    /// A stream of answers whose heads have at most `max_head_bytes`.
    pub(super) fn new(inner: S, max_head_bytes: usize) -> (Self, HeadLimit) {
        let left = Arc::new(AtomicUsize::new(usize::MAX));
        let most = max_head_bytes.saturating_add(INTERIM_BYTES);
        (Self { inner, left: Arc::clone(&left) }, HeadLimit { left, most })
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for HeadLimitedIo<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let left = self.left.load(Relaxed);
        if left == 0 {
            return Poll::Ready(Err(io::Error::other(Endless)));
        }
        let before = buf.filled().len();
        let read = Pin::new(&mut self.inner).poll_read(cx, buf);
        // A body may be as long as it likes: without a bound nothing is counted.
        if left != usize::MAX {
            self.left.store(left.saturating_sub(buf.filled().len() - before), Relaxed);
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for HeadLimitedIo<S> {
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
