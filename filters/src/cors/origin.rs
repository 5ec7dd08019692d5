//! Origins (RFC 6454), and Spring's patterns for them.

use regex::Regex;

/// A pattern for origins. `*` matches letters, digits and `.-_`, so that it stays within the host; a `*` in place of the
/// whole host also matches its port, and IPv6 addresses. A list of ports may end the pattern: `https://*.example.com:[443,8443]`;
/// `[*]` matches any port or none.
#[derive(Clone, Debug)]
pub(super) enum OriginPattern {
    Any,
    Matching(Regex),
}

impl OriginPattern {
    /// Parses a pattern; `None` if it is too long.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let text = without_trailing_slash(text);
        if text == "*" {
            return Some(Self::Any);
        }
        let (name, ports) = match split_port_list(text) {
            Some((name, "*")) => (name, "(:[0-9]+)?".to_owned()),
            Some((name, ports)) => (name, format!(":({})", ports.replace(',', "|"))),
            None => (text, String::new()),
        };
        let expression = match name.strip_suffix("://*") {
            Some(scheme) if ports.is_empty() => format!("{}://{WHOLE_HOST}", expression(scheme)),
            Some(_) | None => expression(name),
        };
        Regex::new(&format!("^{expression}{ports}$")).ok().map(Self::Matching)
    }

    pub(super) fn matches(&self, origin: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Matching(regex) => regex.is_match(origin),
        }
    }
}

/// Characters of a registered name, an IPv4 address, a scheme or a port.
const HOST_CHARACTERS: &str = "[A-Za-z0-9._-]*";
/// A host, perhaps with its port.
const WHOLE_HOST: &str = r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]+)?";

/// Returns the regular expression of a pattern with `*`.
fn expression(pattern: &str) -> String {
    let pieces: Vec<_> = pattern.split('*').map(regex::escape).collect();
    pieces.join(HOST_CHARACTERS)
}

/// Splits off a list of ports `:[…]`; returns the text before it and the ports.
fn split_port_list(text: &str) -> Option<(&str, &str)> {
    let (name, list) = text.strip_suffix(']')?.rsplit_once(":[")?;
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    (list == "*" || list.split(',').all(is_port)).then_some((name, list))
}

/// Removes a trailing slash: Spring accepts `https://a/` for `https://a`.
pub(super) fn without_trailing_slash(origin: &str) -> &str {
    origin.strip_suffix('/').unwrap_or(origin)
}

/// Returns true if `origin` equals the origin of the request's target: `scheme` and `host` (`Host`, port included).
pub(super) fn is_same_origin(origin: &str, scheme: &str, host: &str) -> bool {
    let Some((origin_scheme, authority)) = origin.split_once("://") else { return false };
    origin_scheme == scheme && host_and_port(authority, origin_scheme) == host_and_port(host, scheme)
}

/// Returns true if host and port are equal. The scheme may differ: a proxy may terminate TLS without reporting it.
pub(super) fn is_same_host(origin: &str, host: &str) -> bool {
    let Some((scheme, authority)) = origin.split_once("://") else { return false };
    host_and_port(authority, scheme) == host_and_port(host, scheme)
}

/// Splits host and port. A missing port is the default port of `scheme`.
fn host_and_port<'a>(authority: &'a str, scheme: &str) -> (&'a str, Option<u16>) {
    let default_port = match scheme {
        "http" | "ws" => Some(80),
        "https" | "wss" => Some(443),
        _ => None,
    };
    match authority.rsplit_once(':') {
        Some((host, port)) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => {
            (host, port.parse().ok())
        }
        _ => (authority, default_port),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    #[test]
    fn patterns_support_stars_and_port_lists() {
        for (pattern, origin, expected) in [
            ("*", "null", true),
            ("https://*.example.com", "https://a.example.com", true),
            ("https://*.example.com", "https://a.b.example.com", true),
            ("https://*.example.com", "https://example.com", false),
            ("https://*.example.com", "https://a.example.com:8443", false),
            ("https://*.example.com", "https://a.exampleXcom", false),
            ("https://*.example.com", "https://a.example.com.evil.org", false),
            ("https://*.example.com", "https://evil.org/.example.com", false),
            ("https://*.example.com", "https://evil.org?.example.com", false),
            ("https://*.example.com", "https://evil.org#.example.com", false),
            ("https://*.example.com", "https://evil.org:443.example.com", false),
            ("https://*.example.com", "https://user@evil.org\\.example.com", false),
            ("https://*.example.com", "https://a b.example.com", false),
            ("https://*", "https://a.org:8443", true),
            ("https://*", "https://[::1]:8443", true),
            ("https://*", "https://a.org/x", false),
            ("http*://a.org", "https://a.org", true),
            ("https://*.example.com:[8080,8081]", "https://a.example.com:8081", true),
            ("https://*.example.com:[8080,8081]", "https://a.example.com:80811", false),
            ("https://*.example.com:[8080,8081]", "https://a.example.com", false),
            ("https://*.example.com:[*]", "https://a.example.com", true),
            ("https://*.example.com:[*]", "https://a.example.com:1", true),
            ("https://*.example.com:[*]", "https://a.example.com:x", false),
            ("https://[::1]", "https://[::1]", true),
            ("http://localhost:*/", "http://localhost:3000", true),
        ] {
            assert_eq!(OriginPattern::parse(pattern).unwrap().matches(origin), expected, "{pattern} {origin}");
        }
    }

    #[test]
    fn equal_origins_have_the_same_scheme_host_and_port() {
        for (origin, scheme, host, same, same_host) in [
            ("http://a", "http", "a", true, true),
            ("http://a:80", "http", "a", true, true),
            ("http://a", "http", "a:80", true, true),
            ("http://a:8080", "http", "a", false, false),
            ("https://a", "http", "a", false, true),
            ("https://a:8443", "http", "a:8443", false, true),
            ("https://b", "https", "a", false, false),
            ("http://[::1]:81", "http", "[::1]:81", true, true),
            ("http://[::1]", "http", "[::1]", true, true),
            ("null", "http", "a", false, false),
        ] {
            assert_eq!(is_same_origin(origin, scheme, host), same, "{origin} {scheme} {host}");
            assert_eq!(is_same_host(origin, host), same_host, "{origin} {host}");
        }
    }
}
