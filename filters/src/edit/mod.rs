//! Pure edits of headers and paths as data, a run of them applied by one service: Spring Cloud Gateway's
//! `AddRequestHeader`, `StripPrefix`, `SetResponseHeader` and their kin.
//!
//! Requests are edited first to last on the way in, responses last to first on the way out. Responses marked
//! [`LocalReply`] are left alone. Refused are requests that an edit cannot be applied to: with 500 when a value names
//! a URI variable that the route has none of, or a regular expression takes too long, with 400 when the client's own
//! variable or path cannot stand where the edit puts it. An edit that does not apply costs a look-up and no allocation;
//! a changed path costs one or two.
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
//! ## Queries
//! Adding a parameter leaves the others as the client wrote them. Removing or rewriting one that is there encodes all
//! of them anew: strictly, with equal names side by side, as Spring does. In three corners Spring differs: it encodes
//! anew where the parameter is missing too, it fails on a broken escape, which is text here, and it lets a variable's
//! `&` and `=` make parameters of their own.
//!
//! ## Targets
//! `SetRequestUri` and `RequestHeaderToRequestUri` note a [`TargetUri`], which whoever forwards goes to instead. They
//! belong behind all other filters ([`Edit::runs_last`]). What comes to be no target leaves the route's own.
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
//! [`TargetUri`]: crate::context::TargetUri

mod dedupe;
mod error;
mod header;
mod layer;
mod location;
mod path;
mod query;
mod request;
mod response;
mod rewrite;
mod target;
mod template;

use http::HeaderName;

pub use self::dedupe::DedupeStrategy;
pub use self::error::EditError;
use self::header::RequestHeader;
pub use self::layer::{EditLayer, Edited, ResponseFuture};
pub use self::location::{LocationSettings, StripVersion};
use self::path::PathEdit;
use self::query::QueryEdit;
use self::response::ResponseEdit;
use self::target::TargetEdit;

/// One edit of a request or a response. See the [module](self).
#[derive(Clone, Debug)]
pub struct Edit(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Path(PathEdit),
    Query(QueryEdit),
    RequestHeader(RequestHeader),
    PreserveHostHeader,
    Target(TargetEdit),
    Response(ResponseEdit),
}

/// Why an edit could not be applied to one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    /// A value names a variable that the request has none of: the configuration's mistake.
    UnknownVariable,
    /// What the client sent cannot stand where the edit puts it.
    BadValue,
    /// A regular expression took too long.
    TooSlow,
}

// === impl Edit ===

/// What edits are; those of requests and of responses are made in files of their own.
impl Edit {
    /// Whether a value holds a URI variable, so that the request needs the route's.
    #[must_use]
    pub fn needs_variables(&self) -> bool {
        !self.variables().is_empty()
    }

    /// The names of the URI variables in its value: a request that lacks one of them is answered 500.
    #[must_use]
    pub fn variables(&self) -> Vec<&str> {
        match &self.0 {
            Kind::Path(edit) => edit.variables(),
            Kind::Query(edit) => edit.variables(),
            Kind::RequestHeader(edit) => edit.variables(),
            Kind::Target(edit) => edit.variables(),
            Kind::Response(edit) => edit.variables(),
            Kind::PreserveHostHeader => Vec::new(),
        }
    }

    /// Whether this edits requests; otherwise responses.
    #[must_use]
    pub fn is_request_side(&self) -> bool {
        self.0.of_response().is_none()
    }

    /// Whether it belongs behind all other filters, wherever it is listed, as in Spring (order 10001).
    #[must_use]
    pub fn runs_last(&self) -> bool {
        matches!(self.0, Kind::Target(_))
    }

    /// The request header that says where the request goes (`RequestHeaderToRequestUri`).
    #[must_use]
    pub fn target_header(&self) -> Option<&HeaderName> {
        match &self.0 {
            Kind::Target(TargetEdit::Header(name)) => Some(name),
            _ => None,
        }
    }

    /// Whether it rewrites by an expression that may match something else than Java's
    /// ([`JavaRegex::repeats_empty_match`](tollgate_java_regex::JavaRegex::repeats_empty_match)).
    #[must_use]
    pub fn differs_from_java(&self) -> bool {
        match &self.0 {
            Kind::Path(PathEdit::Rewrite(rewrite)) => rewrite.differs_from_java(),
            Kind::Response(ResponseEdit::Rewrite(edit)) => edit.rewrite().differs_from_java(),
            _ => false,
        }
    }

    /// Whether it is a `PrefixPath`, of which a request meets one.
    #[must_use]
    pub fn is_prefix_path(&self) -> bool {
        matches!(self.0, Kind::Path(PathEdit::Prefix(_)))
    }

    /// Whether it removes duplicates of the response header `name`.
    #[must_use]
    pub fn deduplicates(&self, name: &HeaderName) -> bool {
        matches!(&self.0, Kind::Response(ResponseEdit::Dedupe(edit)) if edit.names().contains(name))
    }

    /// The response header that it adds a value to, whatever values it has.
    #[must_use]
    pub fn added_response_header(&self) -> Option<&HeaderName> {
        match &self.0 {
            Kind::Response(ResponseEdit::Header(edit)) => edit.added(),
            _ => None,
        }
    }

    /// Whether it gives `Host` a value that goes upstream only where another edit [preserves it](Self::preserves_host).
    #[must_use]
    pub fn touches_host(&self) -> bool {
        matches!(&self.0, Kind::RequestHeader(edit) if edit.touches_host())
    }

    /// Whether it has the request's own `Host` sent upstream.
    #[must_use]
    pub fn preserves_host(&self) -> bool {
        matches!(self.0, Kind::PreserveHostHeader | Kind::RequestHeader(RequestHeader::Host(_)))
    }
}

// === impl Kind ===

impl Kind {
    fn of_response(&self) -> Option<&ResponseEdit> {
        match self {
            Self::Response(edit) => Some(edit),
            _ => None,
        }
    }
}
