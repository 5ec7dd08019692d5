//! Heads of interim responses (1xx) before the response head of an HTTP/1.1 upstream.
//!
//! hyper skips them. Its callback for them would cost four allocations for each request, so they are read here, from the
//! bytes that pass on to hyper. A response without them costs a look at its first ten bytes.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use parking_lot::Mutex;

use crate::upstream::interim::InterimRelay;

/// Reader of the heads before the final one. Between the final head and the next request it reads nothing.
#[derive(Debug)]
pub(super) struct InterimHeads {
    /// One of [`OFF`], [`START`] and [`PARTIAL`].
    progress: AtomicU8,
    state: Mutex<State>,
    /// Most fields of a head that hyper accepts.
    max_fields: usize,
}

#[derive(Debug, Default)]
struct State {
    relay: Option<InterimRelay>,
    /// Start of a head whose end has not been read.
    partial: Vec<u8>,
}

/// No head is expected, or its interim heads are dropped.
const OFF: u8 = 0;
/// The next byte starts a head.
const START: u8 = 1;
/// A part of a head has been read.
const PARTIAL: u8 = 2;

impl InterimHeads {
    /// Creates the reader of a connection whose response heads have `max_fields` at most.
    pub(super) fn new(max_fields: usize) -> Self {
        Self { progress: AtomicU8::new(OFF), state: Mutex::default(), max_fields }
    }

    /// Expects the heads of the next response. The interim ones go to `relay`.
    pub(super) fn expect(&self, relay: Option<InterimRelay>) {
        self.progress.store(if relay.is_some() { START } else { OFF }, Relaxed);
        self.state.lock().relay = relay;
    }

    /// Ends the reading: hyper has read the final head.
    pub(super) fn end(&self) {
        if self.progress.swap(OFF, Relaxed) != OFF {
            *self.state.lock() = State::default();
        }
    }

    /// Reads bytes that the upstream has sent.
    #[inline]
    pub(super) fn read(&self, bytes: &[u8]) {
        match self.progress.load(Relaxed) {
            OFF => {}
            START if is_final(bytes) => self.end(),
            _ => self.read_heads(bytes),
        }
    }

    #[cold]
    fn read_heads(&self, bytes: &[u8]) {
        let mut state = self.state.lock();
        let parsed = state.partial.len();
        state.partial.extend_from_slice(bytes);
        // An upstream may send single bytes: the head is parsed when its end is there.
        let has_end = has_empty_line(state.partial.get(parsed.saturating_sub(3)..).unwrap_or_default());
        self.progress.store(PARTIAL, Relaxed);
        if has_end && state.relay_heads(self.max_fields) {
            drop(state);
            self.end();
        }
    }
}

impl State {
    /// Passes on the complete interim heads. Returns true if a final head follows, or bytes that are no head.
    fn relay_heads(&mut self, max_fields: usize) -> bool {
        let mut fields = vec![httparse::EMPTY_HEADER; max_fields];
        let mut read = 0;
        let has_ended = loop {
            let rest = self.partial.get(read..).unwrap_or_default();
            if is_final(rest) {
                break true;
            }
            let mut head = httparse::Response::new(&mut fields);
            match head.parse(rest) {
                Ok(httparse::Status::Partial) => break false,
                Ok(httparse::Status::Complete(length)) => {
                    let status = head.code.and_then(|code| StatusCode::from_u16(code).ok());
                    let Some(status) = status.filter(StatusCode::is_informational) else { break true };
                    if status == StatusCode::SWITCHING_PROTOCOLS {
                        break true;
                    }
                    if let Some(relay) = &self.relay {
                        relay.relay(status, header_map(head.headers));
                    }
                    read += length;
                }
                // hyper fails on it too.
                Err(_) => break true,
            }
        };
        self.partial.drain(..read);
        has_ended
    }
}

/// Returns true if `bytes` start a final response head: its status has another first digit than 1.
fn is_final(bytes: &[u8]) -> bool {
    bytes.starts_with(b"HTTP/1.") && bytes.get(9).is_some_and(|digit| *digit != b'1')
}

/// Returns true if a head may end in `bytes`.
fn has_empty_line(bytes: &[u8]) -> bool {
    bytes.windows(2).any(|end| end == b"\n\n") || bytes.windows(3).any(|end| end == b"\n\r\n")
}

fn header_map(fields: &[httparse::Header<'_>]) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(fields.len());
    for field in fields {
        let name = HeaderName::from_bytes(field.name.as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(field.value)) {
            headers.append(name, value);
        }
    }
    headers
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use http::Response;
    use tollgate_config::Underscores;

    use super::*;
    use crate::http::interim::{InterimResponses, InterimSender};
    use crate::upstream::headers::HeaderPolicy;

    const HINT: &str = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
    const FINAL: &str = "HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\n";

    /// Returns the statuses and links that reach the client from an upstream that sends these pieces, and the reader.
    fn relayed<'p>(pieces: impl IntoIterator<Item = &'p [u8]>) -> (Vec<(u16, String)>, InterimHeads) {
        let client = InterimResponses::default();
        let policy = Arc::new(HeaderPolicy { underscores: Underscores::Drop, remove: None, via: None });
        let heads = InterimHeads::new(8);
        heads.expect(InterimSender::scope(&mut Some(client.open()), || InterimRelay::current(&policy)));
        pieces.into_iter().for_each(|piece| heads.read(piece));
        let link = |response: &Response<()>| {
            let link = response.headers().get("link").map(|link| link.to_str().unwrap().to_owned());
            (response.status().as_u16(), link.unwrap_or_default())
        };
        (client.take().iter().map(link).collect(), heads)
    }

    #[test]
    fn interim_heads_are_recognized_in_pieces_of_any_size() {
        let sent = format!("\r\n{HINT}HTTP/1.1 100 Continue\n\nHTTP/1.1 150 \r\n\r\n{HINT}{FINAL}{HINT}");
        let expected = [(103, "</a>".to_owned()), (150, String::new()), (103, "</a>".to_owned())];
        for size in [1, 2, 3, 7, 9, 10, 11, 40, 1000] {
            let (relayed, heads) = relayed(sent.as_bytes().chunks(size));
            assert_eq!(relayed, expected, "{size}");
            assert!(heads.state.lock().partial.is_empty() && heads.progress.load(Relaxed) == OFF, "{size}");
        }
    }

    #[test]
    fn nothing_is_kept_of_a_final_response_or_of_other_bytes() {
        for sent in [
            FINAL,
            "HTTP/1.1 101 Switching Protocols\r\n\r\nHTTP/1.1 103 x\r\n\r\n",
            "SSH-2.0\r\n\r\n",
            "\r\n\r\nx\n\n",
        ] {
            let (relayed, heads) = relayed([sent.as_bytes(), HINT.as_bytes()]);
            assert_eq!(relayed, [], "{sent}");
            let state = heads.state.lock();
            assert!(state.relay.is_none() && state.partial.is_empty(), "{sent}");
        }
    }

    #[test]
    fn without_a_client_for_them_interim_heads_are_not_read() {
        let heads = InterimHeads::new(8);
        heads.expect(None);
        heads.read(&HINT.as_bytes()[..5]);
        assert!(heads.state.lock().partial.is_empty());
    }
}
