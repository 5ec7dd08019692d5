//! Answers with a redirect and asks no upstream: Spring Cloud Gateway's `RedirectTo`.
//!
//! Always answers, with the configured 3xx status, an empty body and `Location` exactly as configured; with
//! `include_request_params` the request's query, as the client wrote it, is appended to the URL's own, before its
//! fragment. The response carries [`LocalReply`] with the reason `redirect`, and `Cache-Control` is left to the status.
//! Stand it where the redirect should be decided: filters before it still apply, those behind it never run.
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

use std::future::{Ready, ready};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, LOCATION};
use http::{HeaderValue, Request, Response, StatusCode};
use thiserror::Error;
use tower::{Layer, Service};

use crate::context::LocalReply;

/// Where to send clients.
#[derive(Clone, Debug)]
pub struct Settings {
    status: StatusCode,
    /// The URL whole, for requests that have nothing to append.
    location: HeaderValue,
    /// The URL before and behind the place where the request's parameters go.
    around_params: Option<(String, String)>,
}

/// A redirect that cannot be sent.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RedirectToError {
    /// The status is no redirect.
    #[error("`status` of a redirect must be 300 to 399, got {0}")]
    Status(u16),
    /// The URL is empty or holds what `Location` cannot.
    #[error("`{0}` is not a URL, write one without spaces and with other characters percent-encoded")]
    Url(String),
}

/// Puts a [`RedirectTo`] in place of a service.
#[derive(Clone, Debug)]
pub struct RedirectToLayer {
    settings: Arc<Settings>,
}

/// Answers every request with a redirect. See the [module](self).
#[derive(Clone, Debug)]
pub struct RedirectTo<S> {
    settings: Arc<Settings>,
    /// Never called; names the types of response and error.
    inner: S,
}

// === impl Settings ===

impl Settings {
    /// Redirects with `status` to `url`, which may be relative; appends the request's query if
    /// `include_request_params`.
    ///
    /// # Errors
    /// A status that is not 3xx; a URL that is empty or not written in visible ASCII.
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
            let joint = match base.find('?') {
                None => "?",
                Some(_) if base.ends_with(['?', '&']) => "",
                Some(_) => "&",
            };
            (format!("{base}{joint}"), fragment.to_owned())
        });
        Ok(Self { status, location, around_params })
    }

    fn location(&self, query: Option<&str>) -> HeaderValue {
        match (&self.around_params, query) {
            (Some((before, behind)), Some(query)) if !query.is_empty() => {
                // A query that no header can hold is left out rather than the redirect.
                let url = [before.as_str(), query, behind.as_str()].concat();
                HeaderValue::try_from(url).unwrap_or_else(|_| self.location.clone())
            }
            _ => self.location.clone(),
        }
    }
}

// === impl RedirectToLayer ===

impl RedirectToLayer {
    /// Redirects as `settings` say.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self { settings: Arc::new(settings) }
    }
}

impl<S> Layer<S> for RedirectToLayer {
    type Service = RedirectTo<S>;

    fn layer(&self, inner: S) -> Self::Service {
        RedirectTo { settings: Arc::clone(&self.settings), inner }
    }
}

// === impl RedirectTo ===

impl<S, B, R> Service<Request<B>> for RedirectTo<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: From<Bytes>,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = Ready<Result<Response<R>, S::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let mut response = Response::new(R::from(Bytes::new()));
        *response.status_mut() = self.settings.status;
        response.headers_mut().insert(LOCATION, self.settings.location(request.uri().query()));
        response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        response.extensions_mut().insert(LocalReply { reason: "redirect" });
        ready(Ok(response))
    }
}
