//! A request on its way out: what it carries beside its head, the head as the upstream gets it, and its copy for a
//! second attempt.

use http::header::{CONNECTION, HOST, HeaderMap, HeaderValue, TE, TRANSFER_ENCODING, UPGRADE};
use http::request::Parts;
use http::{Extensions, Method, Request, Version};
use http_body::Body as _;
use hyper::upgrade::OnUpgrade;
use tollgate_filters::context::RequestContext;

use super::origin::Origin;
use crate::body::Body;
use crate::gateway::context::Upgrade;

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
}

/// Makes of the head that came through the filters the one that goes to `origin`. A head that went elsewhere before may
/// come again.
pub(super) fn shape(head: &mut Parts, body: &Body, origin: &Origin, extras: Option<&Extras>) {
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

/// What it takes to send a request without a body once more.
pub(super) struct Replay {
    method: Method,
    uri: http::Uri,
    headers: HeaderMap,
}

impl Replay {
    /// A copy of a request that may be sent twice (RFC 9110 §9.2.2): its method is idempotent and it has no body to
    /// send twice.
    pub(super) fn of(head: &Parts, body: &Body, extras: Option<&Extras>) -> Option<Box<Self>> {
        let idempotent =
            [Method::GET, Method::HEAD, Method::OPTIONS, Method::PUT, Method::DELETE].contains(&head.method);
        let switches = extras.is_some_and(|extras| extras.upgrade.is_some());
        (idempotent && body.is_end_stream() && !switches).then(|| {
            Box::new(Self { method: head.method.clone(), uri: head.uri.clone(), headers: head.headers.clone() })
        })
    }

    pub(super) fn request(self) -> Request<Body> {
        let mut request = Request::new(Body::default());
        *request.method_mut() = self.method;
        *request.uri_mut() = self.uri;
        *request.headers_mut() = self.headers;
        request
    }
}
