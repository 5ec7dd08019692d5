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

use http::{HeaderMap, HeaderName, HeaderValue, Request};

use crate::fault::FallbackCause;
use crate::request_filter::{RequestFilter, RequestFilterLayer};

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

/// Adds the cause of a fallback to request headers. See the [module](self).
pub type FallbackHeadersLayer = RequestFilterLayer<Arc<HeaderNames>>;

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

impl<P> RequestFilter<P> for Arc<HeaderNames> {
    fn filter<B>(&self, request: &mut Request<B>) -> Option<P> {
        if let Some(cause) = request.extensions().get::<FallbackCause>().cloned() {
            self.write(&cause, request.headers_mut());
        }
        None
    }
}
