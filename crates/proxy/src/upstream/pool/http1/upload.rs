//! Writes of a request and its body.

use std::io::IoSlice;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes};
use http::request;
use http_body::Body as _;

use crate::http::body::Body;
use crate::upstream::pool::http1::SharedIo;
use crate::upstream::pool::http1::error::Http1Error;
use crate::upstream::pool::http1::request::{BodyFraming, write_chunk_size, write_head, write_last_chunk};

/// Request that is being written.
///
/// A failed write discards its bytes, and those of the rest of the body: an upstream may have responded before it closed the
/// connection. Reads report the end of the connection after what has arrived.
#[derive(Debug)]
pub(super) struct Upload {
    /// Bytes before `data`: the head, or framing.
    prefix: Vec<u8>,
    /// Number of them that have been written.
    written: usize,
    data: Bytes,
    /// Bytes behind `data`.
    suffix: &'static [u8],
    body: Body,
    framing: BodyFraming,
    progress: WriteProgress,
    /// True when the end of the body is in the bytes that wait.
    is_last: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WriteProgress {
    /// No byte has been written.
    Nothing,
    Something,
    /// A write failed, the first one if `is_first`.
    Failed {
        is_first: bool,
    },
}

impl Default for Upload {
    fn default() -> Self {
        Self {
            prefix: Vec::new(),
            written: 0,
            data: Bytes::new(),
            suffix: &[],
            body: Body::default(),
            framing: BodyFraming::Length(0),
            progress: WriteProgress::Nothing,
            is_last: true,
        }
    }
}

impl Upload {
    /// Begins a request. Returns true if it asks the upstream to close the connection.
    pub(super) fn begin(&mut self, head: &request::Parts, body: Body) -> bool {
        self.prefix.clear();
        let (framing, closes) = write_head(&mut self.prefix, head, &body);
        (self.written, self.framing, self.progress) = (0, framing, WriteProgress::Nothing);
        self.is_last = body.is_end_stream();
        self.body = body;
        closes
    }

    /// Returns true if nothing is left to write.
    pub(super) fn is_complete(&self) -> bool {
        self.is_last && !self.has_bytes()
    }

    /// Returns true if the connection failed before it took a byte.
    pub(super) fn is_unsent(&self) -> bool {
        self.progress == WriteProgress::Failed { is_first: true }
    }

    /// Returns true if a write has failed.
    pub(super) fn has_failed(&self) -> bool {
        matches!(self.progress, WriteProgress::Failed { .. })
    }

    fn has_bytes(&self) -> bool {
        self.written < self.prefix.len() || !self.data.is_empty() || !self.suffix.is_empty()
    }

    /// Writes the request to its end.
    pub(super) fn poll(&mut self, io: &SharedIo, cx: &mut Context<'_>) -> Poll<Result<(), Http1Error>> {
        loop {
            if !self.is_last && self.data.is_empty() && self.suffix.is_empty() {
                // What waits of the head is written with the start of the body.
                match self.poll_body(cx) {
                    Poll::Ready(taken) => taken?,
                    Poll::Pending => {
                        ready!(self.poll_write(io, cx));
                        return Poll::Pending;
                    }
                }
            }
            ready!(self.poll_write(io, cx));
            if self.is_last {
                return Poll::Ready(Ok(()));
            }
        }
    }

    /// Takes the next frame of the body.
    fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Http1Error>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx)).transpose().map_err(Http1Error::RequestBody)?;
        if self.written == self.prefix.len() {
            self.prefix.clear();
            self.written = 0;
        }
        let trailers = match frame.map(http_body::Frame::into_data) {
            Some(Ok(data)) => {
                self.add(data);
                if !self.body.is_end_stream() && !matches!(self.framing, BodyFraming::Length(0)) {
                    return Poll::Ready(Ok(()));
                }
                None
            }
            Some(Err(frame)) => frame.into_trailers().ok(),
            None => None,
        };
        self.is_last = true;
        self.body = Body::default();
        Poll::Ready(match &self.framing {
            BodyFraming::Length(0) => Ok(()),
            BodyFraming::Length(_) => Err(Http1Error::ShortRequestBody),
            BodyFraming::Chunked(announced) => {
                match trailers {
                    None if !self.data.is_empty() => self.suffix = b"\r\n0\r\n\r\n",
                    trailers => write_last_chunk(&mut self.prefix, &trailers.unwrap_or_default(), announced),
                }
                Ok(())
            }
        })
    }

    /// Adds a part of the body.
    fn add(&mut self, mut data: Bytes) {
        match &mut self.framing {
            BodyFraming::Length(left) => {
                data.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= data.len() as u64;
            }
            BodyFraming::Chunked(_) if !data.is_empty() => {
                write_chunk_size(&mut self.prefix, data.len());
                self.suffix = b"\r\n";
            }
            BodyFraming::Chunked(_) => {}
        }
        self.data = data;
    }

    /// Writes what waits, and flushes it.
    fn poll_write(&mut self, io: &SharedIo, cx: &mut Context<'_>) -> Poll<()> {
        let mut io = io.borrow_mut();
        while self.has_bytes() && !self.has_failed() {
            let parts =
                [self.prefix.get(self.written..).unwrap_or_default(), &self.data, self.suffix].map(IoSlice::new);
            let written = match self.data.is_empty() && self.suffix.is_empty() {
                true => Pin::new(&mut *io).poll_write(cx, &parts[0]),
                false => Pin::new(&mut *io).poll_write_vectored(cx, &parts),
            };
            match ready!(written) {
                Ok(0) => self.fail(),
                Ok(length) => self.wrote(length),
                Err(_) => self.fail(),
            }
        }
        if self.has_failed() {
            (self.written, self.data, self.suffix) = (self.prefix.len(), Bytes::new(), &[]);
            return Poll::Ready(());
        }
        if ready!(Pin::new(&mut *io).poll_flush(cx)).is_err() {
            self.fail();
        }
        Poll::Ready(())
    }

    fn wrote(&mut self, length: usize) {
        self.progress = WriteProgress::Something;
        let of_prefix = length.min(self.prefix.len() - self.written);
        self.written += of_prefix;
        let of_data = (length - of_prefix).min(self.data.len());
        self.data.advance(of_data);
        if self.data.is_empty() {
            // An empty part would keep the memory of the client's reads in use.
            self.data = Bytes::new();
        }
        self.suffix = self.suffix.get(length - of_prefix - of_data..).unwrap_or_default();
    }

    fn fail(&mut self) {
        self.progress = WriteProgress::Failed { is_first: self.progress == WriteProgress::Nothing };
    }
}
