//! Writes to a client connection, with the timeout for a client that takes no bytes.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes, BytesMut};
use http::Response;
use tokio::io::AsyncWrite;
use tokio::time::Instant;

use crate::server::client_io::{ClientIo, timed_out};

/// Start of the responses with which hyper refuses heads that it cannot read.
const OWN_REFUSAL: &[u8] = b"HTTP/1.1 4";

impl ClientIo {
    /// Returns true for the start of a response that hyper makes itself, because it cannot read a head.
    fn withholds(&mut self, bytes: &[u8]) -> bool {
        self.has_withheld |= bytes.starts_with(OWN_REFUSAL) && !self.activity.is_responding();
        self.has_withheld
    }

    fn is_write_stalled(&mut self, cx: &mut Context<'_>) -> bool {
        if !self.write_deadline.is_set() {
            self.write_deadline.set(Instant::now() + self.timeouts.write);
        }
        self.write_deadline.poll_expired(cx).is_ready()
    }

    /// Writes interim responses to their end. Bytes of hyper follow.
    fn poll_interim(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.interim.is_empty() {
            let progress = Pin::new(&mut self.stream).poll_write(cx, &self.interim);
            match ready!(self.track_write(cx, progress))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.interim.advance(written),
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Completes when hyper may write: the interim responses before its bytes have been written.
    fn poll_may_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.activity.interim().has_waiting() {
            self.interim = add_interim_heads(&self.interim, &self.activity.interim().take_last());
        }
        self.activity.writing();
        self.poll_interim(cx)
    }

    fn track_write<T>(&mut self, cx: &mut Context<'_>, progress: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if progress.is_ready() {
            self.write_deadline.clear();
        } else {
            if let Poll::Ready(error) = self.poll_client_end(cx) {
                return Poll::Ready(Err(error));
            }
            let is_stalled = self.is_write_stalled(cx);
            self.activity.set_write_blocked(is_stalled);
            if is_stalled {
                return Poll::Ready(Err(timed_out("the client stopped reading the response")));
            }
        }
        progress
    }
}

impl AsyncWrite for ClientIo {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.withholds(buf) {
            return Poll::Ready(Ok(buf.len()));
        }
        ready!(this.poll_may_write(cx))?;
        let progress = Pin::new(&mut this.stream).poll_write(cx, buf);
        this.track_write(cx, progress)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.withholds(bufs.first().map_or(&[][..], |first| &**first)) {
            return Poll::Ready(Ok(bufs.iter().map(|buf| buf.len()).sum()));
        }
        ready!(this.poll_may_write(cx))?;
        let progress = Pin::new(&mut this.stream).poll_write_vectored(cx, bufs);
        this.track_write(cx, progress)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        // hyper flushes the socket when its own buffer is empty: no message is half-written.
        if this.activity.interim().has_waiting() {
            this.interim = add_interim_heads(&this.interim, &this.activity.interim().take());
        }
        ready!(this.poll_interim(cx))?;
        // TLS buffers what the socket does not accept.
        let progress = Pin::new(&mut this.stream).poll_flush(cx);
        ready!(this.track_write(cx, progress))?;
        this.activity.all_written();
        if let Poll::Ready(error) = this.poll_client_end(cx) {
            return Poll::Ready(Err(error));
        }
        // After a response hyper does not read until the socket wakes it, so the idle time starts here.
        Poll::Ready(match this.poll_read_timeout(cx) {
            Poll::Ready(()) => Err(timed_out("the client sent no request in time")),
            Poll::Pending => Ok(()),
        })
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.has_withheld {
            return Poll::Ready(Ok(()));
        }
        let progress = Pin::new(&mut this.stream).poll_shutdown(cx);
        this.track_write(cx, progress)
    }
}

/// Returns `unwritten` bytes, followed by the heads of `responses` as bytes of HTTP/1.1: hyper has no interface for them. A
/// field is valid by its type: it has no line breaks.
fn add_interim_heads(unwritten: &Bytes, responses: &[Response<()>]) -> Bytes {
    let mut bytes = BytesMut::from(&**unwritten);
    for response in responses {
        let status = response.status();
        let reason = status.canonical_reason().unwrap_or_default();
        for text in ["HTTP/1.1 ", status.as_str(), " ", reason, "\r\n"] {
            bytes.extend_from_slice(text.as_bytes());
        }
        for (name, value) in response.headers() {
            for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
                bytes.extend_from_slice(part);
            }
        }
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_follow_each_other_and_the_part_that_was_not_written() {
        let hint = Response::builder().status(103).header("link", "</a>").header("link", "</b>").body(()).unwrap();
        let unknown = Response::builder().status(150).body(()).unwrap();
        let first = add_interim_heads(&Bytes::new(), &[hint]);
        let heads = add_interim_heads(&first.slice("HTTP/1.1 ".len()..), &[unknown]);
        let expected = "103 Early Hints\r\nlink: </a>\r\nlink: </b>\r\n\r\nHTTP/1.1 150 \r\n\r\n";
        assert_eq!(std::str::from_utf8(&heads).unwrap(), expected);
    }
}
