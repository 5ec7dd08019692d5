//! Check of the frame that follows the client's connection preface.
//!
//! It must be SETTINGS (RFC 9113 §3.4). The `h2` crate accepts any frame, so another one is turned into a frame that `h2`
//! refuses with `PROTOCOL_ERROR`: SETTINGS on a stream.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::server::client_io::ClientIo;

/// Position of the frame's type: after the preface and the frame's length.
const TYPE: usize = 24 + 3;
const FLAGS: usize = TYPE + 1;
/// Positions of the frame's stream identifier.
const STREAM: std::ops::Range<usize> = FLAGS + 1..FLAGS + 5;
const SETTINGS: u8 = 4;
const ACK: u8 = 1;

/// Client socket whose first frame is checked.
#[derive(Debug)]
pub(super) struct CheckedPreface {
    io: ClientIo,
    /// Number of bytes read, up to the end of the frame's head.
    read: usize,
    is_invalid: bool,
}

impl CheckedPreface {
    pub(super) fn new(io: ClientIo) -> Self {
        Self { io, read: 0, is_invalid: false }
    }

    pub(super) fn into_inner(self) -> ClientIo {
        self.io
    }

    fn check(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            match self.read {
                TYPE => {
                    self.is_invalid = *byte != SETTINGS;
                    *byte = SETTINGS;
                }
                FLAGS => {
                    self.is_invalid |= *byte & ACK != 0;
                    *byte &= !ACK;
                }
                at if at + 1 == STREAM.end && self.is_invalid => *byte = 1,
                at if at >= STREAM.end => return,
                _ => {}
            }
            self.read += 1;
        }
    }
}

impl AsyncRead for CheckedPreface {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        ready!(Pin::new(&mut this.io).poll_read(cx, buf))?;
        if this.read < STREAM.end
            && let Some(bytes) = buf.filled_mut().get_mut(before..)
        {
            this.check(bytes);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for CheckedPreface {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
