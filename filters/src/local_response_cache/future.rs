//! What becomes of an upstream's answer.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, SystemTime};

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, HeaderMap};
use http::{Response, StatusCode};
use http_body::Body;
use pin_project_lite::pin_project;
use tokio::time::Instant;

use super::body::{Fill, Filling};
use super::cache::{Answer, Resource};
use super::directives::restate;
use super::key::{self, Key};
use super::{CacheOutcome, Shared, rules};
use crate::context::LocalReply;
use crate::cors::PolicyHeadersAdded;

pin_project! {
    /// Resolves to a kept answer or to the inner service's.
    pub struct ResponseFuture<F, R> {
        #[pin]
        state: State<F, R>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<F, R> {
        Answered { response: Option<Response<Filling<R>>> },
        Passing { #[pin] inner: F, shared: Arc<Shared>, then: Option<Then> },
    }
}

/// What becomes of an upstream's answer.
pub(super) enum Then {
    /// It goes to the client.
    Passes,
    /// The same, and if it says that the request succeeded, what is kept of the resource is forgotten.
    Changes(Key),
    /// It is kept on its way to the client.
    Keeps {
        resource: Key,
        /// The request's fields.
        asked: HeaderMap,
        /// The resource as it was known before.
        expected: Arc<Resource>,
        /// What the upstream was asked about: 304 says that it still holds.
        kept: Option<Arc<Answer>>,
    },
}

impl<F, R> ResponseFuture<F, R> {
    pub(super) fn answered(response: Response<Filling<R>>) -> Self {
        Self { state: State::Answered { response: Some(response) } }
    }

    pub(super) fn passing(inner: F, shared: Arc<Shared>, then: Then) -> Self {
        Self { state: State::Passing { inner, shared, then: Some(then) } }
    }
}

impl<F, R, E> Future for ResponseFuture<F, R>
where
    F: Future<Output = Result<Response<R>, E>>,
    R: Body<Data = Bytes> + From<Bytes>,
{
    type Output = Result<Response<Filling<R>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().state.project() {
            StateProj::Passing { inner, shared, then } => {
                let response = ready!(inner.poll(cx))?;
                Poll::Ready(Ok(match then.take() {
                    None | Some(Then::Passes) => response.map(Filling::plain),
                    Some(Then::Changes(resource)) => {
                        let status = response.status();
                        if status.is_success() || status.is_redirection() {
                            shared.cache.forget(&resource);
                        }
                        response.map(Filling::plain)
                    }
                    Some(Then::Keeps { resource, asked, expected, kept }) => {
                        let coming = Coming { shared, resource, asked, expected };
                        match kept.filter(|_| response.status() == StatusCode::NOT_MODIFIED) {
                            Some(kept) => coming.refresh(&kept, &response),
                            None => coming.keep(response),
                        }
                    }
                }))
            }
            StateProj::Answered { response } => match response.take() {
                Some(response) => Poll::Ready(Ok(response)),
                None => Poll::Pending, // polled after it was done
            },
        }
    }
}

/// An answer that may be kept has come.
struct Coming<'c> {
    shared: &'c Shared,
    resource: Key,
    asked: HeaderMap,
    expected: Arc<Resource>,
}

impl Coming<'_> {
    fn lifetime(&self, status: StatusCode, headers: &HeaderMap) -> Option<Duration> {
        let time_to_live = self.shared.settings.time_to_live;
        rules::lifetime(&self.asked, status, headers, time_to_live, SystemTime::now())
    }

    /// The upstream's answer, which is kept as it goes on if it may be.
    fn keep<R: Body<Data = Bytes>>(self, mut response: Response<R>) -> Response<Filling<R>> {
        let cache = &self.shared.cache;
        cache.stats().observe(CacheOutcome::Miss);
        let lifetime = self.lifetime(response.status(), response.headers()).filter(|_| !LocalReply::marks(&response));
        let Some(lifetime) = lifetime else { return response.map(Filling::plain) };
        let headers = response.headers().clone();
        restate(response.headers_mut(), lifetime);
        let Some(resource) = cache.vary(&self.resource, &self.expected, &headers) else {
            return response.map(Filling::plain);
        };
        let answer = Answer {
            generation: resource.generation,
            status: response.status(),
            granted: response.extensions().get::<PolicyHeadersAdded>().is_some(),
            body: Bytes::new(),
            lifetime,
            since: Instant::now(),
            headers,
        };
        let length = answer.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
        let least = length.unwrap_or_else(|| response.body().size_hint().lower());
        if answer.weight().saturating_add(least) > cache.max_answer_bytes() {
            return response.map(Filling::plain);
        }
        let key = key::answer(&self.resource, &self.asked, &resource.vary);
        let fill =
            Fill { cache: Arc::clone(cache), resource: self.resource, key, answer, length, gathered: BytesMut::new() };
        response.map(|body| Filling::new(body, fill))
    }

    /// The kept answer, which still holds.
    fn refresh<R: From<Bytes>>(self, kept: &Answer, not_modified: &Response<R>) -> Response<Filling<R>> {
        let cache = &self.shared.cache;
        cache.stats().observe(CacheOutcome::Revalidated);
        let headers = rules::refreshed(&kept.headers, not_modified.headers());
        let (now, lifetime) = (Instant::now(), self.lifetime(kept.status, &headers));
        let answer = Answer {
            headers,
            lifetime: lifetime.unwrap_or_default(),
            since: now,
            granted: kept.granted || not_modified.extensions().get::<PolicyHeadersAdded>().is_some(),
            ..kept.clone()
        };
        let response = answer.response(&self.asked, false, now);
        match lifetime.and_then(|_| cache.vary(&self.resource, &self.expected, &answer.headers)) {
            Some(resource) => {
                let key = key::answer(&self.resource, &self.asked, &resource.vary);
                cache.keep(&self.resource, key, answer);
            }
            // It may not be kept any more.
            None => cache.forget(&self.resource),
        }
        response.map(Filling::plain)
    }
}
