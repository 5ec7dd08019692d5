//! A run of edits as one layer.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use pin_project_lite::pin_project;
use tower::{Layer, Service};

use super::response::{Captured, ResponseEdit};
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
    all: Box<[Kind]>,
    /// How many of them are of responses.
    of_responses: usize,
    /// Whether one of those needs something of the request.
    captures: bool,
    unknown_variable: Reply,
    bad_value: Reply,
    too_slow: Reply,
}

/// What is to be done to the response.
struct After {
    edits: Arc<Edits>,
    /// What each response edit needs of the request, in order; empty when none needs any.
    captured: Vec<Captured>,
}

// === impl EditLayer ===

impl EditLayer {
    /// Applies `edits`, in the order of the route's filters.
    pub fn new(edits: impl IntoIterator<Item = Edit>) -> Self {
        let all: Box<[Kind]> = edits.into_iter().map(|edit| edit.0).collect();
        let of_responses = || all.iter().filter_map(Kind::of_response);
        let reply = |status, reason| Reply::problem(status, reason, "about:blank", None, "");
        Self {
            edits: Arc::new(Edits {
                of_responses: of_responses().count(),
                captures: of_responses().any(ResponseEdit::captures),
                all,
                unknown_variable: reply(StatusCode::INTERNAL_SERVER_ERROR, "unknown-variable"),
                bad_value: reply(StatusCode::BAD_REQUEST, "bad-value"),
                too_slow: reply(StatusCode::INTERNAL_SERVER_ERROR, "regexp-too-slow"),
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
            Ok(captured) => {
                let edits = (self.edits.of_responses > 0).then(|| Arc::clone(&self.edits));
                State::Passing { inner: self.inner.call(request), after: edits.map(|edits| After { edits, captured }) }
            }
            Err(failure) => State::Refused { response: Some(self.edits.refusal(failure, &request)) },
        };
        ResponseFuture { state }
    }
}

// === impl Edits ===

impl Edits {
    /// Edits the request, and keeps what the response's edits need of it as it is where they stand.
    fn before<B>(&self, request: &mut Request<B>) -> Result<Vec<Captured>, Failure> {
        let mut captured = Vec::with_capacity(if self.captures { self.of_responses } else { 0 });
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

    fn refusal<B, R: From<Bytes>>(&self, failure: Failure, request: &Request<B>) -> Response<R> {
        match failure {
            Failure::UnknownVariable => {
                tracing::warn!(
                    "a filter's value names a URI variable that the matched pattern does not have: answered 500"
                );
                self.unknown_variable.to_response(request)
            }
            Failure::BadValue => self.bad_value.to_response(request),
            Failure::TooSlow => {
                tracing::warn!("a path took a regexp too many steps back to rewrite: answered 500");
                self.too_slow.to_response(request)
            }
        }
    }
}

// === impl After ===

impl After {
    fn apply<R>(self, response: &mut Response<R>) {
        if LocalReply::marks(response) {
            return;
        }
        let mut captured = self.captured.into_iter().rev();
        for edit in self.edits.all.iter().rev().filter_map(Kind::of_response) {
            edit.apply(captured.next(), response.headers_mut());
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
