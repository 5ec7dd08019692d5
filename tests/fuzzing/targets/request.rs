//! Request screen: an accepted request has one reading.
//!
//! Input: a request head, one field a line. The first line is method, target and version.

use http::header::{CONTENT_LENGTH, COOKIE, HOST, HeaderName, HeaderValue, MAX_FORWARDS, TRANSFER_ENCODING};
use http::request::Parts;
use http::{Method, Request, Version};
use tollgate_config::Underscores;
use tollgate_filters::context::ReceivedPath;
use tollgate_proxy::gateway::sanitize::{SanitizeRules, sanitize};
use tollgate_routing::{PathRules, check_made, normalize_by};

use super::path::is_normal;

pub fn run(bytes: &[u8]) {
    for (underscores, path) in [(Underscores::Reject, PathRules::STRICT), (Underscores::Drop, PathRules::default())] {
        let rules = SanitizeRules { underscores, keeps_client_cert: false, path };
        let Some(mut head) = parse(bytes) else { return };
        let chunks = head.headers.contains_key(TRANSFER_ENCODING);
        let is_trusted = bytes.len().is_multiple_of(2);
        let Ok(summary) = sanitize(&mut head, rules, is_trusted) else { continue };
        assert!(![Method::CONNECT, Method::TRACE].contains(&head.method));
        assert!(!["connect", "trace", "post"].contains(&head.method.as_str()), "{}", head.method);
        assert!(head.uri.scheme().is_none() && head.uri.authority().is_none(), "{} is not in origin form", head.uri);
        if head.uri.path() != "*" {
            is_normal(head.uri.path());
        }
        if let Some(ReceivedPath(received)) = head.extensions.get() {
            assert_eq!(normalize_by(received, path).as_deref(), Ok(head.uri.path()), "{received}");
            assert_eq!(check_made(received.as_bytes()), Ok(()), "{received}");
        }
        assert!(head.uri.query().is_none_or(str::is_ascii), "{}", head.uri);
        let hosts: Vec<_> = head.headers.get_all(HOST).iter().collect();
        assert!(hosts.len() <= 1, "{hosts:?}");
        assert!(hosts.len() == 1 || head.version < Version::HTTP_11, "no Host");
        for host in hosts {
            let text = host.to_str().unwrap();
            // RFC 3986 allows `;` in a name, and also `,` and `%`, which some readers take for two names.
            let forbidden = ['@', '/', '?', '#', ' ', '\t', '\\', '"', ',', '%'];
            assert!(!text.is_empty() && !text.contains(forbidden), "{text:?}");
        }
        if chunks {
            let codings: Vec<_> = head.headers.get_all(TRANSFER_ENCODING).iter().collect();
            assert!(codings.len() == 1 && codings[0].as_bytes().eq_ignore_ascii_case(b"chunked"), "{codings:?}");
            assert!(!head.headers.contains_key(CONTENT_LENGTH), "two lengths");
        }
        assert!(head.version != Version::HTTP_2 || head.headers.get_all(COOKIE).iter().count() <= 1, "two cookies");
        let is_forwarded = |name: &HeaderName| name == "forwarded" || name.as_str().starts_with("x-forwarded-");
        assert!(is_trusted || !head.headers.keys().any(is_forwarded), "{:?}", head.headers);
        if underscores == Underscores::Reject {
            assert!(head.headers.keys().all(|name| !name.as_str().contains('_')), "{:?}", head.headers);
        }
        // A second gateway would read the request as this one did; it counts `Max-Forwards` down.
        head.headers.remove(MAX_FORWARDS);
        let (uri, headers) = (head.uri.clone(), head.headers.clone());
        if let Ok(again) = sanitize(&mut head, rules, is_trusted) {
            assert_eq!(
                (head.uri, head.headers, again.has_upgrade),
                (uri, headers, summary.has_upgrade),
                "not idempotent"
            );
        }
    }
}

/// Parses a request head as strictly as hyper does, or more.
fn parse(bytes: &[u8]) -> Option<Parts> {
    let mut lines = bytes.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let mut words = lines.next()?.split(|byte| *byte == b' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    let version = match version {
        b"HTTP/1.0" => Version::HTTP_10,
        b"HTTP/1.1" => Version::HTTP_11,
        b"HTTP/2" => Version::HTTP_2,
        _ => return None,
    };
    let request = Request::builder().method(method).uri(target).version(version).body(()).ok()?;
    let (mut head, ()) = request.into_parts();
    for line in lines.take_while(|line| !line.is_empty()).take(100) {
        let colon = line.iter().position(|byte| *byte == b':')?;
        let (name, value) = line.split_at(colon);
        let name = HeaderName::from_bytes(name).ok()?;
        head.headers.append(name, HeaderValue::from_bytes(value[1..].trim_ascii()).ok()?);
    }
    Some(head)
}
