//! A run of edits as one layer.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode};
use pin_project_lite::pin_project;
use tower::{Layer, Service};

use super::header::ResponseHeader;
use super::{Edit, Failure, Kind};
use crate::context::{LocalReply, RequestContext};
use crate::reply::Reply;

/// Puts [`Edited`] around a service.
#[derive(Clone, Debug)]
pub struct EditLayer {
    edits: Arc<Edits>,
}

/// Edits requests and responses. See the [module](super).
#[derive(Clone, Debug)]
pub struct Edited<S> {
    edits: Arc<Edits>,
    inner: S,
}

pin_project! {
    /// Resolves to the inner service's response, edited.
    pub struct ResponseFuture<F, R> {
        #[pin]
        state: State<F, R>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<F, R> {
        Refused { response: Option<Response<R>> },
        Passing { #[pin] inner: F, after: Option<After> },
    }
}

#[derive(Debug)]
struct Edits {
    /// In order.
    request: Box<[Edit]>,
    /// In reverse order.
    response: Box<[ResponseHeader]>,
    response_needs_variables: bool,
    unknown_variable: Reply,
    bad_value: Reply,
}

/// What is to be done to the response.
struct After {
    edits: Arc<Edits>,
    /// A value for each response edit whose variables only the request knows; empty when none has any.
    expanded: Vec<Option<HeaderValue>>,
}

// === impl EditLayer ===

impl EditLayer {
    /// Applies `edits`, in the order of the route's filters.
    pub fn new(edits: impl IntoIterator<Item = Edit>) -> Self {
        let (mut request, mut response) = (Vec::new(), Vec::new());
        for edit in edits {
            match edit.0 {
                Kind::ResponseHeader(edit) => response.push(edit),
                _ => request.push(edit),
            }
        }
        response.reverse();
        let response_needs_variables = response.iter().any(ResponseHeader::needs_variables);
        let reply = |status, reason| Reply::problem(status, reason, "about:blank", None, "");
        Self {
            edits: Arc::new(Edits {
                request: request.into(),
                response: response.into(),
                response_needs_variables,
                unknown_variable: reply(StatusCode::INTERNAL_SERVER_ERROR, "unknown-variable"),
                bad_value: reply(StatusCode::BAD_REQUEST, "bad-value"),
            }),
        }
    }
}

impl<S> Layer<S> for EditLayer {
    type Service = Edited<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Edited { edits: Arc::clone(&self.edits), inner }
    }
}

// === impl Edited ===

impl<S, B, R> Service<Request<B>> for Edited<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: From<Bytes>,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = ResponseFuture<S::Future, R>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let state = match self.edits.before(&mut request) {
            Ok(expanded) => {
                let edits = (!self.edits.response.is_empty()).then(|| Arc::clone(&self.edits));
                State::Passing { inner: self.inner.call(request), after: edits.map(|edits| After { edits, expanded }) }
            }
            Err(failure) => State::Refused { response: Some(self.edits.refusal(failure, &request)) },
        };
        ResponseFuture { state }
    }
}

// === impl Edits ===

impl Edits {
    /// Edits the request, and keeps what the response's edits need of it.
    fn before<B>(&self, request: &mut Request<B>) -> Result<Vec<Option<HeaderValue>>, Failure> {
        for edit in &self.request {
            match &edit.0 {
                Kind::Path(edit) => edit.apply(request)?,
                Kind::RequestHeader(edit) => edit.apply(request)?,
                Kind::PreserveHostHeader => {
                    request.extensions_mut().get_or_insert_default::<RequestContext>().preserve_host = true;
                }
                Kind::ResponseHeader(_) => debug_assert!(false, "response edits are kept apart"),
            }
        }
        if !self.response_needs_variables {
            return Ok(Vec::new());
        }
        self.response.iter().map(|edit| edit.expand(request.extensions())).collect()
    }

    fn refusal<B, R: From<Bytes>>(&self, failure: Failure, request: &Request<B>) -> Response<R> {
        match failure {
            Failure::UnknownVariable => {
                tracing::warn!(
                    "a filter's value names a URI variable that the matched pattern does not have: answered 500"
                );
                self.unknown_variable.to_response(request)
            }
            Failure::BadValue => self.bad_value.to_response(request),
        }
    }
}

// === impl After ===

impl After {
    fn apply<R>(self, response: &mut Response<R>) {
        if LocalReply::marks(response) {
            return;
        }
        let mut expanded = self.expanded.into_iter();
        for edit in &self.edits.response {
            edit.apply(expanded.next().flatten(), response.headers_mut());
        }
    }
}

// === impl ResponseFuture ===

impl<F, R, E> Future for ResponseFuture<F, R>
where
    F: Future<Output = Result<Response<R>, E>>,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().state.project() {
            StateProj::Passing { inner, after } => {
                let mut response = ready!(inner.poll(cx))?;
                if let Some(after) = after.take() {
                    after.apply(&mut response);
                }
                Poll::Ready(Ok(response))
            }
            StateProj::Refused { response } => match response.take() {
                Some(response) => Poll::Ready(Ok(response)),
                None => Poll::Pending, // polled after it was done
            },
        }
    }
}
