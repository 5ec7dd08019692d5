//! Pure edits of headers and paths as data, a run of them applied by one service: Spring Cloud Gateway's
//! `AddRequestHeader`, `StripPrefix`, `SetResponseHeader` and their kin.
//!
//! Requests are edited first to last on the way in, responses last to first on the way out. Responses marked
//! [`LocalReply`] are left alone. Refused are requests that an edit cannot be applied to: with 500 when a value names
//! a URI variable that the route has none of, with 400 when the client's own variable or path cannot stand where the
//! edit puts it. An edit that does not apply costs a look-up and no allocation; a changed path costs one or two.
//!
//! ## Variables
//! `{name}` in a value is the URI template variable of that name from [`RequestContext::variables`], encoded in paths
//! as the client wrote it, decoded in headers. `{name:regex}` means the same. Braces around anything that is no name
//! (letters, digits, `_`, `-`, `.`) are plain text, JSON for one. Spring differs in two corners: it fails on such
//! text, and it turns `//` in a value with variables into `/`.
//!
//! ## Paths
//! Edits see the raw path and never the query, which stays. Only paths that begin with `/` are edited, not the `*` of
//! OPTIONS. Where Spring answers 500 because a result does not begin with `/`, the slash is added.
//!
//! ```
//! use bytes::Bytes;
//! use http::{Request, Response, StatusCode};
//! use http_body_util::Full;
//! use tollgate_filters::edit::{Edit, EditLayer};
//! use tower::{Layer, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let layer = EditLayer::new([Edit::strip_prefix(1)?, Edit::add_response_header("x-served-by", "tollgate", true)?]);
//! let upstream = service_fn(|request: Request<()>| async move {
//!     assert_eq!(request.uri(), "/orders/7?full=1");
//!     Ok::<_, std::convert::Infallible>(Response::new(Full::<Bytes>::default()))
//! });
//! let request = Request::builder().uri("/api/orders/7?full=1").body(())?;
//! let response = layer.layer(upstream).oneshot(request).await?;
//! assert_eq!(response.status(), StatusCode::OK);
//! assert_eq!(response.headers()["x-served-by"], "tollgate");
//! # Ok(())
//! # }
//! ```
//!
//! [`LocalReply`]: crate::context::LocalReply
//! [`RequestContext::variables`]: crate::context::RequestContext::variables

mod error;
mod header;
mod layer;
mod path;
mod rewrite;
mod template;

pub use self::error::EditError;
use self::header::{RequestHeader, ResponseHeader};
pub use self::layer::{EditLayer, Edited, ResponseFuture};
use self::path::PathEdit;

/// One edit of a request or a response. See the [module](self).
#[derive(Clone, Debug)]
pub struct Edit(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Path(PathEdit),
    RequestHeader(RequestHeader),
    ResponseHeader(ResponseHeader),
    PreserveHostHeader,
}

/// Why an edit could not be applied to one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    /// A value names a variable that the request has none of: the configuration's mistake.
    UnknownVariable,
    /// What the client sent cannot stand where the edit puts it.
    BadValue,
}

// === impl Edit ===

impl Edit {
    /// `StripPrefix`: drops the first `parts` segments of the path. Empty segments are not counted and not kept; a
    /// slash at the end stays unless nothing else does, and dropping more than there is leaves `/`.
    ///
    /// # Errors
    /// None today.
    pub fn strip_prefix(parts: u32) -> Result<Self, EditError> {
        Ok(Self(Kind::Path(PathEdit::strip_prefix(parts))))
    }

    /// `PrefixPath`: puts `prefix`, which may hold variables, before the path. Applies once a request: a second one,
    /// of the route's after a default filter's, does nothing.
    ///
    /// # Errors
    /// A prefix that does not begin with `/` or a variable, or holds `?` or `#`.
    pub fn prefix_path(prefix: &str) -> Result<Self, EditError> {
        PathEdit::prefix(prefix).map(|edit| Self(Kind::Path(edit)))
    }

    /// `SetPath`: replaces the path by `template`, which may hold variables.
    ///
    /// # Errors
    /// A template that does not begin with `/` or a variable, or holds `?` or `#`.
    pub fn set_path(template: &str) -> Result<Self, EditError> {
        PathEdit::set(template).map(|edit| Self(Kind::Path(edit)))
    }

    /// `RewritePath`: replaces every match of `regexp` in the path by `replacement`, as Java's `String.replaceAll` does:
    /// unanchored, `$1` and `${name}` for groups `(…)` and `(?<name>…)`, `\` before what is meant literally. `$\` means
    /// `$`, for YAML in which `${name}` would be a placeholder. As in Java an empty match right behind another counts,
    /// so `.*` matches a path twice.
    ///
    /// # Errors
    /// A pattern with what linear-time matching cannot do (look-around, back-references, possessive quantifiers) or
    /// that is none; a replacement that Java would fail on, or that holds `?` or `#`.
    pub fn rewrite_path(regexp: &str, replacement: &str) -> Result<Self, EditError> {
        PathEdit::rewrite(regexp, replacement).map(|edit| Self(Kind::Path(edit)))
    }

    /// `AddRequestHeader`: adds a value, which may hold variables, behind those that the client sent.
    ///
    /// # Errors
    /// What is no header name or value, and the two headers that frame a message.
    pub fn add_request_header(name: &str, value: &str) -> Result<Self, EditError> {
        RequestHeader::add(name, value).map(|edit| Self(Kind::RequestHeader(edit)))
    }

    /// `SetRequestHeader`: replaces all values.
    ///
    /// # Errors
    /// As [`Self::add_request_header`].
    pub fn set_request_header(name: &str, value: &str) -> Result<Self, EditError> {
        RequestHeader::set(name, value).map(|edit| Self(Kind::RequestHeader(edit)))
    }

    /// `RemoveRequestHeader`: removes all values.
    ///
    /// # Errors
    /// What is no header name.
    pub fn remove_request_header(name: &str) -> Result<Self, EditError> {
        RequestHeader::remove(name).map(|edit| Self(Kind::RequestHeader(edit)))
    }

    /// `AddResponseHeader`: adds a value behind those that the upstream sent; unless `override_existing` (Spring's
    /// `override`, by default true) only if it sent none that is not blank.
    ///
    /// # Errors
    /// As [`Self::add_request_header`].
    pub fn add_response_header(name: &str, value: &str, override_existing: bool) -> Result<Self, EditError> {
        ResponseHeader::add(name, value, override_existing).map(|edit| Self(Kind::ResponseHeader(edit)))
    }

    /// `SetResponseHeader`: replaces all values.
    ///
    /// # Errors
    /// As [`Self::add_request_header`].
    pub fn set_response_header(name: &str, value: &str) -> Result<Self, EditError> {
        ResponseHeader::set(name, value).map(|edit| Self(Kind::ResponseHeader(edit)))
    }

    /// `RemoveResponseHeader`: removes all values.
    ///
    /// # Errors
    /// What is no header name.
    pub fn remove_response_header(name: &str) -> Result<Self, EditError> {
        ResponseHeader::remove(name).map(|edit| Self(Kind::ResponseHeader(edit)))
    }

    /// `PreserveHostHeader`: sets [`RequestContext::preserve_host`](crate::context::RequestContext::preserve_host).
    #[must_use]
    pub fn preserve_host_header() -> Self {
        Self(Kind::PreserveHostHeader)
    }

    /// Whether a value holds a URI variable, so that the request needs the route's.
    #[must_use]
    pub fn needs_variables(&self) -> bool {
        match &self.0 {
            Kind::Path(edit) => edit.needs_variables(),
            Kind::RequestHeader(edit) => edit.needs_variables(),
            Kind::ResponseHeader(edit) => edit.needs_variables(),
            Kind::PreserveHostHeader => false,
        }
    }

    /// The names of the URI variables in its value: a request that lacks one of them is answered 500.
    #[must_use]
    pub fn variables(&self) -> Vec<&str> {
        match &self.0 {
            Kind::Path(edit) => edit.variables(),
            Kind::RequestHeader(edit) => edit.variables(),
            Kind::ResponseHeader(edit) => edit.variables(),
            Kind::PreserveHostHeader => Vec::new(),
        }
    }

    /// Whether this edits requests; otherwise responses.
    #[must_use]
    pub fn is_request_side(&self) -> bool {
        !matches!(self.0, Kind::ResponseHeader(_))
    }
}
