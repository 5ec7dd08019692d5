//! What a request must be before it is routed: one meaning only, to us and to every upstream.
//!
//! hyper parses strictly but leaves this to us: `Host` is not checked, any list that ends in `chunked` passes for a
//! transfer coding, and the path is whatever the client wrote (RFC 9112 §3.2, §6.1; RFC 9110 §7.6.2).

use std::borrow::Cow;

use http::header::{
    ACCEPT, CONTENT_LENGTH, COOKIE, EXPECT, HOST, HeaderValue, MAX_FORWARDS, TRANSFER_ENCODING, UPGRADE,
};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderMap, Method, Uri, Version};

use tollgate_filters::reply::prefers_problem;

use crate::http::failure::Failure;
use crate::http::fields::has_underscore;
use tollgate_config::Underscores;
use tollgate_routing::normalize;

/// What the gateway must know of a request's fields: gathered in one pass, for a look-up each would hash every name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The client asks for problems in JSON.
    pub as_problem: bool,
    /// The client waits for `100 Continue` before it sends its body.
    pub expects_continue: bool,
    /// There is an `Upgrade` field.
    pub upgrade: bool,
    hosts: u8,
    cookies: u8,
}

/// Refuses what is malformed or ambiguous, and puts the rest into its one normal form: the target in origin form
/// with a normalized path, one `Host` field, one `Cookie` field.
///
/// # Errors
/// The answer to give instead. Those that leave the message's end in doubt close the connection.
pub fn screen(head: &mut Parts, underscores: Underscores) -> Result<Seen, Failure> {
    if head.method == Method::CONNECT || head.method == Method::TRACE {
        return Err(Failure::MethodRefused);
    }
    let seen = fields(&head.headers, underscores)?;
    host(head, seen)?;
    if head.version == Version::HTTP_2 && seen.cookies > 1 {
        join_cookies(&mut head.headers);
    }
    if head.method == Method::OPTIONS {
        options(head)?;
    }
    target(head)?;
    Ok(seen)
}

fn fields(headers: &HeaderMap, underscores: Underscores) -> Result<Seen, Failure> {
    let mut seen = Seen::default();
    for (name, value) in headers {
        if name == HOST {
            seen.hosts = seen.hosts.saturating_add(1);
            if !is_host(value.as_bytes()) {
                return Err(Failure::Ambiguous("the Host field is not host[:port]"));
            }
        } else if name == ACCEPT {
            seen.as_problem = true; // looked into below, once
        } else if name == COOKIE {
            seen.cookies = seen.cookies.saturating_add(1);
        } else if name == TRANSFER_ENCODING {
            transfer_encoding(headers)?;
        } else if name == EXPECT {
            seen.expects_continue = true;
            if !value.as_bytes().eq_ignore_ascii_case(b"100-continue") {
                return Err(Failure::ExpectationFailed);
            }
        } else if name == UPGRADE {
            seen.upgrade = true;
        } else if underscores == Underscores::Reject && has_underscore(name) {
            return Err(Failure::BadRequest("a field name holds an underscore"));
        }
    }
    seen.as_problem = seen.as_problem && prefers_problem(headers);
    if seen.hosts > 1 {
        return Err(Failure::Ambiguous("more than one Host field"));
    }
    Ok(seen)
}

fn transfer_encoding(headers: &HeaderMap) -> Result<(), Failure> {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    let Some(coding) = codings.next() else { return Ok(()) };
    if headers.contains_key(CONTENT_LENGTH) {
        return Err(Failure::Ambiguous("both Content-Length and Transfer-Encoding"));
    }
    if codings.next().is_some() || !coding.as_bytes().eq_ignore_ascii_case(b"chunked") {
        return Err(Failure::TransferEncoding);
    }
    Ok(())
}

fn host(head: &mut Parts, seen: Seen) -> Result<(), Failure> {
    match head.uri.authority() {
        Some(authority) => {
            if !is_host(authority.as_str().as_bytes()) {
                return Err(Failure::Ambiguous("the target's authority is not host[:port]"));
            }
            let named = head.headers.get(HOST).map(HeaderValue::as_bytes);
            let differs = named.is_some_and(|host| !host.eq_ignore_ascii_case(authority.as_str().as_bytes()));
            if head.version == Version::HTTP_2 && differs {
                return Err(Failure::Ambiguous("Host and :authority differ"));
            }
            // RFC 9112 §3.2.2: the target wins, and Host is made anew from it.
            let value = HeaderValue::from_str(authority.as_str())
                .map_err(|_| Failure::Ambiguous("the target's authority is not host[:port]"))?;
            head.headers.insert(HOST, value);
            Ok(())
        }
        None if seen.hosts == 0 && head.version >= Version::HTTP_11 => Err(Failure::Ambiguous("no Host field")),
        None => Ok(()),
    }
}

/// `uri-host [":" port]` of RFC 9110 §7.2, without user information and never empty.
fn is_host(text: &[u8]) -> bool {
    let (host, rest) = if text.first() == Some(&b'[') {
        match text.iter().position(|byte| *byte == b']') {
            Some(end) => text.split_at(end + 1),
            None => return false,
        }
    } else {
        text.split_at(text.iter().position(|byte| *byte == b':').unwrap_or(text.len()))
    };
    let port = match rest.split_first() {
        None => true,
        Some((b':', digits)) => digits.len() <= 5 && digits.iter().all(u8::is_ascii_digit),
        Some(_) => false,
    };
    let literal = host.first() == Some(&b'[');
    let named =
        host.iter().all(|byte| HOST_BYTES[usize::from(*byte)] || (literal && matches!(byte, b'[' | b']' | b':')));
    port && named && !host.is_empty()
}

/// What a registered name is made of (RFC 3986 §3.2.2), and `_`, which Docker and Kubernetes put into names.
static HOST_BYTES: [bool; 256] = {
    let mut allowed = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        let c = byte as u8;
        allowed[byte] = c.is_ascii_alphanumeric()
            || matches!(c, b'-' | b'.' | b'_' | b'~' | b'%' | b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*')
            || matches!(c, b'+' | b',' | b';' | b'=');
        byte += 1;
    }
    allowed
};

/// RFC 9113 §8.2.3: the crumbs of a cookie are joined before they go into HTTP/1.1.
fn join_cookies(headers: &mut HeaderMap) {
    let mut crumbs = headers.get_all(COOKIE).iter();
    let (Some(first), Some(second)) = (crumbs.next(), crumbs.next()) else { return };
    let mut joined = first.as_bytes().to_vec();
    for crumb in std::iter::once(second).chain(crumbs) {
        joined.extend_from_slice(b"; ");
        joined.extend_from_slice(crumb.as_bytes());
    }
    if let Ok(cookie) = HeaderValue::from_bytes(&joined) {
        headers.insert(COOKIE, cookie);
    }
}

/// `OPTIONS *` asks about the gateway itself, as does one that has used up its `Max-Forwards`.
fn options(head: &mut Parts) -> Result<(), Failure> {
    if head.uri.path() == "*" {
        return Err(Failure::OptionsOfGateway);
    }
    let Some(value) = head.headers.get(MAX_FORWARDS) else { return Ok(()) };
    match value.to_str().ok().and_then(|text| text.parse::<u32>().ok()) {
        Some(0) => Err(Failure::OptionsOfGateway),
        Some(left) => {
            head.headers.insert(MAX_FORWARDS, HeaderValue::from(left - 1));
            Ok(())
        }
        None => Err(Failure::BadRequest("Max-Forwards is not a number")),
    }
}

fn target(head: &mut Parts) -> Result<(), Failure> {
    let path = normalize(head.uri.path()).map_err(|problem| Failure::BadPath(problem.to_string()))?;
    let origin_form = head.uri.scheme().is_none() && head.uri.authority().is_none();
    let target = match path {
        Cow::Borrowed(path) if origin_form && path.len() == head.uri.path().len() => return Ok(()),
        path => match head.uri.query() {
            Some(query) => format!("{path}?{query}"),
            None => path.into_owned(),
        },
    };
    let target = PathAndQuery::try_from(target).map_err(|_| Failure::BadRequest("the request target is malformed"))?;
    head.uri = Uri::from(target);
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use http::Request;

    use super::*;

    fn head(target: &str, fields: &[(&'static str, &str)]) -> Parts {
        let mut request = Request::builder().uri(target);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    fn screened(target: &str, fields: &[(&'static str, &str)]) -> Result<Parts, Failure> {
        let mut head = head(target, fields);
        screen(&mut head, Underscores::Drop)?;
        Ok(head)
    }

    #[test]
    fn an_ordinary_request_passes_unchanged() {
        let head = screened("/a/b?c=d", &[("host", "example.org:8080")]).unwrap();
        assert_eq!(head.uri, "/a/b?c=d");
        assert_eq!(head.headers[HOST], "example.org:8080");
    }

    #[test]
    fn a_bad_missing_or_second_host_is_refused() {
        for fields in [
            &[][..],
            &[("host", "a"), ("host", "a")],
            &[("host", "a b")],
            &[("host", "user@a")],
            &[("host", "a:80x")],
            &[("host", "a/b")],
            &[("host", "[::1")],
            &[("host", "")],
        ] {
            assert!(matches!(screened("/", fields), Err(Failure::Ambiguous(_))), "{fields:?}");
        }
        for host in ["a", "a.b:1", "[::1]:8080", "127.0.0.1", "xn--a"] {
            assert!(screened("/", &[("host", host)]).is_ok(), "{host}");
        }
    }

    #[test]
    fn the_authority_of_an_absolute_target_wins() {
        let head = screened("http://a.example/x?y", &[("host", "b.example")]).unwrap();
        assert_eq!(head.uri, "/x?y");
        assert_eq!(head.headers[HOST], "a.example");
        assert_eq!(screened("http://a.example", &[("host", "a.example")]).unwrap().uri, "/");
        assert!(screened("http://u:p@a.example/", &[("host", "a.example")]).is_err());
    }

    #[test]
    fn only_chunked_alone_is_a_transfer_encoding() {
        let ok = screened("/", &[("host", "a"), ("transfer-encoding", "Chunked")]);
        assert!(ok.is_ok());
        for value in ["gzip, chunked", "x, chunked", "chunked, chunked", "\tchunked\u{b}", "identity", "chunked;q=1"] {
            let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) else { continue };
            let mut head = head("/", &[("host", "a")]);
            head.headers.insert(TRANSFER_ENCODING, value.clone());
            assert!(matches!(screen(&mut head, Underscores::Drop), Err(Failure::TransferEncoding)), "{value:?}");
        }
        let both = screened("/", &[("host", "a"), ("transfer-encoding", "chunked"), ("content-length", "3")]);
        assert!(matches!(both, Err(Failure::Ambiguous(_))));
    }

    #[test]
    fn the_path_is_normalized_and_the_query_kept() {
        assert_eq!(screened("/a//b/../%63?x=//..", &[("host", "a")]).unwrap().uri, "/a/c?x=//..");
        assert!(matches!(screened("/../a", &[("host", "a")]), Err(Failure::BadPath(_))));
    }

    #[test]
    fn max_forwards_is_counted_down_and_answered_at_zero() {
        let mut last = head("/", &[("host", "a"), ("max-forwards", "0")]);
        last.method = Method::OPTIONS;
        assert!(matches!(screen(&mut last, Underscores::Drop), Err(Failure::OptionsOfGateway)));
        let mut more = head("/", &[("host", "a"), ("max-forwards", "2")]);
        more.method = Method::OPTIONS;
        screen(&mut more, Underscores::Drop).unwrap();
        assert_eq!(more.headers[MAX_FORWARDS], "1");
    }

    #[test]
    fn cookie_crumbs_of_http2_become_one_field() {
        let mut crumbs = head("http://a/", &[("cookie", "a=1"), ("cookie", "b=2"), ("cookie", "c=3")]);
        crumbs.version = Version::HTTP_2;
        screen(&mut crumbs, Underscores::Drop).unwrap();
        assert_eq!(crumbs.headers.get_all(COOKIE).iter().collect::<Vec<_>>(), ["a=1; b=2; c=3"]);
    }
}
