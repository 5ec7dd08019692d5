//! HTTP/2 upstream that writes frames as bytes (RFC 9113 §4.1).

use std::io::{Read, Write};
use std::net::TcpStream;

use super::upstream::Upstream;

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;

pub const END_STREAM: u8 = 1;
pub const ACK: u8 = 1;
pub const END_HEADERS: u8 = 4;

pub const NO_ERROR: u32 = 0;
pub const REFUSED_STREAM: u32 = 7;

/// `:status: 200` in HPACK's static table (RFC 7541, appendix A).
pub const OK: &[u8] = &[0x88];

/// A frame as received.
#[derive(Clone, Debug)]
pub struct Frame {
    /// The type.
    pub kind: u8,
    /// The flags.
    pub flags: u8,
    /// The stream.
    pub stream: u32,
    /// The payload.
    pub payload: Vec<u8>,
}

/// Server side of a connection. Frames are collected and written together by [`RawHttp2::flush`].
pub struct RawHttp2<'a> {
    stream: &'a mut TcpStream,
    pending: Vec<u8>,
}

impl RawHttp2<'_> {
    /// Starts an upstream that handles each connection with `script`, after the preface.
    pub fn upstream(script: impl Fn(&mut RawHttp2<'_>) + Send + Sync + 'static) -> Upstream {
        Upstream::scripted(move |stream, _| {
            let mut preface = [0; 24];
            if stream.read_exact(&mut preface).is_ok() {
                let mut connection = RawHttp2 { stream, pending: Vec::new() };
                connection.frame(SETTINGS, 0, 0, &[]);
                connection.flush();
                script(&mut connection);
            }
        })
    }

    /// Collects a frame.
    pub fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> &mut Self {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        self.pending.extend_from_slice(&length[1..]);
        self.pending.extend_from_slice(&[kind, flags]);
        self.pending.extend_from_slice(&stream.to_be_bytes());
        self.pending.extend_from_slice(payload);
        self
    }

    /// Collects a response head: status 200, then further encoded fields.
    pub fn head(&mut self, stream: u32, flags: u8) -> &mut Self {
        self.frame(HEADERS, flags | END_HEADERS, stream, OK)
    }

    /// Collects a part of a body.
    pub fn data(&mut self, stream: u32, flags: u8, data: &[u8]) -> &mut Self {
        self.frame(DATA, flags, stream, data)
    }

    /// Collects a complete response with this body.
    pub fn respond(&mut self, stream: u32, body: &[u8]) -> &mut Self {
        self.head(stream, 0).data(stream, END_STREAM, body)
    }

    /// Collects a reset of a stream.
    pub fn reset(&mut self, stream: u32, code: u32) -> &mut Self {
        self.frame(RST_STREAM, 0, stream, &code.to_be_bytes())
    }

    /// Collects a GOAWAY.
    pub fn go_away(&mut self, last_stream: u32, code: u32) -> &mut Self {
        self.frame(GOAWAY, 0, 0, &[last_stream.to_be_bytes(), code.to_be_bytes()].concat())
    }

    /// Writes the collected frames at once. Returns false if the connection is closed.
    pub fn flush(&mut self) -> bool {
        let written = self.stream.write_all(&self.pending).is_ok();
        self.pending.clear();
        written
    }

    /// Reads the next frame; `None` if the connection closed. Acknowledges SETTINGS and PING.
    pub fn next(&mut self) -> Option<Frame> {
        let mut head = [0; 9];
        self.stream.read_exact(&mut head).ok()?;
        let [a, b, c, kind, flags, d, e, f, g] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        self.stream.read_exact(&mut payload).ok()?;
        if [SETTINGS, PING].contains(&kind) && flags & ACK == 0 {
            let echoed = if kind == PING { payload.clone() } else { Vec::new() };
            self.frame(kind, ACK, 0, &echoed);
            self.flush();
        }
        Some(Frame { kind, flags, stream: u32::from_be_bytes([d, e, f, g]) & 0x7fff_ffff, payload })
    }

    /// Reads up to the head of the next request. Returns its stream, and true if it has no body.
    pub fn request(&mut self) -> Option<(u32, bool)> {
        loop {
            let frame = self.next()?;
            if frame.kind == HEADERS {
                return Some((frame.stream, frame.flags & END_STREAM != 0));
            }
        }
    }

    /// Reads frames until the connection closes.
    pub fn drain(&mut self) {
        while self.next().is_some() {}
    }
}

/// Encodes fields as literals without compression (RFC 7541 §6.2.2).
pub fn fields(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name, value] {
            length(&mut block, text.len());
            block.extend_from_slice(text.as_bytes());
        }
    }
    block
}

/// Encodes a length as an integer with a prefix of seven bits (RFC 7541 §5.1).
fn length(block: &mut Vec<u8>, length: usize) {
    if length < 127 {
        return block.push(u8::try_from(length).unwrap());
    }
    block.push(127);
    let mut rest = length - 127;
    while rest >= 128 {
        block.push(u8::try_from(rest % 128).unwrap() | 128);
        rest /= 128;
    }
    block.push(u8::try_from(rest).unwrap());
}
