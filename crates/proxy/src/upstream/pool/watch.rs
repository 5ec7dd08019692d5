//! Observation of what an HTTP/2 upstream sends, for events that `h2` does not report.
//!
//! - The first read error: h2 reports to requests only that the connection is closed. An alert of TLS 1.3, such as
//!   "certificate required", arrives when the connection is already established.
//! - GOAWAY: h2 reports it to the next request only, which then has to be sent again.
//! - Interim responses: h2 accepts any number of them.
//! - Received bytes: a connection without them may be dead.
//! - The end of the connection: h2 fails all open streams then, also those whose response is complete. So it is reported one
//!   turn after the last bytes, when the requests have taken their responses.

use std::io;
use std::pin::Pin;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use thiserror::Error;
use tokio::io::{AsyncRead, ReadBuf};

use crate::upstream::pool::read_hook::{HookedIo, ReadHook, read_bytes};

/// Interim responses that a new connection may send.
const INTERIM_RESPONSES: usize = 100;
/// Interim responses that each request adds to that number.
const INTERIM_RESPONSES_PER_REQUEST: usize = 10;

/// Length of a frame head (RFC 9113 §4.1).
const FRAME_HEAD: usize = 9;
const HEADERS: u8 = 1;
const GOAWAY: u8 = 7;
const END_STREAM: u8 = 1;

/// State of an HTTP/2 connection, as observed on its socket.
#[derive(Debug, Default)]
pub(super) struct ConnectionEvents {
    read_error: OnceLock<String>,
    is_going_away: AtomicBool,
    has_read: AtomicBool,
    requests: AtomicUsize,
}

/// Parser of the frame heads that an upstream sends.
#[derive(Debug)]
pub(super) struct FrameWatch {
    watched: Arc<ConnectionEvents>,
    head: [u8; FRAME_HEAD],
    head_length: usize,
    payload_left: usize,
    /// Response heads without END_STREAM: each request has one final head, and any number of interim ones.
    heads: usize,
    /// True if requests may not have taken what was read last.
    has_new: bool,
    /// End of the connection that is to be reported.
    end: Option<io::Result<()>>,
}

#[derive(Debug, Error)]
#[error("too many interim responses")]
struct TooManyInterimResponses;

impl ConnectionEvents {
    /// Returns the first read error.
    pub(super) fn read_error(&self) -> Option<&str> {
        self.read_error.get().map(String::as_str)
    }

    /// Returns true if the upstream sent GOAWAY: the connection takes no further request.
    pub(super) fn is_going_away(&self) -> bool {
        self.is_going_away.load(Relaxed)
    }

    /// Marks the connection as one that takes no further request.
    pub(super) fn retire(&self) {
        self.is_going_away.store(true, Relaxed);
    }

    /// Returns true if bytes have been read since the latest call.
    pub(super) fn take_read(&self) -> bool {
        self.has_read.swap(false, Relaxed)
    }

    /// Counts a request that is sent.
    pub(super) fn count_request(&self) {
        self.requests.fetch_add(1, Relaxed);
    }
}

/// Wraps `inner`, so that its frames are observed.
pub(super) fn watch<S>(inner: S) -> (HookedIo<S, FrameWatch>, Arc<ConnectionEvents>) {
    let watched = Arc::new(ConnectionEvents::default());
    (HookedIo::new(inner, FrameWatch::new(Arc::clone(&watched))), watched)
}

impl FrameWatch {
    fn new(watched: Arc<ConnectionEvents>) -> Self {
        Self { watched, head: [0; FRAME_HEAD], head_length: 0, payload_left: 0, heads: 0, has_new: false, end: None }
    }

    /// Reads the frame heads in `bytes`, which continue the bytes of earlier calls.
    fn observe(&mut self, mut bytes: &[u8]) -> Result<(), TooManyInterimResponses> {
        loop {
            let skipped = self.payload_left.min(bytes.len());
            self.payload_left -= skipped;
            bytes = bytes.get(skipped..).unwrap_or_default();
            let missing = self.head.get_mut(self.head_length..).unwrap_or_default();
            let taken = missing.len().min(bytes.len());
            let (Some(missing), Some((head, rest))) = (missing.get_mut(..taken), bytes.split_at_checked(taken)) else {
                return Ok(());
            };
            missing.copy_from_slice(head);
            bytes = rest;
            self.head_length += taken;
            if self.head_length < FRAME_HEAD {
                return Ok(());
            }
            self.head_length = 0;
            self.frame()?;
        }
    }

    fn frame(&mut self) -> Result<(), TooManyInterimResponses> {
        let [a, b, c, kind, flags, ..] = self.head;
        self.payload_left = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
        if kind == GOAWAY {
            self.watched.retire();
        }
        if kind == HEADERS && flags & END_STREAM == 0 {
            self.heads += 1;
            let requests = self.watched.requests.load(Relaxed);
            if self.heads > INTERIM_RESPONSES + requests.saturating_mul(1 + INTERIM_RESPONSES_PER_REQUEST) {
                return Err(TooManyInterimResponses);
            }
        }
        Ok(())
    }
}

impl ReadHook for FrameWatch {
    fn poll_read<S: AsyncRead>(
        &mut self,
        inner: Pin<&mut S>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(end) = self.end.take() {
            return Poll::Ready(end);
        }
        let (mut read, bytes) = read_bytes(inner, cx, buf);
        let had_new = std::mem::replace(&mut self.has_new, !bytes.is_empty());
        if !bytes.is_empty() {
            self.watched.has_read.store(true, Relaxed);
        }
        if let Poll::Ready(Ok(())) = read
            && let Err(error) = self.observe(bytes)
        {
            read = Poll::Ready(Err(io::Error::other(error)));
        }
        if let Poll::Ready(Err(error)) = &read {
            let _ = self.watched.read_error.set(error.to_string());
        }
        match read {
            Poll::Ready(end) if bytes.is_empty() && had_new => {
                self.end = Some(end);
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            read => read,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frame(kind: u8, flags: u8, payload: usize) -> Vec<u8> {
        let [_, _, _, _, _, a, b, c] = (payload as u64).to_be_bytes();
        [vec![a, b, c, kind, flags, 0, 0, 0, 1], vec![HEADERS; payload]].concat()
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn frames_are_recognized_in_pieces_of_any_size(
            payloads in proptest::collection::vec(0_usize..400, 0..8),
            piece in 1_usize..50,
        ) {
            let mut bytes = payloads.iter().flat_map(|payload| frame(0, 0, *payload)).collect::<Vec<_>>();
            bytes.extend(frame(HEADERS, 0, 7));
            bytes.extend(frame(HEADERS, END_STREAM, 7));
            let mut parser = FrameWatch::new(Arc::default());
            for piece in bytes.chunks(piece) {
                prop_assert!(parser.observe(piece).is_ok());
            }
            prop_assert_eq!((parser.heads, parser.watched.is_going_away()), (1, false));
            for piece in frame(GOAWAY, 0, 8).chunks(piece) {
                prop_assert!(parser.observe(piece).is_ok());
            }
            prop_assert!(parser.watched.is_going_away());
        }
    }

    #[test]
    fn interim_responses_are_limited_by_the_number_of_requests() {
        let mut parser = FrameWatch::new(Arc::default());
        parser.watched.count_request();
        let allowed = INTERIM_RESPONSES + 1 + INTERIM_RESPONSES_PER_REQUEST;
        for _ in 0..allowed {
            assert!(parser.observe(&frame(HEADERS, 0, 1)).is_ok());
        }
        assert!(parser.observe(&frame(HEADERS, END_STREAM, 1)).is_ok());
        assert!(parser.observe(&frame(HEADERS, 0, 1)).is_err());
    }
}
