//! Responses that filters make themselves, written down once at load and only put together per request.

use bytes::Bytes;
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};

use crate::context::LocalReply;

/// A finished answer in the shapes a client may ask for.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    status: StatusCode,
    reason: &'static str,
    marked: bool,
    text: Shape,
    problem: Option<Shape>,
}

/// Header maps are written once: copying one costs less than a third of filling it.
#[derive(Clone, Debug)]
struct Shape {
    headers: HeaderMap,
    body: Bytes,
}

/// Whether the client names JSON or problem JSON in `Accept`, and not plain text above it (RFC 9110 §12.5.1).
/// Wildcards do not count: what takes anything gets the text that a person can read.
#[must_use]
pub fn prefers_problem(headers: &HeaderMap) -> bool {
    let (mut json, mut text) = (0, 0);
    for range in headers.get_all(ACCEPT).iter().flat_map(|value| value.as_bytes().split(|b| *b == b',')) {
        let mut fields = range.split(|b| *b == b';').map(<[u8]>::trim_ascii);
        let name = fields.next().unwrap_or_default();
        let best = if name.eq_ignore_ascii_case(b"application/json")
            || name.eq_ignore_ascii_case(b"application/problem+json")
        {
            &mut json
        } else if name.eq_ignore_ascii_case(b"text/plain") {
            &mut text
        } else {
            continue;
        };
        *best = (*best).max(fields.find_map(weight).unwrap_or(1000));
    }
    json > 0 && json >= text
}

/// A `q=0.5` parameter in thousandths; nothing that is not one.
fn weight(parameter: &[u8]) -> Option<u32> {
    let [b'q' | b'Q', b'=', value @ ..] = parameter else { return None };
    let (whole, fraction) = value.split_first().unwrap_or((&b'0', &[]));
    if *whole == b'1' {
        return Some(1000);
    }
    let digits = fraction.strip_prefix(b".").unwrap_or_default();
    let digit = |at: usize| digits.get(at).filter(|d| d.is_ascii_digit()).map_or(0, |d| u32::from(d - b'0'));
    Some(digit(0) * 100 + digit(1) * 10 + digit(2))
}

// === impl Reply ===

impl Reply {
    /// An answer without a body.
    pub(crate) fn empty(status: StatusCode, reason: &'static str) -> Self {
        Self { status, reason, marked: true, text: Shape::new(None, String::new()), problem: None }
    }

    /// An answer in plain text or as the problem `kind` (RFC 9457), whichever the client asks for. `members` are
    /// further members of the problem, each with a comma in front, as JSON.
    pub(crate) fn problem(
        status: StatusCode,
        reason: &'static str,
        kind: &str,
        title: Option<&str>,
        members: &str,
    ) -> Self {
        let name = status.canonical_reason().unwrap_or("Error");
        let title = title.unwrap_or(name);
        let json = format!(r#"{{"type":"{kind}","title":"{title}","status":{}{members}}}"#, status.as_u16());
        Self {
            status,
            reason,
            marked: true,
            text: Shape::new(Some("text/plain; charset=utf-8"), format!("{name}\n")),
            problem: Some(Shape::new(Some("application/problem+json"), json)),
        }
    }

    /// Writes further headers into every shape, so that answers come with them.
    pub(crate) fn prepare(&mut self, write: impl Fn(&mut HeaderMap)) {
        write(&mut self.text.headers);
        if let Some(problem) = &mut self.problem {
            write(&mut problem.headers);
        }
    }

    /// Leaves [`LocalReply`] off.
    pub(crate) fn unmark(&mut self) {
        self.marked = false;
    }

    /// The answer to `request`. HEAD gets the length that GET would have and no body (RFC 9110 §9.3.2).
    pub(crate) fn to_response<B, R: From<Bytes>>(&self, request: &Request<B>) -> Response<R> {
        self.for_client(request.method(), request.headers())
    }

    /// As [`Self::to_response`], when only the head's parts are at hand.
    pub(crate) fn for_client<R: From<Bytes>>(&self, method: &Method, accept: &HeaderMap) -> Response<R> {
        let shape = self.problem.as_ref().filter(|_| prefers_problem(accept)).unwrap_or(&self.text);
        let body = if method == Method::HEAD { Bytes::new() } else { shape.body.clone() };
        let mut response = Response::new(R::from(body));
        *response.status_mut() = self.status;
        *response.headers_mut() = shape.headers.clone();
        if self.marked {
            response.extensions_mut().insert(LocalReply { reason: self.reason });
        }
        response
    }
}

// === impl Shape ===

impl Shape {
    fn new(content_type: Option<&'static str>, body: String) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(content_type) = content_type {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        }
        headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
        Self { headers, body: Bytes::from(body) }
    }
}

/// `text` as a JSON string, quotes included (RFC 8259 §7).
pub(crate) fn json_string(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    #[test]
    fn only_a_client_that_names_json_prefers_a_problem() {
        for (accept, expected) in [
            ("application/json", true),
            ("Application/Problem+JSON", true),
            ("application/json, text/plain, */*", true),
            ("text/plain, application/json;q=0.5", false),
            ("text/plain;q=0.4, application/json; q=0.5", true),
            ("application/json;q=0", false),
            ("application/json;q=0.000", false),
            ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", false),
            ("*/*", false),
            ("", false),
            (";;,,q=,application/json;q", true),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, HeaderValue::from_static(accept));
            assert_eq!(prefers_problem(&headers), expected, "{accept}");
        }
        assert!(!prefers_problem(&HeaderMap::new()));
    }

    #[test]
    fn json_strings_are_escaped() {
        assert_eq!(json_string("a\"b\\c\n"), r#""a\"b\\c\u000a""#);
    }
}
