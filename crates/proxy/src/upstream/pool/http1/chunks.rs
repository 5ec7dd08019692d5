//! Decoder of chunked bodies (RFC 9112 §7.1). Every line ends with CR LF.

use bytes::{Buf as _, Bytes, BytesMut};
use http::HeaderMap;
use http_body::Frame;

use crate::upstream::pool::http1::error::Http1Error;
use crate::upstream::pool::http1::fields::append_fields;
use crate::upstream::pool::http1::reader::{HeadLimits, take};

/// Maximum bytes of chunk extensions, with the whitespace before them, of one body.
const EXTENSION_BYTES: usize = 16 * 1024;
/// Maximum digits of a chunk size: those of 64 bits.
const MAX_DIGITS: u8 = 16;

/// Decoder of one chunked body.
#[derive(Debug, Default)]
pub(super) struct Chunks {
    state: State,
    /// Size of the chunk, then the bytes of it that are left.
    left: u64,
    digits: u8,
    extension_bytes: usize,
    /// Bytes of the trailers that have been searched for their end.
    searched: usize,
}

/// Next byte of a chunked body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Size,
    Space,
    Extension,
    SizeLineFeed,
    Data,
    DataCarriageReturn,
    DataLineFeed,
    Trailers,
    End,
}

impl Chunks {
    /// Returns true if the last chunk and the trailers have been decoded.
    pub(super) fn has_ended(&self) -> bool {
        self.state == State::End
    }

    /// Takes the next frame from `buffer`; `None` if it has no further one yet, or if the body has ended.
    pub(super) fn frame(
        &mut self,
        buffer: &mut BytesMut,
        limits: &HeadLimits,
    ) -> Result<Option<Frame<Bytes>>, Http1Error> {
        self.framing(buffer)?;
        match self.state {
            State::Data if !buffer.is_empty() => {
                let length = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
                self.left -= length as u64;
                if self.left == 0 {
                    self.state = State::DataCarriageReturn;
                }
                Ok(Some(Frame::data(take(buffer, length))))
            }
            State::Trailers => self.trailers(buffer, limits),
            _ => Ok(None),
        }
    }

    /// Reads the framing before the next data, or before the trailers.
    fn framing(&mut self, buffer: &mut BytesMut) -> Result<(), Http1Error> {
        let is_framing = |state| !matches!(state, State::Data | State::Trailers | State::End);
        let mut read = 0;
        while let Some(byte) = buffer.get(read).filter(|_| is_framing(self.state)) {
            self.state = self.next(*byte)?;
            read += 1;
        }
        buffer.advance(read);
        Ok(())
    }

    /// Returns the state after one byte of the framing.
    fn next(&mut self, byte: u8) -> Result<State, Http1Error> {
        Ok(match (self.state, byte) {
            (State::Size, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') if self.digits < MAX_DIGITS => {
                self.digits += 1;
                self.left = self.left << 4 | u64::from((byte as char).to_digit(16).unwrap_or_default());
                State::Size
            }
            (State::Size, b' ' | b'\t') if self.digits > 0 => State::Space,
            (State::Size, b';') if self.digits > 0 => State::Extension,
            (State::Size, b'\r') if self.digits > 0 => State::SizeLineFeed,
            (State::Space | State::Extension, b'\r') => State::SizeLineFeed,
            (State::Space, b';') => State::Extension,
            (State::Space, b' ' | b'\t') | (State::Extension, b'\t' | b' '..=b'~' | 0x80..=0xff) => {
                self.extension_bytes += 1;
                if self.extension_bytes > EXTENSION_BYTES {
                    return Err(Http1Error::TooLarge);
                }
                self.state
            }
            (State::SizeLineFeed, b'\n') => {
                self.digits = 0;
                if self.left == 0 { State::Trailers } else { State::Data }
            }
            (State::DataCarriageReturn, b'\r') => State::DataLineFeed,
            (State::DataLineFeed, b'\n') => State::Size,
            _ => return Err(Http1Error::Invalid("the framing of a chunk")),
        })
    }

    /// Decodes the trailers once they are complete.
    fn trailers(&mut self, buffer: &mut BytesMut, limits: &HeadLimits) -> Result<Option<Frame<Bytes>>, Http1Error> {
        if buffer.starts_with(b"\r\n") {
            buffer.advance(2);
            self.state = State::End;
            return Ok(None);
        }
        let length = self.end_of_trailers(buffer)?;
        if length.unwrap_or(buffer.len()) > limits.max_bytes {
            return Err(Http1Error::TooLarge);
        }
        let Some(length) = length else { return Ok(None) };
        let section = buffer.split_to(length).freeze();
        let mut fields = vec![httparse::EMPTY_HEADER; limits.max_fields];
        let fields = match httparse::parse_headers(&section, &mut fields) {
            Ok(httparse::Status::Complete((read, fields))) if read == section.len() => fields,
            Err(httparse::Error::TooManyHeaders) => return Err(Http1Error::TooLarge),
            _ => return Err(Http1Error::Invalid("the trailers")),
        };
        let mut trailers = HeaderMap::with_capacity(fields.len());
        append_fields(&mut trailers, &section, &section, fields, |_, _| {})?;
        self.state = State::End;
        Ok(Some(Frame::trailers(trailers)))
    }

    /// Returns the length of the trailers with the empty line behind them; `None` if that has not arrived.
    fn end_of_trailers(&mut self, buffer: &[u8]) -> Result<Option<usize>, Http1Error> {
        while let Some(found) = memchr::memchr2(b'\r', b'\n', buffer.get(self.searched..).unwrap_or_default()) {
            let at = self.searched + found;
            match (buffer.get(at), buffer.get(at + 1)) {
                (Some(b'\r'), Some(b'\n')) => {}
                (Some(b'\r'), None) => {
                    self.searched = at;
                    return Ok(None);
                }
                _ => return Err(Http1Error::Invalid("the end of a line in the trailers")),
            }
            self.searched = at + 2;
            if buffer.get(..at).is_some_and(|before| before.ends_with(b"\r\n")) {
                return Ok(Some(at + 2));
            }
        }
        self.searched = buffer.len();
        Ok(None)
    }
}
