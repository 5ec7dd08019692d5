//! The parts of a request that key ids are made of.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::header::{COOKIE, HOST};
use http::{HeaderMap, Request, Uri};

use super::buffer::KeyBuf;
use crate::percent;

/// Prefix lengths under which addresses count as one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IpPrefixes {
    pub(super) v4: u8,
    pub(super) v6: u8,
}

/// Writes the network of `address`: `192.0.2.7`, `2001:db8::/64`.
pub(super) fn network(address: IpAddr, prefixes: IpPrefixes, out: &mut KeyBuf) {
    match address.to_canonical() {
        IpAddr::V4(v4) => {
            let bits = prefixes.v4.min(32);
            let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
            dotted(Ipv4Addr::from(u32::from(v4) & mask), out);
            suffix(bits, 32, out);
        }
        IpAddr::V6(v6) => {
            let bits = prefixes.v6.min(128);
            let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
            // Writing to the buffer cannot fail.
            let _ = write!(out, "{}", Ipv6Addr::from(u128::from(v6) & mask));
            suffix(bits, 128, out);
        }
    }
}

fn dotted(address: Ipv4Addr, out: &mut KeyBuf) {
    let mut digits = itoa::Buffer::new();
    for (at, octet) in address.octets().into_iter().enumerate() {
        if at > 0 {
            out.push(b".");
        }
        out.push(digits.format(octet).as_bytes());
    }
}

fn suffix(bits: u8, full: u8, out: &mut KeyBuf) {
    if bits < full {
        out.push(b"/");
        out.push(itoa::Buffer::new().format(bits).as_bytes());
    }
}

/// The raw value of the first query parameter `name`; names are compared decoded.
pub(super) fn query<'a>(uri: &'a Uri, name: &str) -> Option<&'a [u8]> {
    let pairs = uri.query()?.as_bytes().split(|b| *b == b'&');
    pairs
        .map(|pair| match pair.iter().position(|b| *b == b'=') {
            Some(at) => (&pair[..at], &pair[at + 1..]),
            None => (pair, &pair[pair.len()..]),
        })
        .find(|(raw, _)| percent::decode(raw, true).eq(name.bytes()))
        .map(|(_, value)| value)
}

/// The value of the first cookie `name` without the double quotes that may stand around it (RFC 6265 §4.2.1).
pub(crate) fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a [u8]> {
    let pairs = headers.get_all(COOKIE).iter().flat_map(|line| line.as_bytes().split(|b| *b == b';'));
    let value =
        pairs.map(<[u8]>::trim_ascii).find_map(|pair| pair.strip_prefix(name.as_bytes())?.strip_prefix(b"="))?;
    Some(value.strip_prefix(b"\"").and_then(|v| v.strip_suffix(b"\"")).unwrap_or(value))
}

/// The host that the request is for: in lower case, without port and trailing dot, so that spellings share a bucket.
/// The target's authority wins over the `Host` header (RFC 9112 §3.2.2).
pub(super) fn host<B>(request: &Request<B>, out: &mut KeyBuf) {
    let authority = request.uri().authority().map(|authority| authority.as_str().as_bytes());
    let Some(full) = authority.or_else(|| request.headers().get(HOST).map(|host| host.as_bytes())) else { return };
    let full = full.iter().position(|b| *b == b'@').map_or(full, |at| &full[at + 1..]);
    let end = full.iter().rposition(|b| *b == b':').filter(|at| !full[*at..].contains(&b']'));
    let name = end.map_or(full, |at| &full[..at]);
    let name = name.strip_suffix(b".").unwrap_or(name);
    for byte in name {
        out.push(&[byte.to_ascii_lowercase()]);
    }
}

/// `raw` decoded: itself when there is nothing to decode, otherwise written to `out`.
pub(super) fn decoded<'a>(raw: &'a [u8], plus_is_space: bool, out: &'a mut KeyBuf) -> &'a [u8] {
    if !raw.iter().any(|b| *b == b'%' || (plus_is_space && *b == b'+')) {
        return raw;
    }
    for byte in percent::decode(raw, plus_is_space) {
        out.push(&[byte]);
    }
    out.as_bytes()
}
