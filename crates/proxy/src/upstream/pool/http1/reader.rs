//! Reader of responses (RFC 9112 §4 and §6). It does no I/O, and keeps what it has not read in its buffer.

use std::mem::MaybeUninit;

use bytes::{Buf as _, Bytes, BytesMut};
use http::{HeaderMap, Response, StatusCode, Version};
use http_body::{Frame, SizeHint};
use hyper::ext::ReasonPhrase;

use crate::upstream::pool::http1::chunks::Chunks;
use crate::upstream::pool::http1::error::Http1Error;
use crate::upstream::pool::http1::fields::{Framing, Length, append_fields};

/// Maximum bytes of interim responses before a response head.
const INTERIM_BYTES: usize = 1024 * 1024;
/// Fields of a head that are parsed without an allocation.
const FEW_FIELDS: usize = 64;
/// Longest part of a body that is copied, so that the buffer can be used again at once.
const COPIED_BYTES: usize = 1024;

/// Limits of a response head, and of trailers.
#[derive(Clone, Copy, Debug)]
pub struct HeadLimits {
    /// Maximum number of bytes.
    pub max_bytes: usize,
    /// Maximum number of fields.
    pub max_fields: usize,
}

/// Reader of the responses of one connection.
#[derive(Debug)]
pub struct ResponseReader {
    /// Bytes that have been received and not been read.
    pub(super) buffer: BytesMut,
    limits: HeadLimits,
    body: BodyFraming,
    /// Bytes of an incomplete head that have been searched for its end.
    searched: usize,
    /// Bytes of interim responses before the expected head.
    interim_bytes: usize,
    keeps_alive: bool,
}

/// Part of a response body that is to be read.
#[derive(Debug)]
enum BodyFraming {
    Ended,
    Length(u64),
    Chunked(Chunks),
    UntilClose,
}

impl ResponseReader {
    /// Creates the reader of a connection.
    #[must_use]
    pub fn new(limits: HeadLimits) -> Self {
        let (buffer, body) = (BytesMut::new(), BodyFraming::Ended);
        Self { buffer, limits, body, searched: 0, interim_bytes: 0, keeps_alive: true }
    }

    /// Adds received bytes.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns true if a further request may be sent: the latest response has been read to its end, nothing follows it, and
    /// the upstream keeps the connection.
    #[must_use]
    pub fn is_reusable(&self) -> bool {
        self.keeps_alive && self.has_ended() && self.buffer.is_empty()
    }

    /// Returns true if the body has been read to its end.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        matches!(self.body, BodyFraming::Ended)
    }

    /// Returns the size of the rest of the body.
    #[must_use]
    pub fn size_hint(&self) -> SizeHint {
        match self.body {
            BodyFraming::Ended => SizeHint::with_exact(0),
            BodyFraming::Length(left) => SizeHint::with_exact(left),
            BodyFraming::Chunked(_) | BodyFraming::UntilClose => SizeHint::default(),
        }
    }

    /// Reads the response head; `None` if it is not complete. `is_head` is true for a response to `HEAD`. Interim responses
    /// before it go to `interim`. The memory of `spare` is used for the fields of the head.
    ///
    /// # Errors
    /// The head is invalid or too large.
    pub fn head(
        &mut self,
        is_head: bool,
        spare: &mut HeaderMap,
        mut interim: impl FnMut(StatusCode, HeaderMap),
    ) -> Result<Option<Response<()>>, Http1Error> {
        while self.may_have_head() {
            let Some((response, framing)) = self.next_head(spare)? else { break };
            let status = response.status();
            if !status.is_informational() || status == StatusCode::SWITCHING_PROTOCOLS {
                self.begin_body(&response, &framing, is_head)?;
                return Ok(Some(response));
            }
            interim(status, response.into_parts().0.headers);
        }
        if self.buffer.len() >= self.limits.max_bytes {
            return Err(Http1Error::TooLarge);
        }
        self.searched = self.buffer.len();
        Ok(None)
    }

    /// Returns true if the buffer may have a complete head: an upstream may send single bytes.
    fn may_have_head(&self) -> bool {
        let added = self.buffer.get(self.searched.saturating_sub(3)..).unwrap_or_default();
        match self.searched {
            0 => !added.is_empty(),
            _ => added.windows(2).any(|end| end == b"\n\n") || added.windows(3).any(|end| end == b"\n\r\n"),
        }
    }

    /// Parses one head and removes it from the buffer.
    fn next_head(&mut self, spare: &mut HeaderMap) -> Result<Option<(Response<()>, Framing)>, Http1Error> {
        let HeadLimits { max_bytes, max_fields } = self.limits;
        let mut few = [const { MaybeUninit::uninit() }; FEW_FIELDS];
        let few = few.get_mut(..max_fields.min(FEW_FIELDS)).unwrap_or_default();
        let mut many;
        let mut head = httparse::Response::new(&mut []);
        let config = httparse::ParserConfig::default();
        let mut parsed = config.parse_response_with_uninit_headers(&mut head, &self.buffer, few);
        if parsed == Err(httparse::Error::TooManyHeaders) && max_fields > FEW_FIELDS {
            many = vec![MaybeUninit::uninit(); max_fields];
            head = httparse::Response::new(&mut []);
            parsed = config.parse_response_with_uninit_headers(&mut head, &self.buffer, &mut many);
        }
        let length = match parsed {
            Ok(httparse::Status::Partial) => return Ok(None),
            Ok(httparse::Status::Complete(length)) => length,
            Err(httparse::Error::TooManyHeaders) => return Err(Http1Error::TooLarge),
            Err(_) => return Err(Http1Error::Invalid("the status line or a field")),
        };
        self.interim_bytes += length;
        if length > max_bytes || self.interim_bytes > max_bytes.saturating_add(INTERIM_BYTES) {
            return Err(Http1Error::TooLarge);
        }
        let status = head.code.and_then(|code| StatusCode::from_u16(code).ok());
        let status = status.ok_or(Http1Error::Invalid("the status"))?;
        let is_interim = status.is_informational() && status != StatusCode::SWITCHING_PROTOCOLS;
        let mut headers = if is_interim { HeaderMap::new() } else { std::mem::take(spare) };
        headers.clear();
        let is_http11 = head.version == Some(1);
        let mut framing = Framing { is_keep_alive: is_http11, ..Framing::default() };
        // A copy of the head leaves the buffer to the next read.
        let bytes = Bytes::copy_from_slice(self.buffer.get(..length).unwrap_or_default());
        append_fields(&mut headers, &bytes, &self.buffer, head.headers, |name, value| framing.note(name, value))?;
        let reason = head.reason.filter(|reason| Some(*reason) != status.canonical_reason());
        let mut response = Response::new(());
        if let Some(reason) = reason.and_then(|reason| ReasonPhrase::try_from(reason.as_bytes()).ok()) {
            // The server writes it to the client.
            response.extensions_mut().insert(reason);
        }
        self.buffer.advance(length);
        self.searched = 0;
        *response.status_mut() = status;
        *response.version_mut() = if is_http11 { Version::HTTP_11 } else { Version::HTTP_10 };
        *response.headers_mut() = headers;
        Ok(Some((response, framing)))
    }

    /// Begins the body of `response` (RFC 9112 §6.3).
    fn begin_body(&mut self, response: &Response<()>, framing: &Framing, is_head: bool) -> Result<(), Http1Error> {
        self.interim_bytes = 0;
        self.keeps_alive = framing.is_keep_alive && !framing.is_close;
        let has_no_body = matches!(
            response.status(),
            StatusCode::SWITCHING_PROTOCOLS | StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED
        );
        self.body = if is_head || has_no_body {
            BodyFraming::Ended
        } else if framing.codings > 0 {
            if response.version() == Version::HTTP_10 {
                return Err(Http1Error::Invalid("a transfer coding in HTTP/1.0"));
            }
            // A reader that preferred the length would find another end.
            self.keeps_alive &= framing.length == Length::Unknown;
            let is_chunked = framing.codings == 1 && framing.is_chunked;
            if is_chunked { BodyFraming::Chunked(Chunks::default()) } else { BodyFraming::UntilClose }
        } else {
            match framing.length {
                Length::Known(0) => BodyFraming::Ended,
                Length::Known(length) => BodyFraming::Length(length),
                Length::Invalid => return Err(Http1Error::Invalid("Content-Length")),
                Length::Unknown => BodyFraming::UntilClose,
            }
        };
        self.keeps_alive &= !matches!(self.body, BodyFraming::UntilClose);
        Ok(())
    }

    /// Reads the next frame of the body from the buffer; `None` if there is none yet, or if the body has ended.
    ///
    /// # Errors
    /// The framing is invalid, or the trailers are too large.
    pub fn frame(&mut self) -> Result<Option<Frame<Bytes>>, Http1Error> {
        match &mut self.body {
            BodyFraming::Chunked(chunks) => {
                let frame = chunks.frame(&mut self.buffer, &self.limits)?;
                if chunks.has_ended() {
                    self.body = BodyFraming::Ended;
                }
                Ok(frame)
            }
            BodyFraming::Ended => Ok(None),
            BodyFraming::Length(_) | BodyFraming::UntilClose if self.buffer.is_empty() => Ok(None),
            BodyFraming::UntilClose => Ok(Some(Frame::data(self.buffer.split().freeze()))),
            BodyFraming::Length(left) => {
                let length = usize::try_from(*left).unwrap_or(usize::MAX).min(self.buffer.len());
                *left -= length as u64;
                if *left == 0 {
                    self.body = BodyFraming::Ended;
                }
                Ok(Some(Frame::data(take(&mut self.buffer, length))))
            }
        }
    }

    /// Notes the end of the connection: that of a body without a length.
    ///
    /// # Errors
    /// A head was expected, or more of the body.
    pub fn close(&mut self) -> Result<(), Http1Error> {
        self.keeps_alive = false;
        match self.body {
            BodyFraming::UntilClose => {
                self.body = BodyFraming::Ended;
                Ok(())
            }
            BodyFraming::Ended | BodyFraming::Length(_) | BodyFraming::Chunked(_) => Err(Http1Error::Incomplete),
        }
    }
}

/// Removes the first `length` bytes from `buffer`.
pub(super) fn take(buffer: &mut BytesMut, length: usize) -> Bytes {
    if length > COPIED_BYTES {
        return buffer.split_to(length).freeze();
    }
    let copy = Bytes::copy_from_slice(buffer.get(..length).unwrap_or_default());
    buffer.advance(copy.len());
    copy
}
