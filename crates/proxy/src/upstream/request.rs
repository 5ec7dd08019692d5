//! Requests as they are sent to an upstream: their extensions, their head, and a copy for a second attempt.

use http::header::{CONNECTION, HOST, HeaderValue, TE, TRANSFER_ENCODING, UPGRADE};
use http::request::Parts;
use http::uri::{Authority, PathAndQuery};
use http::{Extensions, Method, Request, Uri, Version};
use http_body::Body as _;
use hyper::upgrade::OnUpgrade;
use tollgate_filters::context::RequestContext;
use tollgate_filters::replay::{Recording, record};

use crate::http::body::Body;
use crate::http::upgrade::Upgrade;
use crate::upstream::error::ForwardError;
use crate::upstream::origin::Origin;
use crate::upstream::pool::FieldList;

/// Extensions of a request that forwarding needs.
pub(super) struct RequestExtras {
    pub(super) upgrade: Option<Upgrade>,
    pub(super) client: Option<OnUpgrade>,
    preserve_host: bool,
}

impl RequestExtras {
    /// Takes them from `extensions` and clears the rest. Returns `None` if none is needed.
    pub(super) fn take(extensions: &mut Extensions) -> Option<Box<Self>> {
        if extensions.is_empty() {
            return None;
        }
        let upgrade = extensions.remove::<Upgrade>();
        let client = extensions.remove::<OnUpgrade>();
        let preserve_host = extensions.get::<RequestContext>().is_some_and(|context| context.preserve_host);
        extensions.clear();
        (upgrade.is_some() || preserve_host).then(|| Box::new(Self { upgrade, client, preserve_host }))
    }

    /// True if the request asks to switch protocols.
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
    head: &mut Parts,
    body: &Body,
    origin: &Origin,
    extras: Option<&RequestExtras>,
    is_http2: bool,
) -> Result<(), ForwardError> {
    revert_http2(head);
    if is_http2 {
        return prepare_http2(head, origin, extras);
    }
    prepare_http1(head, body, origin, extras);
    Ok(())
}

fn prepare_http1(head: &mut Parts, body: &Body, origin: &Origin, extras: Option<&RequestExtras>) {
    let preserve_host = extras.is_some_and(|extras| extras.preserve_host);
    if !preserve_host || !head.headers.contains_key(HOST) {
        head.headers.insert(HOST, origin.authority.clone());
    }
    if let Some(upgrade) = extras.and_then(|extras| extras.upgrade.as_ref()) {
        head.headers.insert(UPGRADE, upgrade.protocol.clone());
        head.headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        // `Connection` would have to name it too (RFC 9110 §10.1.4); a tunnel has no trailers.
        head.headers.remove(TE);
    } else if head.headers.contains_key(TE) {
        head.headers.insert(CONNECTION, HeaderValue::from_static("te"));
    }
    if !body.is_end_stream() && body.size_hint().exact().is_none() {
        // hyper assumes that a GET without framing fields has no body, and would drop it.
        head.headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
    }
    head.version = Version::HTTP_11;
}

/// Turns `Host` into `:authority` (RFC 9113 §8.3.1) and removes connection-specific fields (§8.2.2).
fn prepare_http2(head: &mut Parts, origin: &Origin, extras: Option<&RequestExtras>) -> Result<(), ForwardError> {
    let preserve_host = extras.is_some_and(|extras| extras.preserve_host);
    let host = head.headers.remove(HOST).filter(|_| preserve_host);
    let authority = host.unwrap_or_else(|| origin.authority.clone());
    head.headers.remove(CONNECTION);
    head.headers.remove(TRANSFER_ENCODING);
    let mut uri = std::mem::take(&mut head.uri).into_parts();
    uri.scheme = Some(origin.scheme());
    uri.authority = Some(Authority::try_from(authority.as_bytes()).map_err(|_| ForwardError::BadHost)?);
    uri.path_and_query.get_or_insert(PathAndQuery::from_static("/"));
    head.uri = Uri::from_parts(uri).map_err(|_| ForwardError::BadHost)?;
    head.version = Version::HTTP_2;
    Ok(())
}

/// Reverts [`prepare_http2`] for a request that was not sent.
fn revert_http2(head: &mut Parts) {
    if head.uri.authority().is_none() {
        return;
    }
    let uri = std::mem::take(&mut head.uri).into_parts();
    if let Some(host) = uri.authority.and_then(|authority| HeaderValue::from_str(authority.as_str()).ok()) {
        head.headers.insert(HOST, host);
    }
    head.uri = uri.path_and_query.map(Uri::from).unwrap_or_default();
}

/// Bytes of a request body that are kept until the response head arrives, in case the upstream did not process it.
const REPLAY_BYTES: usize = 16 * 1024;

/// Copy of a request, to send it again.
pub(super) struct Replay {
    method: Method,
    uri: Uri,
    fields: FieldList,
    /// The body; `None` if the request has none.
    body: Option<Recording<Body>>,
    /// True if it may be sent again although the upstream may have processed it (RFC 9110 §9.2.2): its method is
    /// idempotent, and it has no body.
    pub(super) is_idempotent: bool,
}

impl Replay {
    /// Copies a request that may have to be sent again: an idempotent one, or one over HTTP/2, where the upstream can
    /// report that it did not process it. The start of its body is copied while it is sent. `list` returns an empty
    /// list for the copy. Returns the body to send.
    pub(super) fn of(
        head: &Parts,
        body: Body,
        extras: Option<&RequestExtras>,
        is_http2: bool,
        list: impl FnOnce() -> FieldList,
    ) -> (Body, Option<Self>) {
        let is_empty = body.is_end_stream();
        let is_idempotent = is_empty
            && [Method::GET, Method::HEAD, Method::OPTIONS, Method::PUT, Method::DELETE].contains(&head.method);
        if extras.is_some_and(RequestExtras::upgrades) || !(is_idempotent || is_http2) {
            return (body, None);
        }
        let copy = |body| {
            let mut fields = list();
            fields.extend(head.headers.iter().map(|(name, value)| (name.clone(), value.clone())));
            Self { method: head.method.clone(), uri: head.uri.clone(), fields, body, is_idempotent }
        };
        if is_empty {
            return (body, Some(copy(None)));
        }
        let (body, recording) = record(body, REPLAY_BYTES);
        (body.into(), recording.map(|recording| copy(Some(recording))))
    }

    /// Returns the request from its beginning; `None` if its body was longer than the copy, or failed.
    pub(super) fn request(&self) -> Option<Request<Body>> {
        let body = match &self.body {
            None => Body::default(),
            Some(recording) => recording.replay()?.into(),
        };
        let mut request = Request::new(body);
        (*request.method_mut(), *request.uri_mut()) = (self.method.clone(), self.uri.clone());
        request.headers_mut().reserve(self.fields.len());
        for (name, value) in &self.fields {
            request.headers_mut().append(name, value.clone());
        }
        Some(request)
    }

    /// Returns the list of its fields, for another copy.
    pub(super) fn into_list(self) -> FieldList {
        self.fields
    }
}
