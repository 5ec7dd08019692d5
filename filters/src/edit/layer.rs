//! The layer that applies a sequence of edits.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use tower::Service;

use super::error::ApplyError;
use super::response::{Captured, ResponseEdit};
use super::{Edit, Kind};
use crate::context::{LocalReply, RefusalDetail, RequestContext};
use crate::filter::{Filter, FilterLayer};
use crate::refusal_body::ReplyBody;
use crate::reply::Reply;
use crate::request_filter::RespondOr;
use crate::response_filter::{MapResponse, ResponseMapper};

/// Edits requests and responses. See the [module](super).
pub type EditLayer = FilterLayer<EditFilter>;

/// Filter that applies a sequence of edits.
#[derive(Clone, Debug)]
pub struct EditFilter(Arc<Edits>);

#[derive(Debug)]
struct Edits {
    /// All edits, in order.
    all: Box<[Kind]>,
    /// Number of response edits.
    response_edits: usize,
    /// True if a response edit needs values of the request.
    captures: bool,
    unknown_variable: Reply,
    too_slow: Reply,
}

/// The edits of one response.
#[derive(Debug)]
pub struct ResponseEdits {
    edits: Arc<Edits>,
    /// Values of the request for each response edit, in order; empty if no edit needs any.
    captured: Vec<Captured>,
}

// === impl EditLayer ===

impl EditLayer {
    /// Creates a layer that applies `edits`, in the order of the route's filters.
    pub fn new(edits: impl IntoIterator<Item = Edit>) -> Self {
        let all: Box<[Kind]> = edits.into_iter().map(|edit| edit.0).collect();
        let response_edits = || all.iter().filter_map(Kind::as_response_edit);
        let reply = |status, reason| Reply::problem(status, reason, "about:blank", None, "");
        Self(EditFilter(Arc::new(Edits {
            response_edits: response_edits().count(),
            captures: response_edits().any(ResponseEdit::captures),
            all,
            unknown_variable: reply(StatusCode::INTERNAL_SERVER_ERROR, "unknown-variable"),
            too_slow: reply(StatusCode::INTERNAL_SERVER_ERROR, "regexp-too-slow"),
        })))
    }

    /// Applies the edits of requests to `request`. Returns false if one of them refuses it.
    pub fn edit_request<B>(&self, request: &mut Request<B>) -> bool {
        self.0.0.apply_to_request(request).is_ok()
    }
}

// === impl EditFilter ===

impl<S, B, R> Filter<S, B> for EditFilter
where
    S: Service<Request<B>, Response = Response<R>>,
    R: ReplyBody,
{
    type Body = B;
    type Response = Response<R>;
    type Future = RespondOr<MapResponse<S::Future, Option<ResponseEdits>>, Response<R>>;

    fn call(&self, mut request: Request<B>, inner: &mut S) -> Self::Future {
        let Self(edits) = self;
        match edits.apply_to_request(&mut request) {
            Ok(captured) => {
                let has_response_edits = edits.response_edits > 0;
                let mapper = has_response_edits.then(|| ResponseEdits { edits: Arc::clone(edits), captured });
                RespondOr::forward(MapResponse::new(inner.call(request), mapper))
            }
            Err(failure) => RespondOr::respond(edits.error_response(failure, &request)),
        }
    }
}

// === impl Edits ===

impl Edits {
    /// Edits the request. Each response edit captures its values at its own position in the sequence.
    fn apply_to_request<B>(&self, request: &mut Request<B>) -> Result<Vec<Captured>, ApplyError> {
        let mut captured = Vec::with_capacity(if self.captures { self.response_edits } else { 0 });
        for edit in &self.all {
            match edit {
                Kind::Path(edit) => edit.apply(request)?,
                Kind::Query(edit) => edit.apply(request)?,
                Kind::RequestHeader(edit) => edit.apply(request)?,
                Kind::Target(edit) => edit.apply(request),
                Kind::PreserveHostHeader => {
                    request.extensions_mut().get_or_insert_default::<RequestContext>().preserve_host = true;
                }
                Kind::Response(edit) if self.captures => captured.push(edit.capture(request)?),
                Kind::Response(_) => {}
            }
        }
        Ok(captured)
    }

    fn error_response<B, R: From<Bytes>>(&self, failure: ApplyError, request: &Request<B>) -> Response<R> {
        match failure {
            ApplyError::UnknownVariable => {
                tracing::warn!("{failure}");
                self.unknown_variable.to_response(request)
            }
            ApplyError::TooSlow => {
                tracing::warn!("{failure}");
                self.too_slow.to_response(request)
            }
            ApplyError::BadField | ApplyError::BadTarget | ApplyError::BadPath(_) | ApplyError::BadHost => {
                let detail = failure.to_string();
                let mut response = Reply::detailed(StatusCode::BAD_REQUEST, "bad-value", &detail).to_response(request);
                response.extensions_mut().insert(RefusalDetail(detail.into()));
                response
            }
        }
    }
}

// === impl ResponseEdits ===

impl ResponseMapper for ResponseEdits {
    fn apply<R>(self, response: &mut Response<R>) {
        if LocalReply::marks(response) {
            return;
        }
        let mut captured = self.captured.into_iter().rev();
        for edit in self.edits.all.iter().rev().filter_map(Kind::as_response_edit) {
            edit.apply(captured.next(), response.headers_mut());
        }
    }
}
