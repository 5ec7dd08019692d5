//! Replaces the status of upstream responses: Spring Cloud Gateway's `SetStatus`.
//!
//! Headers and body stay. With an original-status header (Spring's global `set-status.original-status-header-name`)
//! the upstream's status stands in it, brackets included: `[200]`. Left alone are responses that a filter or the gateway
//! made itself ([`LocalReply`]) and 101, whose connection no longer speaks HTTP. Refuses nothing; costs one comparison.
//!
//! ```
//! use http::{Request, Response, StatusCode};
//! use tollgate_filters::set_status::{SetStatusLayer, Settings};
//! use tower::{Layer, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let layer = SetStatusLayer::new(Settings::new(StatusCode::ACCEPTED, None));
//! let upstream = service_fn(|_: Request<()>| async { Ok::<_, std::convert::Infallible>(Response::new(())) });
//! let response = layer.layer(upstream).oneshot(Request::new(())).await?;
//! assert_eq!(response.status(), StatusCode::ACCEPTED);
//! # Ok(())
//! # }
//! ```

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::{HeaderName, HeaderValue, Request, Response, StatusCode};
use pin_project_lite::pin_project;
use tower::{Layer, Service};

use crate::context::LocalReply;

/// The status to send instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    status: StatusCode,
    original_status_header: Option<HeaderName>,
}

/// Puts a [`SetStatus`] around a service.
#[derive(Clone, Debug)]
pub struct SetStatusLayer {
    settings: Arc<Settings>,
}

/// Replaces the status of upstream responses. See the [module](self).
#[derive(Clone, Debug)]
pub struct SetStatus<S> {
    settings: Arc<Settings>,
    inner: S,
}

pin_project! {
    /// Resolves to the inner service's response under another status.
    pub struct ResponseFuture<F> {
        #[pin]
        inner: F,
        settings: Arc<Settings>,
    }
}

// === impl Settings ===

impl Settings {
    /// Sends `status`, non-standard ones included, and the upstream's own in `original_status_header` if there is one.
    #[must_use]
    pub fn new(status: StatusCode, original_status_header: Option<HeaderName>) -> Self {
        Self { status, original_status_header }
    }

    fn apply<R>(&self, response: &mut Response<R>) {
        if LocalReply::marks(response) || response.status() == StatusCode::SWITCHING_PROTOCOLS {
            return;
        }
        if let Some(name) = &self.original_status_header {
            let original = ["[", response.status().as_str(), "]"].concat();
            // Digits and brackets are always a header value; a full map goes without.
            if let Ok(original) = HeaderValue::try_from(original) {
                let _ = response.headers_mut().try_insert(name, original);
            }
        }
        *response.status_mut() = self.status;
    }
}

// === impl SetStatusLayer ===

impl SetStatusLayer {
    /// Replaces statuses as `settings` say.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self { settings: Arc::new(settings) }
    }
}

impl<S> Layer<S> for SetStatusLayer {
    type Service = SetStatus<S>;

    fn layer(&self, inner: S) -> Self::Service {
        SetStatus { settings: Arc::clone(&self.settings), inner }
    }
}

// === impl SetStatus ===

impl<S, B, R> Service<Request<B>> for SetStatus<S>
where
    S: Service<Request<B>, Response = Response<R>>,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = ResponseFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        ResponseFuture { inner: self.inner.call(request), settings: Arc::clone(&self.settings) }
    }
}

// === impl ResponseFuture ===

impl<F, R, E> Future for ResponseFuture<F>
where
    F: Future<Output = Result<Response<R>, E>>,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let mut response = ready!(this.inner.poll(cx))?;
        this.settings.apply(&mut response);
        Poll::Ready(Ok(response))
    }
}
