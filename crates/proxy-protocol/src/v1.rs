//! Version 1: a line of text.
//!
//! Its bytes are read once. The address parsers of the standard library take three times the instructions.

use std::net::{IpAddr, SocketAddr};

use crate::{Header, HeaderError};

pub(crate) const PREFIX: &[u8] = b"PROXY ";
/// Longest line in bytes, with its line break.
const MAX_BYTES: usize = 107;

/// Rest of a line.
pub(crate) struct Line<'b>(pub(crate) &'b [u8]);

/// Parses a header that begins with [`PREFIX`].
pub(crate) fn parse(bytes: &[u8]) -> Result<Option<Header<'_>>, HeaderError> {
    let window = &bytes[..bytes.len().min(MAX_BYTES)];
    let mut line = Line(&window[PREFIX.len()..]);
    if let Some(source) = line.source() {
        let length = window.len() - line.0.len();
        return Ok(Some(Header { length, source: Some(source), ..Header::default() }));
    }
    let Some(end) = window.iter().position(|byte| *byte == b'\n') else {
        return if window.len() == MAX_BYTES { Err(HeaderError::TooLong) } else { Ok(None) };
    };
    match window[PREFIX.len()..end].strip_suffix(b"\r") {
        // Behind `UNKNOWN`, the rest of the line has no meaning.
        Some(b"UNKNOWN" | [b'U', b'N', b'K', b'N', b'O', b'W', b'N', b' ', ..]) => {
            Ok(Some(Header { length: end + 1, ..Header::default() }))
        }
        Some(_) => Err(HeaderError::Malformed("addresses")),
        None => Err(HeaderError::Malformed("no CR before LF")),
    }
}

impl Line<'_> {
    /// Reads the family, both addresses, both ports and the line break. Returns the first address with its port.
    fn source(&mut self) -> Option<SocketAddr> {
        let (family, rest) = self.0.split_at_checked(5)?;
        self.0 = rest;
        let address = |line: &mut Self| match family {
            b"TCP4 " => line.ipv4().map(IpAddr::from),
            b"TCP6 " => line.ipv6().map(IpAddr::from),
            _ => None,
        };
        let source = address(self)?;
        self.skip(b' ')?;
        address(self)?;
        self.skip(b' ')?;
        let port = self.port()?;
        self.skip(b' ')?;
        self.port()?;
        self.skip(b'\r')?;
        self.skip(b'\n')?;
        Some(SocketAddr::new(source.to_canonical(), port))
    }
}
