//! Limits of the reads from an HTTP/1.1 upstream: of the bytes that arrive without progress of the response, and of each
//! read.
//!
//! hyper skips any number of interim responses (1xx) before a response head, and of zeros before a chunk size. Without a
//! limit, an upstream that sends nothing else would keep a worker busy.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};

use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};

use crate::http::read_ahead::ReadAhead;
use crate::upstream::pool::read_hook::{HookedIo, ReadHook};

/// Maximum bytes of interim responses before a response head. It is more than hyper reads ahead, so that the start of a
/// body never counts against it.
const INTERIM_BYTES: usize = 1024 * 1024;

/// Maximum bytes between two parts of a response body. It is more than hyper reads ahead.
const BODY_BYTES: usize = 2 * 1024 * 1024;

/// Number of bytes that may arrive before the expected response head, or before the next part of the body.
#[derive(Clone, Debug)]
pub struct HeadLimit {
    reads: Reads,
    max: usize,
}

/// Limits of the reads of one connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Reads {
    left: BytesLeft,
    ahead: ReadAhead,
}

/// Number of bytes that may still arrive; `usize::MAX` without a limit.
type BytesLeft = Arc<AtomicUsize>;

#[derive(Debug, Error)]
#[error("too many interim responses, or too much framing")]
struct NoProgress;

impl HeadLimit {
    /// Returns when and how much is read.
    pub fn read_ahead(&self) -> &ReadAhead {
        &self.reads.ahead
    }

    /// Applies the limit: a response head is expected.
    pub fn expect_head(&self) {
        self.reads.left.store(self.max, Relaxed);
    }

    /// Applies the limit of a body: the head, or a part of the body, has arrived.
    pub fn expect_body(&self) {
        self.reads.left.store(BODY_BYTES, Relaxed);
    }

    /// Removes the limit: a tunnel follows.
    pub fn lift(&self) {
        self.reads.left.store(usize::MAX, Relaxed);
    }
}

/// Wraps a stream of responses, which fails when the [`HeadLimit`] is exceeded. Each head may have `max_head_bytes` at most.
pub(super) fn limit_heads<S>(inner: S, max_head_bytes: usize) -> (HookedIo<S, Reads>, HeadLimit) {
    let reads = Reads { left: Arc::new(AtomicUsize::new(usize::MAX)), ahead: ReadAhead::default() };
    let max = max_head_bytes.saturating_add(INTERIM_BYTES);
    (HookedIo::new(inner, reads.clone()), HeadLimit { reads, max })
}

impl ReadHook for Reads {
    fn poll_read<S: AsyncRead>(
        &mut self,
        inner: Pin<&mut S>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let left = self.left.load(Relaxed);
        if left == 0 {
            return Poll::Ready(Err(io::Error::other(NoProgress)));
        }
        if self.ahead.is_held(cx) {
            return Poll::Pending;
        }
        let before = buf.filled().len();
        let read = Pin::new(&mut inner.take(self.ahead.limit() as u64)).poll_read(cx, buf);
        let length = buf.filled().len() - before;
        self.ahead.read(length);
        // Tunnels are not counted.
        if left != usize::MAX {
            self.left.store(left.saturating_sub(length), Relaxed);
        }
        read
    }
}
