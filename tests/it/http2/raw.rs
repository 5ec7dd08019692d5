//! HTTP/2 client that writes frames as bytes.

use crate::support::client::Connection;
use crate::support::gateway::Gateway;

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

/// HTTP/2 as bytes (RFC 9113 §4.1), its fields without compression (RFC 7541 §6.2.2).
pub(crate) struct Raw(pub(crate) Connection);

impl Raw {
    pub(crate) fn open(gateway: &Gateway) -> Self {
        let mut client = gateway.connect();
        client.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        let mut raw = Self(client);
        raw.frame(4, 0, 0, &[]);
        raw
    }

    pub(crate) fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let _ = self.0.try_send(frame(kind, flags, stream, payload));
    }

    pub(crate) fn headers(&mut self, stream: u32, flags: u8, fields: &[(&str, &str)]) {
        self.frame(HEADERS, flags | END_HEADERS, stream, &block(fields));
    }

    /// Returns the type and the payload of the next frame that is one of `kinds`; GOAWAY without payload if the
    /// connection closes before.
    pub(crate) fn until(&mut self, kinds: &[u8]) -> (u8, Vec<u8>) {
        loop {
            let (kind, _, payload) = self.next();
            if kinds.contains(&kind) || (kind, payload.len()) == (GOAWAY, 0) {
                return (kind, payload);
            }
        }
    }

    /// Returns the type, the flags and the payload of the next frame; GOAWAY without payload if the connection closes.
    pub(crate) fn next(&mut self) -> (u8, u8, Vec<u8>) {
        let head = self.0.take(9);
        let [a, b, c, kind, flags, ..] = head[..] else { return (GOAWAY, 0, Vec::new()) };
        (kind, flags, self.0.take(usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c)))
    }

    /// Returns the first frame that ends the request: a response head with its first byte, RST_STREAM or GOAWAY.
    pub(crate) fn outcome(&mut self) -> (u8, u8) {
        let (kind, payload) = self.until(&[HEADERS, RST_STREAM, GOAWAY]);
        (kind, payload.first().copied().unwrap_or(0))
    }
}

/// Returns a frame.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Returns `fields` as a header block.
pub(crate) fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name, value] {
            let length = u8::try_from(text.len()).unwrap();
            assert!(length < 127);
            block.push(length);
            block.extend_from_slice(text.as_bytes());
        }
    }
    block
}

pub(crate) const ORDINARY: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", "/x")];

/// `:status: 200` in HPACK's static table.
pub(crate) const OK: u8 = 0x88;
