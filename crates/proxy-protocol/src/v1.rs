//! Version 1: a line of text.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::{FromStr, Split};

use crate::{Header, HeaderError};

pub(crate) const PREFIX: &[u8] = b"PROXY ";
/// Longest line in bytes, with its line break.
const MAX_BYTES: usize = 107;

/// Parses a header that begins with [`PREFIX`].
pub(crate) fn parse(bytes: &[u8]) -> Result<Option<Header<'_>>, HeaderError> {
    let window = &bytes[..bytes.len().min(MAX_BYTES)];
    let Some(end) = window.iter().position(|byte| *byte == b'\n') else {
        return if window.len() == MAX_BYTES { Err(HeaderError::TooLong) } else { Ok(None) };
    };
    let line = window[PREFIX.len()..end].strip_suffix(b"\r").ok_or(HeaderError::Malformed("no CR before LF"))?;
    let header = Header { length: end + 1, ..Header::default() };
    // Behind `UNKNOWN`, the rest of the line has no meaning.
    if line.split(|byte| *byte == b' ').next() == Some(b"UNKNOWN") {
        return Ok(Some(header));
    }
    let source = std::str::from_utf8(line).ok().and_then(source).ok_or(HeaderError::Malformed("addresses"))?;
    Ok(Some(Header { source: Some(source), ..header }))
}

/// Parses the family and both addresses. Returns the first one.
fn source(line: &str) -> Option<SocketAddr> {
    let mut words = line.split(' ');
    match words.next()? {
        "TCP4" => addresses::<Ipv4Addr>(words),
        "TCP6" => addresses::<Ipv6Addr>(words),
        _ => None,
    }
}

fn addresses<A: FromStr + Into<IpAddr>>(mut words: Split<'_, char>) -> Option<SocketAddr> {
    let source: IpAddr = words.next()?.parse::<A>().ok()?.into();
    words.next()?.parse::<A>().ok()?;
    let source_port = port(words.next()?)?;
    port(words.next()?)?;
    words.next().is_none().then(|| SocketAddr::new(source.to_canonical(), source_port))
}

/// Parses a port: digits without a sign and without leading zeros.
fn port(text: &str) -> Option<u16> {
    let is_decimal = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    text.parse().ok().filter(|_| is_decimal)
}
