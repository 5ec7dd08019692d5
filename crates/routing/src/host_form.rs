//! Normal form of hosts, and hosts without their port.

use std::borrow::Cow;
use std::net::Ipv6Addr;

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
