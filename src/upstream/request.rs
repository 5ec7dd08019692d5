//! A request on its way out: what it carries beside its head, the head as the upstream gets it, and its copy for a
//! second attempt.

use http::header::{CONNECTION, HOST, HeaderMap, HeaderValue, TE, TRANSFER_ENCODING, UPGRADE};
use http::request::Parts;
use http::uri::{Authority, PathAndQuery};
use http::{Extensions, Method, Request, Uri, Version};
use http_body::Body as _;
use hyper::upgrade::OnUpgrade;
use tollgate_filters::context::RequestContext;

use crate::http::body::Body;
use crate::http::upgrade::Upgrade;
use crate::upstream::error::ForwardError;
use crate::upstream::origin::Origin;

/// What came with a request beside its head.
pub(super) struct Extras {
    pub(super) upgrade: Option<Upgrade>,
    pub(super) client: Option<OnUpgrade>,
    preserve_host: bool,
}

impl Extras {
    /// Takes them out of `extensions`, which is empty then; `None` where nothing matters.
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

    /// Whether the request asks to leave HTTP.
    pub(super) fn upgrades(&self) -> bool {
        self.upgrade.is_some()
    }
}

/// Makes of the head that came through the filters the one that goes to `origin`. A head that went elsewhere before, as
/// HTTP/1.1 or HTTP/2, may come again.
///
/// # Errors
/// A preserved `Host` that HTTP/2 cannot have.
pub(super) fn shape(
    head: &mut Parts,
    body: &Body,
    origin: &Origin,
    extras: Option<&Extras>,
    is_http2: bool,
) -> Result<(), ForwardError> {
    unshape_http2(head);
    if is_http2 {
        return shape_http2(head, origin, extras);
    }
    shape_http1(head, body, origin, extras);
    Ok(())
}

fn shape_http1(head: &mut Parts, body: &Body, origin: &Origin, extras: Option<&Extras>) {
    let preserve_host = extras.is_some_and(|extras| extras.preserve_host);
    if !preserve_host || !head.headers.contains_key(HOST) {
        head.headers.insert(HOST, origin.authority.clone());
    }
    if let Some(upgrade) = extras.and_then(|extras| extras.upgrade.as_ref()) {
        head.headers.insert(UPGRADE, upgrade.protocol.clone());
        head.headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    } else if head.headers.contains_key(TE) {
        head.headers.insert(CONNECTION, HeaderValue::from_static("te"));
    }
    if !body.is_end_stream() && body.size_hint().exact().is_none() {
        // hyper takes a GET without framing fields to have no body, and would drop it.
        head.headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
    }
    head.version = Version::HTTP_11;
}

/// `Host` becomes `:authority` (RFC 9113 §8.3.1), fields about the connection do not exist
/// (§8.2.2), and the body frames itself.
fn shape_http2(head: &mut Parts, origin: &Origin, extras: Option<&Extras>) -> Result<(), ForwardError> {
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

/// Undoes [`shape_http2`] for a request that comes back unsent.
fn unshape_http2(head: &mut Parts) {
    if head.uri.authority().is_none() {
        return;
    }
    let uri = std::mem::take(&mut head.uri).into_parts();
    if let Some(host) = uri.authority.and_then(|authority| HeaderValue::from_str(authority.as_str()).ok()) {
        head.headers.insert(HOST, host);
    }
    head.uri = uri.path_and_query.map(Uri::from).unwrap_or_default();
}

/// What it takes to send a request without a body once more.
pub(super) struct Replay {
    head: Box<(Method, Uri, HeaderMap)>,
    /// Whether it may be sent again although the upstream may have acted on it (RFC 9110 §9.2.2).
    pub(super) is_idempotent: bool,
}

impl Replay {
    /// A copy of a request that may be sent twice: it has no body to send twice, and its method is idempotent, or an
    /// upstream can say that it did nothing, as it can over HTTP/2.
    pub(super) fn of(head: &Parts, body: &Body, extras: Option<&Extras>, is_http2: bool) -> Option<Self> {
        let is_idempotent =
            [Method::GET, Method::HEAD, Method::OPTIONS, Method::PUT, Method::DELETE].contains(&head.method);
        let switches = extras.is_some_and(Extras::upgrades);
        ((is_idempotent || is_http2) && body.is_end_stream() && !switches).then(|| Self {
            head: Box::new((head.method.clone(), head.uri.clone(), head.headers.clone())),
            is_idempotent,
        })
    }

    pub(super) fn request(self) -> Request<Body> {
        let mut request = Request::new(Body::default());
        (*request.method_mut(), *request.uri_mut(), *request.headers_mut()) = *self.head;
        request
    }
}
