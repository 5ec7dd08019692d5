//! Origins (RFC 6454), and patterns of them as Spring has them.

use regex::Regex;

/// A pattern of origins: `*` stands for any text, and a list of ports may end it: `https://*.example.com:[443,8443]`,
/// `[*]` for any port or none.
#[derive(Clone, Debug)]
pub(super) enum OriginPattern {
    Any,
    Some(Regex),
}

impl OriginPattern {
    /// `None` for a text that is too long to be a pattern.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let text = without_slash(text);
        if text == "*" {
            return Some(Self::Any);
        }
        let (name, ports) = match ports(text) {
            Some((name, "*")) => (name, "(:[0-9]+)?".to_owned()),
            Some((name, ports)) => (name, format!(":({})", ports.replace(',', "|"))),
            None => (text, String::new()),
        };
        let pieces: Vec<_> = name.split('*').map(regex::escape).collect();
        Regex::new(&format!("^{}{ports}$", pieces.join(".*"))).ok().map(Self::Some)
    }

    pub(super) fn matches(&self, origin: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Some(regex) => regex.is_match(origin),
        }
    }
}

/// What stands before `:[…]`, and the ports in it, where it is a list of ports.
fn ports(text: &str) -> Option<(&str, &str)> {
    let (name, list) = text.strip_suffix(']')?.rsplit_once(":[")?;
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    (list == "*" || list.split(',').all(is_port)).then_some((name, list))
}

/// `https://a/` is written for `https://a` often enough that Spring takes it.
pub(super) fn without_slash(origin: &str) -> &str {
    origin.strip_suffix('/').unwrap_or(origin)
}

/// Whether a request with this `Origin` comes from the very `scheme` and `host` (`Host`, port included) that it asks.
pub(super) fn is_same(origin: &str, scheme: &str, host: &str) -> bool {
    let Some((of_origin, authority)) = origin.split_once("://") else { return false };
    of_origin == scheme && on_port(authority, of_origin) == on_port(host, scheme)
}

/// The same, when nothing is known of the scheme: whoever ends TLS before us may have kept it to himself.
pub(super) fn is_same_host(origin: &str, host: &str) -> bool {
    let Some((scheme, authority)) = origin.split_once("://") else { return false };
    on_port(authority, scheme) == on_port(host, scheme)
}

/// Host and port, with the port that `scheme` has by itself.
fn on_port<'a>(authority: &'a str, scheme: &str) -> (&'a str, Option<u16>) {
    let port = match scheme {
        "http" | "ws" => Some(80),
        "https" | "wss" => Some(443),
        _ => None,
    };
    match authority.rsplit_once(':') {
        Some((host, written)) if !written.is_empty() && written.bytes().all(|byte| byte.is_ascii_digit()) => {
            (host, written.parse().ok())
        }
        _ => (authority, port),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    #[test]
    fn patterns_take_stars_and_lists_of_ports() {
        for (pattern, origin, expected) in [
            ("*", "null", true),
            ("https://*.example.com", "https://a.example.com", true),
            ("https://*.example.com", "https://a.b.example.com", true),
            ("https://*.example.com", "https://example.com", false),
            ("https://*.example.com", "https://a.example.com:8443", false),
            ("https://*.example.com", "https://a.exampleXcom", false),
            ("https://*.example.com", "https://a.example.com.evil.org", false),
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
    fn the_same_origin_has_the_same_scheme_host_and_port() {
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
            assert_eq!(is_same(origin, scheme, host), same, "{origin} {scheme} {host}");
            assert_eq!(is_same_host(origin, host), same_host, "{origin} {host}");
        }
    }
}
