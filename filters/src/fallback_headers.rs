//! Adds the cause of a fallback to request headers: Spring Cloud Gateway's `FallbackHeaders`.
//!
//! This layer belongs in the stack of the fallback route of a [`CircuitBreaker`](crate::circuit_breaker). It appends four
//! headers to a request with a [`FallbackCause`]: the classes and messages of the Java exceptions that Spring would have
//! caught. Other requests are unchanged. Rejects no request.
//!
//! ```
//! use http::Request;
//! use tollgate_filters::fallback_headers::{FallbackHeadersLayer, HeaderNames};
//! use tollgate_filters::fault::{FallbackCause, Fault};
//! use tower::{Layer, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let fallback = service_fn(|request: Request<()>| async move {
//!     Ok::<_, std::convert::Infallible>(request.headers()["execution-exception-type"].clone())
//! });
//! let (execution, root) = Fault::Unreachable.exceptions();
//! let request = Request::builder().extension(FallbackCause { execution, root }).body(())?;
//! let class = FallbackHeadersLayer::new(HeaderNames::default()).layer(fallback).oneshot(request).await?;
//! assert_eq!(class, "java.net.ConnectException");
//! # Ok(())
//! # }
//! ```

use std::sync::Arc;
use std::task::{Context, Poll};

use http::{HeaderMap, HeaderName, HeaderValue, Request};
use tower::{Layer, Service};

use crate::fault::FallbackCause;

/// The names of the headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderNames {
    /// Class of the exception that the breaker caught (`executionExceptionTypeHeaderName`).
    pub execution_type: HeaderName,
    /// Message of that exception (`executionExceptionMessageHeaderName`).
    pub execution_message: HeaderName,
    /// Class of its root cause (`rootCauseExceptionTypeHeaderName`).
    pub root_type: HeaderName,
    /// Message of its root cause (`rootCauseExceptionMessageHeaderName`).
    pub root_message: HeaderName,
}

/// Wraps services in [`FallbackHeaders`].
#[derive(Clone, Debug)]
pub struct FallbackHeadersLayer {
    names: Arc<HeaderNames>,
}

/// Adds the cause of a fallback to request headers. See the [module](self).
#[derive(Clone, Debug)]
pub struct FallbackHeaders<S> {
    names: Arc<HeaderNames>,
    inner: S,
}

// === impl HeaderNames ===

impl Default for HeaderNames {
    fn default() -> Self {
        Self {
            execution_type: HeaderName::from_static("execution-exception-type"),
            execution_message: HeaderName::from_static("execution-exception-message"),
            root_type: HeaderName::from_static("root-cause-exception-type"),
            root_message: HeaderName::from_static("root-cause-exception-message"),
        }
    }
}

impl HeaderNames {
    fn write(&self, cause: &FallbackCause, headers: &mut HeaderMap) {
        for (name, text) in [
            (&self.execution_type, cause.execution.class),
            (&self.execution_message, &cause.execution.message),
            (&self.root_type, cause.root.class),
            (&self.root_message, &cause.root.message),
        ] {
            if let Ok(value) = HeaderValue::from_str(text) {
                // A full map does not get the header.
                let _ = headers.try_append(name, value);
            }
        }
    }
}

// === impl FallbackHeadersLayer ===

impl FallbackHeadersLayer {
    /// Creates a layer that adds headers with these names.
    #[must_use]
    pub fn new(names: HeaderNames) -> Self {
        Self { names: Arc::new(names) }
    }
}

impl<S> Layer<S> for FallbackHeadersLayer {
    type Service = FallbackHeaders<S>;

    fn layer(&self, inner: S) -> Self::Service {
        FallbackHeaders { names: Arc::clone(&self.names), inner }
    }
}

// === impl FallbackHeaders ===

impl<S, B> Service<Request<B>> for FallbackHeaders<S>
where
    S: Service<Request<B>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        if let Some(cause) = request.extensions().get::<FallbackCause>().cloned() {
            self.names.write(&cause, request.headers_mut());
        }
        self.inner.call(request)
    }
}
