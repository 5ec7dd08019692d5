//! Requests as they are sent to an upstream: their extensions, their head, and a copy for a second attempt.

use http::header::{CONNECTION, HOST, HeaderValue, TE, TRANSFER_ENCODING, UPGRADE};
use http::request::Parts;
use http::uri::{Authority, PathAndQuery};
use http::{Extensions, Method, Request, Uri, Version};
use http_body::Body as _;
use tollgate_filters::context::RequestContext;
use tollgate_filters::replay::{Recording, record};

use crate::http::body::Body;
use crate::http::upgrade::Upgrade;
use crate::upstream::error::ForwardError;
use crate::upstream::origin::Origin;

/// Extensions of a request that forwarding needs.
pub(super) struct RequestExtras {
    pub(super) upgrade: Option<Upgrade>,
    preserve_host: bool,
}

impl RequestExtras {
    /// Takes them from `extensions` and clears the rest. Returns `None` if none is needed.
    pub(super) fn take(extensions: &mut Extensions) -> Option<Box<Self>> {
        if extensions.is_empty() {
            return None;
        }
        let upgrade = extensions.remove::<Upgrade>();
        let preserve_host = extensions.get::<RequestContext>().is_some_and(|context| context.preserve_host);
        extensions.clear();
        (upgrade.is_some() || preserve_host).then(|| Box::new(Self { upgrade, preserve_host }))
    }

    /// Returns true if the request asks to switch protocols.
    pub(super) fn upgrades(&self) -> bool {
        self.upgrade.is_some()
    }
}

/// Prepares a request head for `origin`. The head may have been prepared for another origin before, for HTTP/1.1 or
/// HTTP/2.
///
/// # Errors
/// The preserved `Host` is not valid for HTTP/2.
pub(super) fn prepare_head(
    request: &mut Request<Body>,
    origin: &Origin,
    extras: Option<&RequestExtras>,
    is_http2: bool,
) -> Result<(), ForwardError> {
    revert_http2(request);
    if is_http2 {
        return prepare_http2(request, origin, extras);
    }
    prepare_http1(request, origin, extras);
    Ok(())
}

fn prepare_http1(request: &mut Request<Body>, origin: &Origin, extras: Option<&RequestExtras>) {
    let preserve_host = extras.is_some_and(|extras| extras.preserve_host);
    *request.version_mut() = Version::HTTP_11;
    let headers = request.headers_mut();
    // Comparing the few names of a head costs less than a look-up.
    let (mut hosts, mut has_te) = (0_usize, false);
    for (name, value) in headers.iter_mut() {
        has_te |= *name == TE;
        if *name == HOST {
            hosts += 1;
            if !preserve_host {
                *value = origin.authority.clone();
            }
        }
    }
    if hosts == 0 || (hosts > 1 && !preserve_host) {
        headers.insert(HOST, origin.authority.clone());
    }
    if let Some(upgrade) = extras.and_then(|extras| extras.upgrade.as_ref()) {
        headers.insert(UPGRADE, upgrade.protocol.clone());
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        // `Connection` would have to name it too (RFC 9110 §10.1.4); a tunnel has no trailers.
        headers.remove(TE);
    } else if has_te {
        headers.insert(CONNECTION, HeaderValue::from_static("te"));
    }
}

/// Turns `Host` into `:authority` (RFC 9113 §8.3.1) and removes connection-specific fields (§8.2.2).
fn prepare_http2(
    request: &mut Request<Body>,
    origin: &Origin,
    extras: Option<&RequestExtras>,
) -> Result<(), ForwardError> {
    let preserve_host = extras.is_some_and(|extras| extras.preserve_host);
    let headers = request.headers_mut();
    let host = headers.remove(HOST).filter(|_| preserve_host);
    let authority = host.unwrap_or_else(|| origin.authority.clone());
    headers.remove(CONNECTION);
    headers.remove(TRANSFER_ENCODING);
    let mut uri = std::mem::take(request.uri_mut()).into_parts();
    uri.scheme = Some(origin.scheme());
    uri.authority = Some(Authority::try_from(authority.as_bytes()).map_err(|_| ForwardError::BadHost)?);
    uri.path_and_query.get_or_insert(PathAndQuery::from_static("/"));
    *request.uri_mut() = Uri::from_parts(uri).map_err(|_| ForwardError::BadHost)?;
    *request.version_mut() = Version::HTTP_2;
    Ok(())
}

/// Reverts [`prepare_http2`] for a request that was not sent.
fn revert_http2(request: &mut Request<Body>) {
    if request.uri().authority().is_none() {
        return;
    }
    let uri = std::mem::take(request.uri_mut()).into_parts();
    if let Some(host) = uri.authority.and_then(|authority| HeaderValue::from_str(authority.as_str()).ok()) {
        request.headers_mut().insert(HOST, host);
    }
    *request.uri_mut() = uri.path_and_query.map(Uri::from).unwrap_or_default();
}

/// Bytes of a request body that are kept until the response head arrives, in case the upstream did not process it.
const REPLAY_BYTES: usize = 16 * 1024;

/// Copy of a request over HTTP/2, where the upstream can report that it did not process it.
pub(super) struct Replay {
    head: Parts,
    /// The body; `None` if the request has none.
    body: Option<Recording<Body>>,
}

impl Replay {
    /// Copies a request that may have to be sent again. The start of its body is copied while it is sent. Returns `None` if the
    /// body cannot be copied.
    pub(super) fn of(request: &mut Request<Body>) -> Option<Box<Self>> {
        let body = if request.body().is_end_stream() { None } else { Some(record_body(request.body_mut())?) };
        let (head, sent) = std::mem::take(request).into_parts();
        *request = Request::from_parts(head.clone(), sent);
        Some(Box::new(Self { head, body }))
    }

    /// Returns the request from its beginning; `None` if its body was longer than the copy, or failed.
    pub(super) fn request(&self) -> Option<Request<Body>> {
        let body = match &self.body {
            None => Body::default(),
            Some(recording) => recording.replay()?.into(),
        };
        Some(Request::from_parts(self.head.clone(), body))
    }
}

/// Returns true if the request may be sent again although the upstream may have processed it (RFC 9110 §9.2.2): its method is
/// idempotent, and it has no body.
pub(super) fn is_idempotent(request: &Request<Body>) -> bool {
    let methods = [Method::GET, Method::HEAD, Method::OPTIONS, Method::PUT, Method::DELETE];
    request.body().is_end_stream() && methods.contains(request.method())
}

/// Makes `body` keep a copy of its start. Returns `None` if it cannot be copied.
fn record_body(body: &mut Body) -> Option<Recording<Body>> {
    let (recorded, recording) = record(std::mem::take(body), REPLAY_BYTES);
    *body = recorded.into();
    recording
}
