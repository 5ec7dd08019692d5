//! Responds with a redirect without calling the upstream: Spring Cloud Gateway's `RedirectTo`.
//!
//! The response has the configured 3xx status, an empty body and `Location` exactly as configured. With
//! `include_request_params` the request's query is appended unchanged to the URL's query, before its fragment. The
//! response carries [`LocalReply`] with the reason `redirect` and no `Cache-Control`. Filters before this layer apply;
//! filters after it never run.
//!
//! ```
//! use bytes::Bytes;
//! use http::{Request, Response, StatusCode};
//! use http_body_util::Full;
//! use tollgate_filters::redirect_to::{RedirectToLayer, Settings};
//! use tower::{Layer, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let settings = Settings::new(StatusCode::FOUND, "https://example.org/new#top", true)?;
//! let upstream = service_fn(|_: Request<()>| async {
//!     Ok::<_, std::convert::Infallible>(Response::new(Full::<Bytes>::default()))
//! });
//! let request = Request::builder().uri("/old?page=2").body(())?;
//! let response = RedirectToLayer::new(settings).layer(upstream).oneshot(request).await?;
//! assert_eq!(response.status(), StatusCode::FOUND);
//! assert_eq!(response.headers()["location"], "https://example.org/new?page=2#top");
//! # Ok(())
//! # }
//! ```

use std::sync::Arc;

use http::header::LOCATION;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use thiserror::Error;

use crate::context::LocalReply;
use crate::refusal_body::ReplyBody;
use crate::request_filter::{RequestFilter, RequestFilterLayer};

/// The status and the target of a redirect.
#[derive(Clone, Debug)]
pub struct Settings {
    status: StatusCode,
    /// The complete URL, for requests without parameters to append.
    location: HeaderValue,
    /// The URL before and after the position of the request's parameters.
    around_params: Option<(String, String)>,
}

/// An invalid redirect.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RedirectToError {
    /// A status other than 3xx.
    #[error("`status` of a redirect must be 300 to 399, got {0}")]
    Status(u16),
    /// A URL that is empty or contains characters other than visible ASCII.
    #[error("`{0}` is not a URL: write one without spaces, and percent-encode other characters")]
    Url(String),
}

/// Responds to every request with a redirect. See the [module](self).
pub type RedirectToLayer = RequestFilterLayer<Arc<Settings>>;

// === impl Settings ===

impl Settings {
    /// Redirects with `status` to `url`, which may be relative. If `include_request_params` is true, the request's query
    /// is appended.
    ///
    /// # Errors
    /// See [`RedirectToError`].
    pub fn new(status: StatusCode, url: &str, include_request_params: bool) -> Result<Self, RedirectToError> {
        if !status.is_redirection() {
            return Err(RedirectToError::Status(status.as_u16()));
        }
        let bad_url = || RedirectToError::Url(url.to_owned());
        if url.is_empty() || !url.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(bad_url());
        }
        let location = HeaderValue::from_str(url).map_err(|_| bad_url())?;
        let around_params = include_request_params.then(|| {
            let (base, fragment) = url.split_at(url.find('#').unwrap_or(url.len()));
            let separator = match base.find('?') {
                None => "?",
                Some(_) if base.ends_with(['?', '&']) => "",
                Some(_) => "&",
            };
            (format!("{base}{separator}"), fragment.to_owned())
        });
        Ok(Self { status, location, around_params })
    }

    fn location(&self, query: Option<&str>) -> HeaderValue {
        match (&self.around_params, query) {
            (Some((before, after)), Some(query)) if !query.is_empty() => {
                // A query that is not a valid header value is omitted.
                let url = [before.as_str(), query, after.as_str()].concat();
                HeaderValue::try_from(url).unwrap_or_else(|_| self.location.clone())
            }
            _ => self.location.clone(),
        }
    }
}

impl<R: ReplyBody> RequestFilter<Response<R>> for Arc<Settings> {
    fn filter<B>(&self, request: &mut Request<B>) -> Option<Response<R>> {
        let headers = [(LOCATION, self.location(request.uri().query()))];
        Some(LocalReply::empty(self.status, "redirect", HeaderMap::from_iter(headers)))
    }
}
