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

use crate::http::sockets::part;
use crate::server::http2::preface::PrefaceCheck;

/// Bytes that are written at once, at most.
const CAPACITY: usize = part(64 * 1024);
/// Size of a write that is probably a DATA frame: more will follow.
const LARGE: usize = 4 * 1024;

/// Client socket whose flushes by `h2` have no effect. All clones share it.
#[derive(Debug)]
pub(super) struct BufferedIo<S>(Rc<RefCell<Buffer<S>>>);

#[derive(Debug)]
struct Buffer<S> {
    io: S,
    preface: PrefaceCheck,
    bytes: Vec<u8>,
    /// Number of bytes at the start that have been written.
    written: usize,
    /// Error of the flush after a poll, for the next read.
    failed: Option<io::Error>,
}

impl<S> Clone for BufferedIo<S> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<S: AsyncWrite + Unpin> BufferedIo<S> {
    pub(super) fn new(io: S) -> Self {
        Self(Rc::new(RefCell::new(Buffer {
            io,
            preface: PrefaceCheck::default(),
            bytes: Vec::new(),
            written: 0,
            failed: None,
        })))
    }

    /// Returns the socket, unless there is another clone.
    pub(super) fn into_inner(self) -> Option<S> {
        Some(Rc::into_inner(self.0)?.into_inner().io)
    }

    /// Writes the collected frames and flushes the socket. If the socket blocks, the current task is woken when it accepts
    /// more. If it fails, the task is woken at once, and its next read returns the error.
    pub(super) fn flush(&self, cx: &mut Context<'_>) {
        let buffer = &mut *self.0.borrow_mut();
        if let Poll::Ready(Err(error)) = buffer.poll_flush(cx) {
            buffer.failed = Some(error);
            cx.waker().wake_by_ref();
        }
    }
}

impl<S: AsyncWrite + Unpin> Buffer<S> {
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

impl<S: AsyncRead + Unpin> AsyncRead for BufferedIo<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let buffer = &mut *self.0.borrow_mut();
        match buffer.failed.take() {
            Some(error) => Poll::Ready(Err(error)),
            None => {
                let before = buf.filled().len();
                ready!(Pin::new(&mut buffer.io).poll_read(cx, buf))?;
                buffer.preface.check(buf.filled_mut().get_mut(before..).unwrap_or_default());
                Poll::Ready(Ok(()))
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for BufferedIo<S> {
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

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::task::Waker;

    use proptest::prelude::*;

    use super::*;

    /// Socket that accepts `room` bytes, at most `most` at once.
    #[derive(Debug)]
    struct Socket {
        room: usize,
        most: usize,
        writes: Vec<Vec<u8>>,
        is_broken: bool,
        is_shut_down: bool,
    }

    impl Socket {
        fn new(room: usize, most: usize) -> Self {
            Self { room, most, writes: Vec::new(), is_broken: false, is_shut_down: false }
        }
    }

    impl AsyncRead for Socket {
        fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }
    }

    impl AsyncWrite for Socket {
        fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
            if self.is_broken {
                return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
            }
            let count = buf.len().min(self.room).min(self.most);
            if count == 0 {
                return Poll::Pending;
            }
            self.room -= count;
            self.writes.push(buf[..count].to_vec());
            Poll::Ready(Ok(count))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.is_shut_down = true;
            Poll::Ready(Ok(()))
        }
    }

    /// Writes `bytes` and flushes, as `h2` does for a frame. Returns the number of bytes taken.
    fn write(io: &mut BufferedIo<Socket>, bytes: &[u8]) -> usize {
        let cx = &mut Context::from_waker(Waker::noop());
        let mut taken = 0;
        while let Poll::Ready(count) = Pin::new(&mut *io).poll_write(cx, &bytes[taken..]) {
            taken += count.unwrap();
            if taken == bytes.len() {
                break;
            }
        }
        assert!(Pin::new(io).poll_flush(cx).is_ready());
        taken
    }

    fn sizes(io: &BufferedIo<Socket>) -> Vec<usize> {
        io.0.borrow().io.writes.iter().map(Vec::len).collect()
    }

    #[test]
    fn frames_are_written_together_and_an_idle_connection_has_no_buffer() {
        let cx = &mut Context::from_waker(Waker::noop());
        let mut io = BufferedIo::new(Socket::new(usize::MAX, usize::MAX));
        for _ in 0..8 {
            assert_eq!(write(&mut io, &[1; 16_393]), 16_393);
        }
        assert_eq!(sizes(&io), [CAPACITY, CAPACITY]);
        io.flush(cx);
        assert_eq!(sizes(&io), [CAPACITY, CAPACITY, 8 * 16_393 - 2 * CAPACITY]);
        assert_eq!(io.0.borrow().bytes.capacity(), 0);
        write(&mut io, &[1; 50]);
        assert!(io.0.borrow().bytes.capacity() < LARGE, "a small response");
        let shut_down = Pin::new(&mut io).poll_shutdown(cx);
        assert!(shut_down.is_ready() && sizes(&io).last() == Some(&50) && io.0.borrow().io.is_shut_down);
    }

    #[tokio::test]
    async fn an_error_of_the_flush_wakes_the_connection_and_is_the_result_of_its_next_read() {
        let mut io = BufferedIo::new(Socket::new(0, 0));
        write(&mut io, b"x");
        io.0.borrow_mut().io.is_broken = true;
        let mut is_flushed = false;
        let error = poll_fn(|cx| {
            if !std::mem::replace(&mut is_flushed, true) {
                io.flush(cx);
                return Poll::Pending;
            }
            Pin::new(&mut io).poll_read(cx, &mut ReadBuf::new(&mut [0; 8]))
        });
        assert_eq!(error.await.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }

    proptest! {
        #[test]
        fn bytes_keep_their_order_and_none_is_lost_while_the_socket_blocks(
            steps in prop::collection::vec((0_usize..40_000, 0_usize..40_000, any::<bool>()), 1..40),
            most in 1_usize..100_000,
        ) {
            let cx = &mut Context::from_waker(Waker::noop());
            let mut io = BufferedIo::new(Socket::new(0, most));
            let mut sent = Vec::new();
            for (length, room, flushes) in steps {
                let bytes: Vec<u8> = (0..length).map(|at| (sent.len() + at) as u8).collect();
                let taken = write(&mut io, &bytes);
                sent.extend_from_slice(&bytes[..taken]);
                io.0.borrow_mut().io.room += room;
                if flushes {
                    io.flush(cx);
                }
                prop_assert!(io.0.borrow().bytes.len() <= CAPACITY);
            }
            io.0.borrow_mut().io.room = usize::MAX;
            io.flush(cx);
            prop_assert!(io.0.borrow().io.writes.concat() == sent);
        }
    }
}
