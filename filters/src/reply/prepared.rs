//! Reply with headers and body rendered at load.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};

use super::accept::prefers_problem;
use crate::context::LocalReply;

/// Media type of problems.
const PROBLEM: Option<&str> = Some("application/problem+json");

/// Prepared response, in plain text and optionally as a problem (RFC 9457).
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    status: StatusCode,
    /// `None` if responses do not carry a [`LocalReply`].
    local_reply: Option<LocalReply>,
    text: Arc<Representation>,
    problem: Option<Arc<Representation>>,
}

/// Representations by media type and body.
type Representations = HashMap<(Option<&'static str>, String), Arc<Representation>>;

/// Representations of replies that do not depend on a route: layers of many routes share them.
static SHARED: LazyLock<Mutex<Representations>> = LazyLock::new(Mutex::default);

/// Headers and body of one media type. Copying a header map costs less than a third of filling it.
#[derive(Clone, Debug)]
struct Representation {
    headers: HeaderMap,
    body: Bytes,
}

/// Returns the body of a response to `method`, which is `body` unless for HEAD: that gets the length that GET would get, and no body
/// (RFC 9110 §9.3.2). Other responses get their `Content-Length` from the server, since an outer layer may change the body.
pub(crate) fn body_for(method: &Method, headers: &mut HeaderMap, body: Bytes) -> Bytes {
    if method == Method::HEAD {
        headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
        return Bytes::new();
    }
    body
}

// === impl Reply ===

impl Reply {
    /// Prepares a response without a body.
    #[cfg(any(feature = "concurrency-limiter", feature = "request-rate-limiter"))]
    pub(crate) fn empty(status: StatusCode, reason: &'static str) -> Self {
        let text = Representation::shared(None, String::new());
        Self { status, local_reply: Some(LocalReply { reason }), text, problem: None }
    }

    /// Prepares a response in plain text and as a problem of the type `kind` (RFC 9457); `Accept` selects one of them.
    ///
    /// `members` are further members of the problem as JSON, each with a comma before it.
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
            local_reply: Some(LocalReply { reason }),
            text: Representation::shared(Some("text/plain; charset=utf-8"), format!("{name}\n")),
            problem: Some(match members {
                "" => Representation::shared(PROBLEM, json),
                _ => Arc::new(Representation::new(PROBLEM, json)),
            }),
        }
    }

    /// Prepares such a response with a `detail`, which has no quotes and no backslashes.
    #[cfg(any(feature = "verify-api-key", feature = "edit"))]
    pub(crate) fn detailed(status: StatusCode, reason: &'static str, detail: &str) -> Self {
        let members = format!(r#","detail":"{detail}""#);
        let name = status.canonical_reason().unwrap_or("Error");
        let text = Representation::new(Some("text/plain; charset=utf-8"), format!("{name}: {detail}\n"));
        Self { text: text.into(), ..Self::problem(status, reason, "about:blank", None, &members) }
    }

    /// Lets `write` add headers to every representation.
    #[cfg(feature = "request-rate-limiter")]
    pub(crate) fn prepare(&mut self, write: impl Fn(&mut HeaderMap)) {
        for representation in std::iter::once(&mut self.text).chain(&mut self.problem) {
            write(&mut Arc::make_mut(representation).headers);
        }
    }

    /// Omits [`LocalReply`] from responses.
    #[cfg(feature = "request-rate-limiter")]
    pub(crate) fn omit_local_reply(&mut self) {
        self.local_reply = None;
    }

    /// Returns the response to `request`.
    #[cfg(any(
        feature = "verify-api-key",
        feature = "concurrency-limiter",
        feature = "edit",
        feature = "request-rate-limiter",
        feature = "require-key"
    ))]
    pub(crate) fn to_response<B, R: From<Bytes>>(&self, request: &http::Request<B>) -> Response<R> {
        self.for_client(request.method(), request.headers())
    }

    /// Returns the response, as `to_response` does, from the parts of a request's head.
    pub(crate) fn for_client<R: From<Bytes>>(&self, method: &Method, accept: &HeaderMap) -> Response<R> {
        let chosen = self.problem.as_ref().filter(|_| prefers_problem(accept)).unwrap_or(&self.text);
        let mut headers = chosen.headers.clone();
        let body = body_for(method, &mut headers, chosen.body.clone());
        let mut response = Response::new(R::from(body));
        *response.status_mut() = self.status;
        *response.headers_mut() = headers;
        if let Some(local_reply) = self.local_reply {
            response.extensions_mut().insert(local_reply);
        }
        response
    }
}

// === impl Representation ===

impl Representation {
    /// Returns the one instance of a representation. The process has few: one for each status and reason.
    fn shared(content_type: Option<&'static str>, body: String) -> Arc<Self> {
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = shared.entry((content_type, body.clone()));
        Arc::clone(entry.or_insert_with(|| Arc::new(Self::new(content_type, body))))
    }

    fn new(content_type: Option<&'static str>, body: String) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(content_type) = content_type {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        }
        Self { headers, body: Bytes::from(body) }
    }
}
