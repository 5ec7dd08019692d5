//! Limit of the bytes that precede the end of a response head.
//!
//! hyper skips any number of interim responses (1xx). Without a limit, an upstream that sends nothing else would keep a
//! worker busy.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};

use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Maximum bytes of interim responses before a response head. It is more than hyper reads ahead, so that the start of a
/// body never counts against it.
const INTERIM_BYTES: usize = 1024 * 1024;

/// Number of bytes that may arrive before the expected response head.
#[derive(Clone, Debug)]
pub struct HeadLimit {
    left: Arc<AtomicUsize>,
    max: usize,
}

/// Stream that fails when its [`HeadLimit`] is exceeded.
#[derive(Debug)]
pub(super) struct HeadLimitedIo<S> {
    inner: S,
    left: Arc<AtomicUsize>,
}

#[derive(Debug, Error)]
#[error("too many interim responses")]
struct TooManyInterimResponses;

impl HeadLimit {
    /// Applies the limit: a response head is expected.
    pub fn expect_head(&self) {
        self.left.store(self.max, Relaxed);
    }

    /// Removes the limit: the head has arrived, and the body has no limit here.
    pub fn head_received(&self) {
        self.left.store(usize::MAX, Relaxed);
    }
}

impl<S> HeadLimitedIo<S> {
    /// Wraps a stream of responses. Each head may have `max_head_bytes` at most.
    pub(super) fn new(inner: S, max_head_bytes: usize) -> (Self, HeadLimit) {
        let left = Arc::new(AtomicUsize::new(usize::MAX));
        let max = max_head_bytes.saturating_add(INTERIM_BYTES);
        (Self { inner, left: Arc::clone(&left) }, HeadLimit { left, max })
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for HeadLimitedIo<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let left = self.left.load(Relaxed);
        if left == 0 {
            return Poll::Ready(Err(io::Error::other(TooManyInterimResponses)));
        }
        let before = buf.filled().len();
        let read = Pin::new(&mut self.inner).poll_read(cx, buf);
        // Bodies are not counted.
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
