//! Values of a request that key ids consist of.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::header::{
    ACCESS_CONTROL_REQUEST_METHOD, AUTHORIZATION, CONTENT_LENGTH, COOKIE, HOST, ORIGIN, TRANSFER_ENCODING,
};
use http::{Extensions, HeaderMap, HeaderName, HeaderValue, Method, Request};

use super::buffer::KeyBuf;
use crate::client_certificate::{CertificatePart, VerifiedClient};
use crate::context::HasBody;
use crate::percent;
use crate::repeated::Repeated;

/// Prefix lengths in bits: addresses of one prefix count as one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IpPrefixes {
    pub(super) v4: u8,
    pub(super) v6: u8,
}

impl IpPrefixes {
    /// IPv4 in full, and IPv6 by /64: a household or server gets at least a /64 and can rotate addresses within it.
    pub(super) const DEFAULT: Self = Self { v4: 32, v6: 64 };
}

/// Writes the network of `address`: `192.0.2.7`, `2001:db8::/64`.
pub(super) fn network(address: IpAddr, prefixes: IpPrefixes, out: &mut KeyBuf) {
    match address.to_canonical() {
        IpAddr::V4(v4) => {
            let bits = prefixes.v4.min(32);
            let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
            write_v4(Ipv4Addr::from(u32::from(v4) & mask), out);
            write_prefix(bits, 32, out);
        }
        IpAddr::V6(v6) => {
            let bits = prefixes.v6.min(128);
            let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
            // Writing to the buffer cannot fail.
            let _ = write!(out, "{}", Ipv6Addr::from(u128::from(v6) & mask));
            write_prefix(bits, 128, out);
        }
    }
}

fn write_v4(address: Ipv4Addr, out: &mut KeyBuf) {
    let mut digits = itoa::Buffer::new();
    for (at, octet) in address.octets().into_iter().enumerate() {
        if at > 0 {
            out.push(b".");
        }
        out.push(digits.format(octet).as_bytes());
    }
}

fn write_prefix(bits: u8, full: u8, out: &mut KeyBuf) {
    if bits < full {
        out.push(b"/");
        out.push(itoa::Buffer::new().format(bits).as_bytes());
    }
}

/// Returns the value of the field `name`.
pub(super) fn header<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Repeated<&'a [u8]> {
    Repeated::of(headers.get_all(name).iter().map(HeaderValue::as_bytes), |one, other| one == other)
}

/// Writes the requested host in lower case, without port and trailing dot, so that all spellings share a bucket.
///
/// The target's authority takes precedence over the `Host` header (RFC 9112 §3.2.2).
pub(super) fn host<B>(request: &Request<B>, out: &mut KeyBuf) {
    let authority = request.uri().authority().map(|authority| authority.as_str().as_bytes());
    let Some(full) = authority.or_else(|| request.headers().get(HOST).map(|host| host.as_bytes())) else { return };
    let full = full.iter().position(|b| *b == b'@').map_or(full, |at| &full[at + 1..]);
    let end = full.iter().rposition(|b| *b == b':').filter(|at| !full[*at..].contains(&b']'));
    let name = end.map_or(full, |at| &full[..at]);
    let end = name.iter().rposition(|b| *b != b'.').map_or(0, |last| last + 1);
    let name = &name[..end];
    for byte in name {
        out.push(&[byte.to_ascii_lowercase()]);
    }
}

/// Returns `path` without the parameters of its segments (`;…`) and without a slash at its end, and with characters decoded
/// that mean the same when they are encoded. One route may match all these spellings, which therefore share a bucket.
pub(super) fn path<'a>(path: &'a str, out: &'a mut KeyBuf) -> &'a [u8] {
    let path = match path.as_bytes() {
        [path @ .., b'/'] if !path.is_empty() => path,
        path => path,
    };
    if !path.iter().any(|byte| matches!(byte, b';' | b'%')) {
        return path;
    }
    for (at, segment) in path.split(|byte| *byte == b'/').enumerate() {
        if at > 0 {
            out.push(b"/");
        }
        let mut rest = segment.split(|byte| *byte == b';').next().unwrap_or_default();
        while let Some((first, behind)) = rest.split_first() {
            let plain = (*first == b'%').then(|| percent::decode(rest, false).next()).flatten();
            match plain.filter(|byte| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,=:@[]^|{}".contains(byte)) {
                Some(byte) => {
                    out.push(&[byte]);
                    rest = rest.get(3..).unwrap_or_default();
                }
                None => {
                    out.push(&[*first]);
                    rest = behind;
                }
            }
        }
    }
    out.as_bytes()
}

/// Returns `raw` decoded: `raw` itself if there is nothing to decode, otherwise the bytes written to `out`.
pub(super) fn decoded<'a>(raw: &'a [u8], plus_is_space: bool, out: &'a mut KeyBuf) -> &'a [u8] {
    if !raw.iter().any(|b| *b == b'%' || (plus_is_space && *b == b'+')) {
        return raw;
    }
    for byte in percent::decode(raw, plus_is_space) {
        out.push(&[byte]);
    }
    out.as_bytes()
}

/// Returns the value of `part` of the client's certificate.
pub(super) fn certificate(extensions: &Extensions, part: CertificatePart) -> Repeated<&'_ [u8]> {
    let Some(VerifiedClient(certificate)) = extensions.get::<VerifiedClient>() else { return Repeated::Absent };
    Repeated::of(certificate.values(part).iter().map(String::as_bytes), |one, other| one == other)
}

/// Returns true for the text of a fingerprint.
pub(super) fn is_fingerprint(id: &[u8]) -> bool {
    id.len() == 64 && id.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Start of the ids of preflights. Values of fields and cookies do not begin with a space, so that no key of a client is such
/// an id.
const PREFLIGHT_PREFIX: &[u8] = b" preflight ";

/// Fields that no preflight has: credentials, a body, and another method, which some upstreams read instead of `OPTIONS`.
const ABSENT_FROM_PREFLIGHTS: [HeaderName; 6] = [
    AUTHORIZATION,
    COOKIE,
    TRANSFER_ENCODING,
    HeaderName::from_static("x-http-method-override"),
    HeaderName::from_static("x-http-method"),
    HeaderName::from_static("x-method-override"),
];

/// Returns true for a preflight as browsers send it (Fetch, "CORS-preflight request"): without credentials and a body.
pub(crate) fn is_preflight<B>(request: &Request<B>) -> bool {
    let headers = request.headers();
    *request.method() == Method::OPTIONS
        && headers.contains_key(ORIGIN)
        && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
        && !ABSENT_FROM_PREFLIGHTS.iter().any(|name| headers.contains_key(name))
        && headers.get_all(CONTENT_LENGTH).iter().all(is_zero)
        && request.extensions().get::<HasBody>().is_none()
}

fn is_zero(length: &HeaderValue) -> bool {
    length.as_bytes().iter().all(|digit| *digit == b'0')
}

/// Returns true for an id as [`write_preflight_id`] writes it.
pub(super) fn is_preflight_id(id: &[u8]) -> bool {
    id.starts_with(PREFLIGHT_PREFIX)
}

/// Writes the id of the preflights of the client at `address`.
pub(super) fn write_preflight_id(address: IpAddr, out: &mut KeyBuf) {
    out.push(PREFLIGHT_PREFIX);
    network(address, IpPrefixes::DEFAULT, out);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_preflight_has_neither_credentials_nor_a_body_nor_another_method() {
        let asks = |more: &[(&str, &str)]| {
            let mut request = Request::builder().method("OPTIONS").header("origin", "https://shop.example");
            for (name, value) in [("access-control-request-method", "POST")].iter().chain(more) {
                request = request.header(*name, *value);
            }
            is_preflight(&request.body(()).unwrap())
        };
        assert!(asks(&[]) && asks(&[("content-length", "0"), ("accept", "*/*"), ("x-key", "")]));
        for field in [
            ("authorization", "Bearer x"),
            ("authorization", ""),
            ("cookie", "a=b"),
            ("content-length", "1"),
            ("content-length", "00010"),
            ("transfer-encoding", "chunked"),
            ("x-http-method-override", "DELETE"),
            ("x-http-method", "DELETE"),
            ("x-method-override", "DELETE"),
        ] {
            assert!(!asks(&[field]), "{field:?}");
        }
        assert!(!asks(&[("content-length", "0"), ("content-length", "5")]));
        let mut request = Request::options("/").header("origin", "a").header("access-control-request-method", "PUT");
        request.extensions_mut().unwrap().insert(HasBody);
        assert!(!is_preflight(&request.body(()).unwrap()));
    }
}
