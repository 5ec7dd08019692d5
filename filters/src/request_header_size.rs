//! Limits the size of each request header: Spring Cloud Gateway's `RequestHeaderSize`.
//!
//! The size of a header is that of its name and all of its values. A request with a larger header gets a 431 without a
//! body; a response header lists the names, in lower case, and the sizes. The response carries [`LocalReply`] with the
//! reason `request-header-too-large`. Costs one addition per header.
//!
//! ```
//! use bytes::Bytes;
//! use http::{Request, Response, StatusCode};
//! use http_body_util::Full;
//! use tollgate_filters::request_header_size::{RequestHeaderSizeLayer, Settings};
//! use tower::{Layer, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let upstream = service_fn(|_: Request<()>| async {
//!     Ok::<_, std::convert::Infallible>(Response::new(Full::<Bytes>::default()))
//! });
//! let request = Request::builder().header("x", "123456").body(())?;
//! let response = RequestHeaderSizeLayer::new(Settings::new(6)).layer(upstream).oneshot(request).await?;
//! assert_eq!(response.status(), StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
//! # Ok(())
//! # }
//! ```

use std::fmt::Write as _;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode};

use crate::context::LocalReply;
use crate::refusal_body::ReplyBody;
use crate::request_filter::{RequestFilter, RequestFilterLayer};

/// The limit, and the response header for the message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    max_bytes: u64,
    error_header: HeaderName,
}

/// Limits the size of each request header. See the [module](self).
pub type RequestHeaderSizeLayer = RequestFilterLayer<Arc<Settings>>;

// === impl Settings ===

impl Settings {
    /// Allows headers of up to `max_bytes` bytes, name and values together. Spring's default is 16,000. The message for
    /// the client is in `errorMessage`.
    #[must_use]
    pub fn new(max_bytes: u64) -> Self {
        Self { max_bytes, error_header: HeaderName::from_static("errormessage") }
    }

    /// Puts the message for the client in the header `name`.
    #[must_use]
    pub fn error_header(self, name: HeaderName) -> Self {
        Self { error_header: name, ..self }
    }

    /// Returns the message for the client as an error if a header is too large.
    fn verify(&self, headers: &HeaderMap) -> Result<(), String> {
        let mut message = String::new();
        for name in headers.keys() {
            let values: usize = headers.get_all(name).iter().map(HeaderValue::len).sum();
            let bytes = (name.as_str().len() + values) as u64;
            if bytes > self.max_bytes {
                if message.is_empty() {
                    let limit = self.max_bytes;
                    message = format!("Request Header/s size is larger than permissible limit ({limit}B).");
                }
                // Writing to a String cannot fail.
                let _ = write!(message, " Request Header/s size for '{name}' is {bytes}B.");
            }
        }
        if message.is_empty() { Ok(()) } else { Err(message) }
    }

    fn too_large<R: From<Bytes>>(&self, message: String) -> Response<R> {
        // Header names are visible ASCII, so the message is a valid header value.
        let message = HeaderValue::try_from(message).ok().map(|message| (self.error_header.clone(), message));
        let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
        LocalReply::empty(status, "request-header-too-large", HeaderMap::from_iter(message))
    }
}

impl<R: ReplyBody> RequestFilter<Response<R>> for Arc<Settings> {
    fn filter<B>(&self, request: &mut Request<B>) -> Option<Response<R>> {
        self.verify(request.headers()).err().map(|message| self.too_large(message))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    fn verify(max_bytes: u64, headers: &[(&'static str, &'static str)]) -> Result<(), String> {
        let headers: HeaderMap = headers
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect();
        Settings::new(max_bytes).verify(&headers)
    }

    #[test]
    fn the_size_of_a_header_is_that_of_its_name_and_all_values() {
        assert_eq!(verify(4, &[("x", "123"), ("y", "123"), ("z", "")]), Ok(()));
        assert_eq!(
            verify(4, &[("x", "12"), ("a", "1"), ("x", "34")]),
            Err("Request Header/s size is larger than permissible limit (4B). Request Header/s size for 'x' is 5B."
                .to_owned())
        );
        assert_eq!(
            verify(1, &[("x", "1"), ("y", ""), ("z", "22")]),
            Err("Request Header/s size is larger than permissible limit (1B). Request Header/s size for 'x' is 2B. \
                 Request Header/s size for 'z' is 3B."
                .to_owned())
        );
    }

    #[test]
    fn the_message_is_in_the_configured_header() {
        let settings = Settings::new(1).error_header(HeaderName::from_static("x-why"));
        let response: Response<Bytes> = settings.too_large("too large".to_owned());
        assert_eq!(response.status(), 431);
        assert_eq!(response.headers()["x-why"], "too large");
        assert!(LocalReply::marks(&response));
    }
}
