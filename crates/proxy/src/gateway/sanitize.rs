//! Checks and normalizes a request before routing, so that the gateway and every upstream read it the same way.
//!
//! hyper parses strictly, but it does not check `Host`, accepts any list that ends in `chunked` as a transfer coding,
//! and leaves the path as the client wrote it (RFC 9112 §3.2, §6.1; RFC 9110 §7.6.2).

use std::borrow::Cow;

use http::header::{
    ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, COOKIE, EXPECT, HOST, HeaderValue, MAX_FORWARDS, TRANSFER_ENCODING, UPGRADE,
};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderMap, Method, Uri, Version};
use percent_encoding::{AsciiSet, percent_encode};

use crate::gateway::rpc::{CONNECT_VERSION, is_rpc_type};
use crate::http::failure::Failure;
use crate::http::fields::{STANDARD_METHODS, has_underscore, is_client_cert, is_forwarded, remove_fields};
use tollgate_config::{Config, ForwardClientCert, Underscores};
use tollgate_filters::context::ReceivedPath;
use tollgate_filters::reply::prefers_problem;
use tollgate_routing::{HostForm, PathRules, Separator, host_form, keeps_spelling, normalize_by, normalize_host};

/// Facts about the header fields of a request, gathered in one pass. A lookup per field would hash every name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeaderSummary {
    /// True if the client accepts `application/problem+json`.
    pub accepts_problem: bool,
    /// True if the client may speak an RPC protocol.
    pub may_be_rpc: bool,
    /// True if the client waits for `100 Continue` before it sends its body.
    pub expects_continue: bool,
    /// True if there is an `Upgrade` field.
    pub has_upgrade: bool,
    has_forwarded: bool,
    /// True if the target is not as received.
    pub changes_target: bool,
    hosts: u8,
    lengths: u8,
    has_normal_host: bool,
    cookies: u8,
}

/// Settings of [`sanitize`].
#[derive(Clone, Copy, Debug)]
pub struct SanitizeRules {
    /// Treatment of field names with underscores.
    pub underscores: Underscores,
    /// Keeps `Client-Cert` and `Client-Cert-Chain` of peers that are not trusted.
    pub keeps_client_cert: bool,
    /// Treatment of encoded separators in paths.
    pub path: PathRules,
}

impl SanitizeRules {
    /// Returns the rules of `config`.
    #[must_use]
    pub fn of(config: &Config) -> Self {
        Self {
            underscores: config.forwarding.underscores,
            // A field of the gateway's own must not be mistaken for one of a client.
            keeps_client_cert: config.forwarding.keeps_client_cert
                && config.server.forward_client_cert == ForwardClientCert::Off,
            path: config.server.path_rules(),
        }
    }
}

/// Refuses malformed and ambiguous requests, and normalizes the others.
///
/// The target gets origin form and a normalized path; the received one stays in
/// [`ReceivedPath`]. There is one `Host` field in lower case without a final dot,
/// and one `Cookie` field. Unless the peer `is_trusted` to report the client, `Forwarded` and `X-Forwarded-*` are removed,
/// so that neither predicates nor filters read them.
///
/// # Errors
/// Returns the failure to respond with. Failures that leave the end of the message in doubt close the connection.
pub fn sanitize(head: &mut Parts, rules: SanitizeRules, is_trusted: bool) -> Result<HeaderSummary, Failure> {
    if head.method == Method::CONNECT || head.method == Method::TRACE {
        return Err(Failure::MethodRefused);
    }
    if has_other_case(&head.method) {
        return Err(Failure::BadRequest("the method is not in upper case"));
    }
    let mut summary = summarize(&head.headers, rules.underscores)?;
    if head.version == Version::HTTP_2 && head.headers.values().any(has_outer_whitespace) {
        return Err(Failure::BadRequest("a field value begins or ends with whitespace"));
    }
    if summary.has_forwarded && !is_trusted {
        let keeps = rules.keeps_client_cert;
        remove_fields(&mut head.headers, |name| is_forwarded(name) || (!keeps && is_client_cert(name)));
    }
    if !check_host(head, summary)? && !normalize_host_field(&mut head.headers) {
        return Err(Failure::Ambiguous("the Host field is not host[:port]"));
    }
    // Over both versions, repeats with another value are refused before; an upstream may refuse equal ones.
    if summary.lengths > 1
        && let Some(length) = head.headers.get(CONTENT_LENGTH).cloned()
    {
        head.headers.insert(CONTENT_LENGTH, length);
    }
    if head.version == Version::HTTP_2 && summary.cookies > 1 {
        join_cookies(&mut head.headers);
    }
    if head.method == Method::OPTIONS {
        answer_own_options(head)?;
    }
    summary.changes_target = normalize_target(head, rules.path)?;
    Ok(summary)
}

fn summarize(headers: &HeaderMap, underscores: Underscores) -> Result<HeaderSummary, Failure> {
    let mut summary = HeaderSummary::default();
    for (name, value) in headers {
        if name == HOST {
            summary.hosts = summary.hosts.saturating_add(1);
            summary.has_normal_host = match host_form(value.as_bytes()) {
                None => return Err(Failure::Ambiguous("the Host field is not host[:port]")),
                Some(form) => form == HostForm::Normal,
            };
        } else if name == CONTENT_LENGTH {
            summary.lengths = summary.lengths.saturating_add(1);
        } else if name == ACCEPT {
            summary.accepts_problem = true; // parsed once, below
        } else if name == CONTENT_TYPE {
            summary.may_be_rpc |= is_rpc_type(value.as_bytes());
        } else if name == COOKIE {
            summary.cookies = summary.cookies.saturating_add(1);
        } else if name == TRANSFER_ENCODING {
            check_transfer_encoding(headers)?;
        } else if name == EXPECT {
            summary.expects_continue = true;
            if !value.as_bytes().eq_ignore_ascii_case(b"100-continue") {
                return Err(Failure::ExpectationFailed);
            }
        } else if name == UPGRADE {
            summary.has_upgrade = true;
        } else if underscores == Underscores::Reject && has_underscore(name) {
            return Err(Failure::BadRequest("a field name contains an underscore"));
        } else if is_forwarded(name) || is_client_cert(name) {
            summary.has_forwarded = true;
        } else if name.as_str() == CONNECT_VERSION {
            summary.may_be_rpc = true;
        }
    }
    summary.accepts_problem = summary.accepts_problem && prefers_problem(headers);
    if summary.hosts > 1 {
        return Err(Failure::Ambiguous("more than one Host field"));
    }
    Ok(summary)
}

/// Returns true for a method that is a standard one in another case. Methods are case-sensitive (RFC 9110 §9.1), but some
/// backends turn `post` into `POST`, which the routes of the gateway do not.
fn has_other_case(method: &Method) -> bool {
    if [Method::GET, Method::POST].contains(method) {
        return false;
    }
    let text = method.as_str();
    text.bytes().any(|byte| byte.is_ascii_lowercase())
        && STANDARD_METHODS.iter().any(|standard| standard.eq_ignore_ascii_case(text))
}

/// Returns true if the value begins or ends with whitespace. Over HTTP/2 that is malformed (RFC 9113 §8.2.1); an HTTP/1.1
/// upstream would remove the whitespace, and so read another value than the gateway. hyper removes it from HTTP/1.1 requests.
fn has_outer_whitespace(value: &HeaderValue) -> bool {
    let bytes = value.as_bytes();
    [bytes.first(), bytes.last()].into_iter().flatten().any(|byte| matches!(byte, b' ' | b'\t'))
}

fn check_transfer_encoding(headers: &HeaderMap) -> Result<(), Failure> {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    let Some(coding) = codings.next() else { return Ok(()) };
    // hyper drops the length of such a request and closes its connection; another reader must not see both.
    if headers.contains_key(CONTENT_LENGTH) {
        return Err(Failure::Ambiguous("both Content-Length and Transfer-Encoding"));
    }
    if codings.next().is_some() || !coding.as_bytes().eq_ignore_ascii_case(b"chunked") {
        return Err(Failure::TransferEncoding);
    }
    Ok(())
}

/// Puts `Host` into normal form: lower case, without a final dot. Returns false if it has no name.
pub fn normalize_host_field(headers: &mut HeaderMap) -> bool {
    let Some(host) = headers.get(HOST).and_then(|host| host.to_str().ok()) else { return true };
    let Cow::Owned(normal) = normalize_host(host) else { return true };
    let has_name = !normal.is_empty() && !normal.starts_with(':');
    if let Ok(normal) = HeaderValue::try_from(normal) {
        headers.insert(HOST, normal);
    }
    has_name
}

/// Checks `Host`, and replaces it by the authority of an absolute target. Returns true if it is in normal form.
fn check_host(head: &mut Parts, summary: HeaderSummary) -> Result<bool, Failure> {
    match head.uri.authority() {
        Some(authority) => {
            let form = host_form(authority.as_str().as_bytes())
                .ok_or(Failure::Ambiguous("the target's authority is not host[:port]"))?;
            let host_field = head.headers.get(HOST).map(HeaderValue::as_bytes);
            let differs = host_field.is_some_and(|host| !host.eq_ignore_ascii_case(authority.as_str().as_bytes()));
            if head.version == Version::HTTP_2 && differs {
                return Err(Failure::Ambiguous("Host and :authority differ"));
            }
            // RFC 9112 §3.2.2: the target takes precedence, and `Host` is generated from it.
            let value = HeaderValue::from_str(authority.as_str())
                .map_err(|_| Failure::Ambiguous("the target's authority is not host[:port]"))?;
            head.headers.insert(HOST, value);
            Ok(form == HostForm::Normal)
        }
        None if summary.hosts == 0 && head.version >= Version::HTTP_11 => Err(Failure::Ambiguous("no Host field")),
        None => Ok(summary.has_normal_host),
    }
}

/// Joins the `Cookie` fields of an HTTP/2 request into one, as HTTP/1.1 requires (RFC 9113 §8.2.3).
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

/// Answers `OPTIONS *`, and any `OPTIONS` with `Max-Forwards: 0`. Decrements `Max-Forwards` otherwise.
fn answer_own_options(head: &mut Parts) -> Result<(), Failure> {
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

/// Puts the target into origin form, with its path in normal form and its query in ASCII. Keeps the received path for the
/// upstream. Returns true if the target changed.
pub(super) fn normalize_target(head: &mut Parts, rules: PathRules) -> Result<bool, Failure> {
    let received = head.uri.path();
    let path = normalize_by(received, rules).map_err(|problem| Failure::BadPath(problem.to_string()))?;
    let query = head.uri.query();
    let is_origin_form = head.uri.scheme().is_none() && head.uri.authority().is_none();
    let is_normal = matches!(path, Cow::Borrowed(path) if path.len() == received.len());
    if is_normal && query.is_none_or(str::is_ascii) {
        if is_origin_form {
            return Ok(false);
        }
        // As nearly every request over HTTP/2. `http://a?b` has no slash.
        if let Some(target) = head.uri.path_and_query().filter(|target| target.as_str().starts_with('/')) {
            head.uri = Uri::from(target.clone());
            return Ok(true);
        }
    }
    let spelling = (!is_normal && keeps_spelling(received, rules)).then(|| ReceivedPath(received.into()));
    let target = match query {
        Some(query) => format!("{path}?{}", percent_encode(query.as_bytes(), &AsciiSet::EMPTY)),
        None => path.into_owned(),
    };
    let target = PathAndQuery::try_from(target).map_err(|_| Failure::BadRequest("the request target is malformed"))?;
    head.uri = Uri::from(target);
    if let Some(spelling) = spelling {
        head.extensions.insert(spelling);
    }
    Ok(true)
}

/// Puts a path that filters made into normal form, before it is matched again. Filters have refused other paths.
pub fn normalize_made_path(uri: &mut Uri) {
    let rules = PathRules { encoded_slash: Separator::Keep, backslash: Separator::Keep };
    let Ok(Cow::Owned(path)) = normalize_by(uri.path(), rules) else { return };
    let target = match uri.query() {
        Some(query) => format!("{path}?{query}"),
        None => path,
    };
    if let Ok(target) = PathAndQuery::try_from(target) {
        *uri = Uri::from(target);
    }
}

#[cfg(test)]
mod tests;
