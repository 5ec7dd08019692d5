//! The response future: waits for the response, then collects its body.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use http::header::{
    ACCEPT_RANGES, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue, TRAILER,
};
use http::{Method, Response, StatusCode};
use http_body::Body;
use pin_project_lite::pin_project;

use super::members::remove_members;
use super::{RequestInfo, Settings};
use crate::context::{LocalReply, ReceivedStatus};
use crate::reply::Reply;

pin_project! {
    /// Resolves to the inner service's response without the attributes.
    pub struct ResponseFuture<F, R> {
        #[pin]
        state: State<F, R>,
        settings: Arc<Settings>,
        request_info: RequestInfo,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<F, R> {
        Waiting { #[pin] inner: F },
        Collecting { head: Option<http::response::Parts>, #[pin] body: R, collected: BytesMut },
        Done,
    }
}

/// The reason for rejecting a response.
enum Failure {
    TooLarge,
    Encoded,
    Partial,
    InvalidJson,
    Incomplete,
}

impl<F, R> ResponseFuture<F, R> {
    pub(super) fn new(inner: F, settings: Arc<Settings>, request_info: RequestInfo) -> Self {
        Self { state: State::Waiting { inner }, settings, request_info }
    }
}

impl<F, R, E> Future for ResponseFuture<F, R>
where
    F: Future<Output = Result<Response<R>, E>>,
    R: Body + From<Bytes>,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            let next = match this.state.as_mut().project() {
                StateProj::Waiting { inner } => {
                    let mut response = ready!(inner.poll(cx))?;
                    let received = response.status();
                    match inspect(&mut response, this.settings, this.request_info) {
                        Decision::Forward => {
                            this.state.set(State::Done);
                            return Poll::Ready(Ok(response));
                        }
                        Decision::Reject(failure) => Err((failure, received)),
                        Decision::Collect => {
                            let (head, body) = response.into_parts();
                            Ok(State::Collecting { head: Some(head), body, collected: BytesMut::new() })
                        }
                    }
                }
                StateProj::Collecting { head, body, collected } => {
                    let received = head.as_ref().map_or(StatusCode::OK, |head| head.status);
                    match ready!(collect(body, collected, this.settings.max_bytes, cx)) {
                        Err(failure) => Err((failure, received)),
                        Ok(()) => match remove_members(collected, &this.settings.names, this.settings.recursively) {
                            Err(_) => Err((Failure::InvalidJson, received)),
                            Ok(text) => {
                                let Some(mut head) = head.take() else { return Poll::Pending };
                                head.headers.insert(CONTENT_LENGTH, HeaderValue::from(text.len()));
                                this.state.set(State::Done);
                                return Poll::Ready(Ok(Response::from_parts(head, R::from(Bytes::from(text)))));
                            }
                        },
                    }
                }
                StateProj::Done => return Poll::Pending, // polled after completion
            };
            match next {
                Ok(state) => this.state.set(state),
                Err((failure, received)) => {
                    this.state.set(State::Done);
                    let mut response: Response<R> = failure.response(this.request_info);
                    response.extensions_mut().insert(ReceivedStatus(received));
                    return Poll::Ready(Ok(response));
                }
            }
        }
    }
}

/// The handling of a response.
enum Decision {
    Forward,
    Collect,
    Reject(Failure),
}

fn inspect<R: Body>(response: &mut Response<R>, settings: &Settings, request_info: &RequestInfo) -> Decision {
    if LocalReply::marks(response) || !is_json(response.headers()) {
        return Decision::Forward;
    }
    let status = response.status();
    let has_no_body = request_info.is_head || status == StatusCode::NO_CONTENT || status == StatusCode::NOT_MODIFIED;
    if has_no_body || response.body().is_end_stream() {
        adjust_headers(response.headers_mut());
        if request_info.is_head {
            // `Content-Length` is that of the upstream's body, not that of the edited one.
            response.headers_mut().remove(CONTENT_LENGTH);
        }
        return Decision::Forward;
    }
    let mut codings = response.headers().get_all(CONTENT_ENCODING).iter();
    if codings.any(|value| !value.as_bytes().trim_ascii().eq_ignore_ascii_case(b"identity")) {
        return Decision::Reject(Failure::Encoded);
    }
    if status == StatusCode::PARTIAL_CONTENT {
        return Decision::Reject(Failure::Partial);
    }
    if response.body().size_hint().lower() > settings.max_bytes as u64 {
        return Decision::Reject(Failure::TooLarge);
    }
    adjust_headers(response.headers_mut());
    Decision::Collect
}

/// Returns true for `application/json` and for types with the suffix `+json` (RFC 6839 §3.1), with or without parameters.
fn is_json(headers: &HeaderMap) -> bool {
    let essence = |value: &HeaderValue| {
        let essence = value.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default();
        let essence = essence.trim_ascii();
        let suffix = essence.len().checked_sub(5).and_then(|start| essence.get(start..));
        let has_type = essence.iter().position(|byte| *byte == b'/').is_some_and(|slash| slash > 0);
        essence.eq_ignore_ascii_case(b"application/json")
            || (has_type && suffix.is_some_and(|suffix| suffix.eq_ignore_ascii_case(b"+json")))
    };
    headers.get(CONTENT_TYPE).is_some_and(essence)
}

/// Removes or weakens headers that describe the bytes before the edit.
fn adjust_headers(headers: &mut HeaderMap) {
    const DIGESTS: [HeaderName; 4] = [
        HeaderName::from_static("content-digest"),
        HeaderName::from_static("repr-digest"),
        HeaderName::from_static("digest"),
        HeaderName::from_static("content-md5"),
    ];
    DIGESTS.iter().for_each(|name| drop(headers.remove(name)));
    headers.remove(ACCEPT_RANGES);
    headers.remove(TRAILER);
    if let Some(tag) = headers.get_mut(ETAG)
        && tag.as_bytes().starts_with(b"\"")
        && let Ok(weak) = HeaderValue::from_bytes(&[b"W/", tag.as_bytes()].concat())
    {
        *tag = weak;
    }
}

/// Reads the body to its end.
fn collect<R: Body>(
    mut body: Pin<&mut R>,
    collected: &mut BytesMut,
    max_bytes: usize,
    cx: &mut Context<'_>,
) -> Poll<Result<(), Failure>> {
    loop {
        let Some(frame) = ready!(body.as_mut().poll_frame(cx)) else { return Poll::Ready(Ok(())) };
        let Ok(frame) = frame else { return Poll::Ready(Err(Failure::Incomplete)) };
        let Ok(mut data) = frame.into_data() else { continue }; // trailers
        if data.remaining() > max_bytes - collected.len() {
            return Poll::Ready(Err(Failure::TooLarge));
        }
        while data.has_remaining() {
            let chunk = data.chunk();
            let length = chunk.len();
            collected.extend_from_slice(chunk);
            data.advance(length);
        }
    }
}

impl Failure {
    fn response<R: From<Bytes>>(&self, request_info: &RequestInfo) -> Response<R> {
        let (status, reason) = match self {
            Self::TooLarge => (StatusCode::INTERNAL_SERVER_ERROR, "larger than the limit"),
            Self::Encoded => (StatusCode::INTERNAL_SERVER_ERROR, "content coding despite `Accept-Encoding: identity`"),
            Self::Partial => (StatusCode::INTERNAL_SERVER_ERROR, "partial content without a range request"),
            Self::InvalidJson => (StatusCode::INTERNAL_SERVER_ERROR, "invalid JSON"),
            Self::Incomplete => (StatusCode::BAD_GATEWAY, "incomplete body"),
        };
        tracing::warn!(reason, "response rejected: JSON attributes cannot be removed");
        // Responses to HEAD are never rejected.
        Reply::problem(status, "response-body", "about:blank", None, "").for_client(&Method::GET, &request_info.accept)
    }
}
