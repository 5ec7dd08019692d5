//! Frames for a client, collected into few large writes.
//!
//! `h2` writes and flushes each DATA frame by itself: 64 writes for a response of 1 MB. Over TLS each of them is two
//! records, since a frame of 16 KB and its head exceed the longest record. So a buffer takes the frames of one poll of the
//! connection, and the server flushes it after the poll.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::preface::CheckedPreface;
use crate::http::read_ahead;

/// Bytes that are written at once, at most.
const CAPACITY: usize = read_ahead::part(64 * 1024);
/// Size of a write that is probably a DATA frame: more will follow.
const LARGE: usize = 4 * 1024;

/// Client socket whose flushes by `h2` have no effect. All clones share it.
#[derive(Clone, Debug)]
pub(super) struct BufferedIo(Rc<RefCell<Buffer>>);

#[derive(Debug)]
struct Buffer {
    io: CheckedPreface,
    bytes: Vec<u8>,
    /// Number of bytes at the start that have been written.
    written: usize,
    /// Error of the flush after a poll, for the next read.
    failed: Option<io::Error>,
}

impl BufferedIo {
    pub(super) fn new(io: CheckedPreface) -> Self {
        Self(Rc::new(RefCell::new(Buffer { io, bytes: Vec::new(), written: 0, failed: None })))
    }

    /// Writes and flushes what `h2` has written. The current task is woken when there is more to do. The next read returns
    /// an error.
    pub(super) fn flush(&self, cx: &mut Context<'_>) {
        let buffer = &mut *self.0.borrow_mut();
        if let Poll::Ready(Err(error)) = buffer.poll_flush(cx) {
            buffer.failed = Some(error);
            cx.waker().wake_by_ref();
        }
    }
}

impl Buffer {
    fn poll_write_out(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(rest) = self.bytes.get(self.written..).filter(|rest| !rest.is_empty()) {
            match ready!(Pin::new(&mut self.io).poll_write(cx, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                count => self.written += count,
            }
        }
        self.written = 0;
        self.bytes.clear();
        Poll::Ready(Ok(()))
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_write_out(cx))?;
        // An idle connection has no buffer.
        self.bytes = Vec::new();
        Pin::new(&mut self.io).poll_flush(cx)
    }

    /// Takes `bytes` as far as they fit. Returns their number.
    fn take(&mut self, bytes: &[u8]) -> usize {
        let count = bytes.len().min(CAPACITY - self.bytes.len());
        if self.bytes.capacity() < CAPACITY && count >= LARGE {
            self.bytes.reserve_exact(CAPACITY - self.bytes.len());
        }
        self.bytes.extend_from_slice(&bytes[..count]);
        count
    }
}

impl AsyncRead for BufferedIo {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let buffer = &mut *self.0.borrow_mut();
        match buffer.failed.take() {
            Some(error) => Poll::Ready(Err(error)),
            None => Pin::new(&mut buffer.io).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for BufferedIo {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[io::IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let buffer = &mut *self.0.borrow_mut();
        if buffer.bytes.len() >= CAPACITY {
            ready!(buffer.poll_write_out(cx))?;
        }
        Poll::Ready(Ok(bufs.iter().map(|buf| buffer.take(buf)).sum()))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Has no effect: the server flushes after each poll of the connection.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let buffer = &mut *self.0.borrow_mut();
        ready!(buffer.poll_flush(cx))?;
        Pin::new(&mut buffer.io).poll_shutdown(cx)
    }
}
