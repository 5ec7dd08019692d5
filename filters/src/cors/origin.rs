//! Origins (RFC 6454), and Spring's patterns for them.

/// A pattern for origins. `*` matches letters, digits and `.-_`, so that it stays within the host; a `*` in place of the
/// whole host also matches its port, and IPv6 addresses. A list of ports may end the pattern: `https://*.example.com:[443,8443]`;
/// `[*]` matches any port or none.
///
/// A policy may have a hundred thousand patterns, so they are texts, which need no compilation.
#[derive(Clone, Debug)]
pub(super) enum OriginPattern {
    Any,
    /// All hosts of a scheme.
    Hosts {
        scheme: Box<str>,
    },
    Name(Box<str>),
    NameAndPorts {
        name: Box<str>,
        /// Ports with commas, or `*`.
        ports: Box<str>,
    },
}

impl OriginPattern {
    pub(super) fn new(text: &str) -> Self {
        let text = without_trailing_slash(text);
        match (split_port_list(text), text.strip_suffix("://*")) {
            (Some((name, ports)), _) => Self::NameAndPorts { name: name.into(), ports: ports.into() },
            (None, Some(scheme)) => Self::Hosts { scheme: scheme.into() },
            (None, None) if text == "*" => Self::Any,
            (None, None) => Self::Name(text.into()),
        }
    }

    pub(super) fn matches(&self, origin: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Hosts { scheme } => origin
                .rsplit_once("://")
                .is_some_and(|(origin_scheme, host)| is_name(scheme, origin_scheme) && is_host(host)),
            Self::Name(name) => is_name(name, origin),
            Self::NameAndPorts { name, ports } => {
                let is_any = &**ports == "*";
                let has_port = |port| is_any || ports.split(',').any(|one| one == port);
                is_any && is_name(name, origin)
                    || split_port(origin).is_some_and(|(host, port)| is_name(name, host) && has_port(port))
            }
        }
    }
}

/// Returns true for a character of a registered name, an IPv4 address, a scheme or a port.
fn is_of_host(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')
}

/// Returns true for a host, perhaps with its port.
fn is_host(text: &str) -> bool {
    let host = split_port(text).map_or(text, |(host, _)| host);
    let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let is_address = |text: &str| text.chars().all(|c| c.is_ascii_hexdigit() || matches!(c, ':' | '.'));
    let host = address.unwrap_or(host);
    !host.is_empty() && if address.is_some() { is_address(host) } else { host.chars().all(is_of_host) }
}

/// Returns true if `text` matches `pattern`. The parts between two `*` are found from left to right: no `*` matches a
/// character that is not of a host, so a later place of a part matches only what its first place matches, too.
fn is_name(pattern: &str, text: &str) -> bool {
    let (first, parts) = pattern.split_once('*').map_or((pattern, None), |(first, parts)| (first, Some(parts)));
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let Some(parts) = parts else { return rest.is_empty() };
    let (middle, last) = parts.rsplit_once('*').map_or((None, parts), |(middle, last)| (Some(middle), last));
    for part in middle.into_iter().flat_map(|middle| middle.split('*')) {
        match rest.split_once(part) {
            Some((skipped, behind)) if skipped.chars().all(is_of_host) => rest = behind,
            _ => return false,
        }
    }
    rest.strip_suffix(last).is_some_and(|skipped| skipped.chars().all(is_of_host))
}

/// Splits off a port of digits; returns the text before it and the port.
fn split_port(text: &str) -> Option<(&str, &str)> {
    text.rsplit_once(':').filter(|(_, port)| is_port(port))
}

fn is_port(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Splits off a list of ports `:[…]`; returns the text before it and the ports.
fn split_port_list(text: &str) -> Option<(&str, &str)> {
    let (name, list) = text.strip_suffix(']')?.rsplit_once(":[")?;
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
            ("https://a.org:8443:[*]", "https://a.org:8443", true),
            ("https://*:[443]", "https://a.org:443", true),
            ("https://*:[443]", "https://[::1]:443", false),
            ("https://*", "https://", false),
            ("https://*", "https://[]", false),
            ("https://*", "https://[::g]", false),
            ("https://*", "https://a:b:1", false),
            ("http*://*", "https://a.org", true),
            ("http*://*", "http://x://a.org", false),
            ("*.a*.b", "x.a.a.b.b", true),
            ("*.a*.b", "x.b.a", false),
            ("*a", "aab", false),
            ("a*a", "a", false),
            ("a**a", "aa", true),
            ("*:1*:1", "a:1:1", true),
            ("*:1*:1", "a:1/:1", false),
            ("https://*.a*", "https://b/.a.a", false),
            ("https://[::1]", "https://[::1]", true),
            ("http://localhost:*/", "http://localhost:3000", true),
        ] {
            assert_eq!(OriginPattern::new(pattern).matches(origin), expected, "{pattern} {origin}");
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
