//! Host and port that a request names: their syntax, and their normal form.

use std::borrow::Cow;
use std::net::Ipv6Addr;

/// Form of a valid host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostForm {
    /// In normal form already, as nearly every `Host`.
    Normal,
    /// Possibly in another form than the normal one.
    Other,
}

/// Returns the form of a non-empty `uri-host [":" port]` without user information (RFC 9110 §7.2); `None` for other text.
#[must_use]
pub fn host_form(text: &[u8]) -> Option<HostForm> {
    if let Some(literal) = text.strip_prefix(b"[") {
        return is_ip_literal(literal).then_some(HostForm::Other);
    }
    let (mut before, mut kinds, mut length) = (b'.', 0, 0);
    for byte in text {
        let kind = HOST_BYTES[usize::from(*byte)];
        match kind {
            COLON => break,
            0 => return None,
            // A label before each dot; readers that drop empty ones would take `a..example` for `a.example`.
            DOT if before == b'.' => return None,
            _ => {}
        }
        (before, kinds, length) = (*byte, kinds | kind, length + 1);
    }
    let rest = &text[length..];
    if length == 0 || !is_port_part(rest) {
        return None;
    }
    let is_normal = kinds & UPPERCASE == 0 && before != b'.' && rest != b":";
    Some(if is_normal { HostForm::Normal } else { HostForm::Other })
}

/// Returns the normal form of `host[:port]`: lower case, without a final dot, an IPv6 address as RFC 5952 writes it, without an
/// empty port (RFC 3986 §6.2.3). Another port is unchanged. Borrowed if the text is in normal form already.
///
/// Two texts that name the same host and port have the same normal form, except that a port may be absent or the default
/// one.
#[must_use]
pub fn normalize_host(host: &str) -> Cow<'_, str> {
    let name = without_port(host);
    let rest = host.get(name.len()..).unwrap_or_default();
    let port = if rest == ":" { "" } else { rest };
    if let Some(literal) = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        let canonical = literal.parse::<Ipv6Addr>().map(|address| format!("[{address}]{port}"));
        return match canonical {
            Ok(canonical) if canonical != host => Cow::Owned(canonical),
            Ok(_) | Err(_) => Cow::Borrowed(host),
        };
    }
    if port == rest && !name.ends_with('.') && !name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return Cow::Borrowed(host);
    }
    let mut normal = name.trim_end_matches('.').to_ascii_lowercase();
    normal.push_str(port);
    Cow::Owned(normal)
}

/// Returns the host of `host[:port]`; an IPv6 address keeps its brackets.
pub(crate) fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !is_inside_brackets(name) => name,
        _ => host,
    }
}

/// Returns true if `name` ends inside the brackets of an IPv6 address.
fn is_inside_brackets(name: &str) -> bool {
    name.starts_with('[') && !name.ends_with(']')
}

/// Returns true if `rest`, the text after a `[`, is an IPv6 address, `]` and perhaps a port. No other name belongs in
/// brackets: readers that remove them would take `[a.example]` for `a.example`. Zones and later versions of IP have no use here.
fn is_ip_literal(rest: &[u8]) -> bool {
    let Some(end) = rest.iter().position(|byte| *byte == b']') else { return false };
    let (address, rest) = rest.split_at(end);
    let is_address = std::str::from_utf8(address).is_ok_and(|text| text.parse::<Ipv6Addr>().is_ok());
    is_address && is_port_part(&rest[1..])
}

/// Returns true for `[":" port]`.
fn is_port_part(rest: &[u8]) -> bool {
    match rest.split_first() {
        None => true,
        Some((b':', digits)) => is_port(digits),
        Some(_) => false,
    }
}

/// Returns true for a port, which may be empty (RFC 3986 §3.2.3). A zero before other digits would be another spelling of the
/// same port.
fn is_port(digits: &[u8]) -> bool {
    if matches!(digits, [b'0', _, ..]) {
        return false;
    }
    digits.iter().all(u8::is_ascii_digit) && (digits.len() < 5 || digits.len() == 5 && digits <= b"65535".as_slice())
}

const ALLOWED: u8 = 1;
const UPPERCASE: u8 = 2;
const DOT: u8 = 4;
const COLON: u8 = 8;

/// Bytes of a registered name (RFC 3986 §3.2.2), and `_`, which Docker and Kubernetes use in names. 0 for other bytes, and
/// for two that make two names: `%61.example` is `a.example` to readers that decode it, and `a,b` is a list to some.
static HOST_BYTES: [u8; 256] = {
    let mut allowed = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let c = byte as u8;
        let is_allowed = c.is_ascii_alphanumeric()
            || matches!(c, b'-' | b'_' | b'~' | b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*')
            || matches!(c, b'+' | b';' | b'=');
        if is_allowed {
            allowed[byte] = if c.is_ascii_uppercase() { UPPERCASE } else { ALLOWED };
        }
        match c {
            b'.' => allowed[byte] = DOT,
            b':' => allowed[byte] = COLON,
            _ => {}
        }
        byte += 1;
    }
    allowed
};

#[cfg(test)]
mod tests {
    use super::{normalize_host, without_port};

    #[test]
    fn texts_of_one_host_have_one_normal_form() {
        for (host, expected) in [
            ("a.org", "a.org"),
            ("A.Org", "a.org"),
            ("a.org.", "a.org"),
            ("a.org..", "a.org"),
            ("A.org.:8080", "a.org:8080"),
            ("a.org:80", "a.org:80"),
            ("[::1]:80", "[::1]:80"),
            ("[0:0::1]", "[::1]"),
            ("[2001:DB8::A]:8443", "[2001:db8::a]:8443"),
            ("[v1.x]", "[v1.x]"),
            ("a.org:", "a.org"),
            ("[::1]:", "[::1]"),
            (".", ""),
            ("", ""),
        ] {
            assert_eq!(normalize_host(host), expected, "{host}");
            assert_eq!(normalize_host(expected), expected, "idempotent");
        }
    }

    #[test]
    fn the_port_is_removed_from_names_and_addresses() {
        for (host, expected) in [
            ("a.org:80", "a.org"),
            ("a.org", "a.org"),
            ("a.org:", "a.org"),
            ("a.org:x", "a.org:x"),
            ("[::1]:80", "[::1]"),
            ("[::1]", "[::1]"),
            ("", ""),
        ] {
            assert_eq!(without_port(host), expected, "{host}");
        }
    }
}
