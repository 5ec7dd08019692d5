//! Waits for the answer, then for its body.

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

use super::strip::strip;
use super::{Asked, Settings};
use crate::context::LocalReply;
use crate::reply::Reply;

pin_project! {
    /// Resolves to the inner service's response without the attributes.
    pub struct ResponseFuture<F, R> {
        #[pin]
        state: State<F, R>,
        settings: Arc<Settings>,
        asked: Asked,
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

/// Why an answer does not pass.
enum Failure {
    TooLarge,
    Encoded,
    Partial,
    NotJson,
    BrokeOff,
}

impl<F, R> ResponseFuture<F, R> {
    pub(super) fn new(inner: F, settings: Arc<Settings>, asked: Asked) -> Self {
        Self { state: State::Waiting { inner }, settings, asked }
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
                    match look_into(&mut response, this.settings, this.asked) {
                        Look::Passes => {
                            this.state.set(State::Done);
                            return Poll::Ready(Ok(response));
                        }
                        Look::Fails(failure) => Err(failure),
                        Look::Collects => {
                            let (head, body) = response.into_parts();
                            Ok(State::Collecting { head: Some(head), body, collected: BytesMut::new() })
                        }
                    }
                }
                StateProj::Collecting { head, body, collected } => {
                    match ready!(collect(body, collected, this.settings.max_bytes, cx)) {
                        Err(failure) => Err(failure),
                        Ok(()) => match strip(collected, &this.settings.names, this.settings.recursively) {
                            Err(_) => Err(Failure::NotJson),
                            Ok(text) => {
                                let Some(mut head) = head.take() else { return Poll::Pending };
                                head.headers.insert(CONTENT_LENGTH, HeaderValue::from(text.len()));
                                this.state.set(State::Done);
                                return Poll::Ready(Ok(Response::from_parts(head, R::from(Bytes::from(text)))));
                            }
                        },
                    }
                }
                StateProj::Done => return Poll::Pending, // polled after it was done
            };
            match next {
                Ok(state) => this.state.set(state),
                Err(failure) => {
                    this.state.set(State::Done);
                    return Poll::Ready(Ok(failure.response(this.asked)));
                }
            }
        }
    }
}

/// What becomes of an answer.
enum Look {
    Passes,
    Collects,
    Fails(Failure),
}

fn look_into<R: Body>(response: &mut Response<R>, settings: &Settings, asked: &Asked) -> Look {
    if LocalReply::marks(response) || !is_json(response.headers()) {
        return Look::Passes;
    }
    let status = response.status();
    let has_none = asked.is_head || status == StatusCode::NO_CONTENT || status == StatusCode::NOT_MODIFIED;
    if has_none || response.body().is_end_stream() {
        adapt(response.headers_mut());
        if asked.is_head {
            // The length is that of the upstream's body, not of the one that GET gives.
            response.headers_mut().remove(CONTENT_LENGTH);
        }
        return Look::Passes;
    }
    let mut codings = response.headers().get_all(CONTENT_ENCODING).iter();
    if codings.any(|value| !value.as_bytes().trim_ascii().eq_ignore_ascii_case(b"identity")) {
        return Look::Fails(Failure::Encoded);
    }
    if status == StatusCode::PARTIAL_CONTENT {
        return Look::Fails(Failure::Partial);
    }
    if response.body().size_hint().lower() > settings.max_bytes as u64 {
        return Look::Fails(Failure::TooLarge);
    }
    adapt(response.headers_mut());
    Look::Collects
}

/// `application/json`, with or without parameters.
fn is_json(headers: &HeaderMap) -> bool {
    let essence = |value: &HeaderValue| {
        let essence = value.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default();
        essence.trim_ascii().eq_ignore_ascii_case(b"application/json")
    };
    headers.get(CONTENT_TYPE).is_some_and(essence)
}

/// Takes back what the headers say of the bytes as they were.
fn adapt(headers: &mut HeaderMap) {
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
        let Ok(frame) = frame else { return Poll::Ready(Err(Failure::BrokeOff)) };
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
    fn response<R: From<Bytes>>(&self, asked: &Asked) -> Response<R> {
        let (status, why) = match self {
            Self::TooLarge => (StatusCode::INTERNAL_SERVER_ERROR, "it is larger than may be collected"),
            Self::Encoded => (StatusCode::INTERNAL_SERVER_ERROR, "it is encoded, though `identity` was asked for"),
            Self::Partial => (StatusCode::INTERNAL_SERVER_ERROR, "it is a part, though the whole was asked for"),
            Self::NotJson => (StatusCode::INTERNAL_SERVER_ERROR, "it is no JSON"),
            Self::BrokeOff => (StatusCode::BAD_GATEWAY, "it broke off"),
        };
        tracing::warn!("an answer's attributes cannot be removed, so it does not pass: {why}");
        // Answers to HEAD have passed already.
        Reply::problem(status, "response-body", "about:blank", None, "").for_client(&Method::GET, &asked.accept)
    }
}
