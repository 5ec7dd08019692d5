//! Edits of requests and responses: Spring Cloud Gateway's `AddRequestHeader`, `StripPrefix`, `SetResponseHeader` and
//! similar filters. One service applies a sequence of edits.
//!
//! Requests are edited first to last, responses last to first. Responses with [`LocalReply`] are unchanged. If an edit
//! fails, the request is rejected. The status is 500 if a value names a URI variable that the route does not have, or if a
//! regular expression takes too long. It is 400 if the client's variable or path is invalid in its new position. An edit that does
//! not apply costs a look-up and no allocation; a changed path costs one or two allocations.
//!
//! ## Variables
//! `{name}` in a value is the URI template variable of that name from [`RequestContext::variables`]. Its value is encoded
//! in paths as the client sent it, and decoded in headers. `{name:regex}` means the same. A name has letters, digits, `_`,
//! `-` and `.`; braces around other text, such as JSON, are literal. Spring differs in two cases: it fails on such text,
//! and it turns `//` in a value with variables into `/`.
//!
//! ## Paths
//! Edits apply to the raw path and do not change the query. Only paths that start with `/` are edited, not the `*` of
//! OPTIONS. If a result does not start with `/`, the slash is added; Spring responds with 500.
//!
//! ## Queries
//! Adding a parameter does not change the others. Removing or rewriting an existing one re-encodes all parameters
//! strictly, with equal names side by side, as Spring does. Spring differs in three cases: it re-encodes even if the
//! parameter is missing, it fails on an invalid escape, which is literal here, and it lets a variable's `&` and `=` create
//! parameters.
//!
//! ## Targets
//! `SetRequestUri` and `RequestHeaderToRequestUri` set a [`TargetUri`], which replaces the route's target. They belong
//! after all other filters ([`Edit::runs_last`]). A variable in the query of `SetRequestUri` is one encoded value. If the result is not a valid target, the route's target is used.
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

use crate::percent;

pub use self::error::EditError;
use self::header::RequestHeader;
pub use self::layer::{EditFilter, EditLayer};
pub use self::location::{LocationSettings, StripVersion};
use self::path::PathEdit;
use self::query::QueryEdit;
pub use self::response::DedupeStrategy;
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

// === impl Edit ===

impl Edit {
    /// Returns true if a value contains a URI variable.
    #[must_use]
    pub fn needs_variables(&self) -> bool {
        !self.variables().is_empty()
    }

    /// Returns the names of the URI variables in its values. A request without one of them gets a 500.
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

    /// Returns true if this edits requests, false if it edits responses.
    #[must_use]
    pub fn is_request_side(&self) -> bool {
        self.0.as_response_edit().is_none()
    }

    /// Returns true if it may change the path of requests.
    #[must_use]
    pub fn changes_path(&self) -> bool {
        match &self.0 {
            Kind::Path(_) | Kind::Target(_) => true,
            Kind::Query(_) | Kind::RequestHeader(_) | Kind::PreserveHostHeader | Kind::Response(_) => false,
        }
    }

    /// Returns true if it runs after all other filters, regardless of its position, as in Spring (order 10001).
    #[must_use]
    pub fn runs_last(&self) -> bool {
        matches!(self.0, Kind::Target(_))
    }

    /// Returns the request header that names the target (`RequestHeaderToRequestUri`).
    #[must_use]
    pub fn target_header(&self) -> Option<&HeaderName> {
        if let Kind::Target(TargetEdit::Header(name)) = &self.0 { Some(name) } else { None }
    }

    /// Returns the request header that it copies to another one (`MapRequestHeader`).
    #[must_use]
    pub fn copied_header(&self) -> Option<&HeaderName> {
        if let Kind::RequestHeader(RequestHeader::Map { from, .. }) = &self.0 { Some(from) } else { None }
    }

    /// Returns the names of the request's header fields that it reads, sets or removes, except `Host`.
    #[must_use]
    pub fn request_headers(&self) -> Vec<&HeaderName> {
        match &self.0 {
            Kind::RequestHeader(edit) => edit.names(),
            Kind::Target(TargetEdit::Header(name)) => vec![name],
            Kind::Path(_) | Kind::Query(_) | Kind::PreserveHostHeader | Kind::Target(_) | Kind::Response(_) => {
                Vec::new()
            }
        }
    }

    /// Returns the name of the request's header field that it removes.
    #[must_use]
    pub fn removed_header(&self) -> Option<&HeaderName> {
        if let Kind::RequestHeader(edit) = &self.0 { edit.removed() } else { None }
    }

    /// Returns the name of the request's header field that it sets to the same value for all requests.
    #[must_use]
    pub fn fixed_header(&self) -> Option<&HeaderName> {
        if let Kind::RequestHeader(edit) = &self.0 { edit.fixed() } else { None }
    }

    /// Returns the names of the request's header fields that it may set.
    #[must_use]
    pub fn set_headers(&self) -> Vec<&HeaderName> {
        if let Kind::RequestHeader(edit) = &self.0 { edit.written() } else { Vec::new() }
    }

    /// Returns true if it removes the parameter `name` of the query.
    #[must_use]
    pub fn removes_parameter(&self, name: &str) -> bool {
        matches!(&self.0, Kind::Query(QueryEdit::Remove { name: removed }) if removed == name.as_bytes())
    }

    /// Returns true if it adds the parameter `name` to the query.
    #[must_use]
    pub fn adds_parameter(&self, name: &str) -> bool {
        matches!(&self.0, Kind::Query(QueryEdit::Add { name: added, .. })
            if percent::decode(added.as_bytes(), true).eq(name.bytes()))
    }

    /// Returns true if it gives the parameter `name` of the query the same value for all requests that have it.
    #[must_use]
    pub fn fixes_parameter(&self, name: &str) -> bool {
        matches!(&self.0, Kind::Query(QueryEdit::Rewrite { name: fixed, .. }) if fixed == name.as_bytes())
    }

    /// Returns true if its regular expression may match differently from Java
    /// ([`JavaRegex::repeats_empty_match`](tollgate_java_regex::JavaRegex::repeats_empty_match)).
    #[must_use]
    pub fn differs_from_java(&self) -> bool {
        match &self.0 {
            Kind::Path(PathEdit::Rewrite(rewrite)) => rewrite.differs_from_java(),
            Kind::Response(ResponseEdit::Rewrite(edit)) => edit.rewrite().differs_from_java(),
            Kind::Path(PathEdit::Strip { .. } | PathEdit::Prefix(_) | PathEdit::Set(_)) => false,
            Kind::Response(ResponseEdit::Header(_) | ResponseEdit::Dedupe(_) | ResponseEdit::Location(_)) => false,
            Kind::Query(_) | Kind::RequestHeader(_) | Kind::PreserveHostHeader | Kind::Target(_) => false,
        }
    }

    /// Returns true for `PrefixPath`, which applies at most once per request.
    #[must_use]
    pub fn is_prefix_path(&self) -> bool {
        matches!(self.0, Kind::Path(PathEdit::Prefix(_)))
    }

    /// Returns true if it removes duplicates of the response header `name`.
    #[must_use]
    pub fn deduplicates(&self, name: &HeaderName) -> bool {
        matches!(&self.0, Kind::Response(ResponseEdit::Dedupe(edit)) if edit.names().contains(name))
    }

    /// Returns the response header to which it adds a value unconditionally.
    #[must_use]
    pub fn added_response_header(&self) -> Option<&HeaderName> {
        if let Kind::Response(ResponseEdit::Header(edit)) = &self.0 { edit.added_header() } else { None }
    }

    /// Returns true if it changes `Host`, which is forwarded only if another edit [preserves it](Self::preserves_host).
    #[must_use]
    pub fn touches_host(&self) -> bool {
        matches!(&self.0, Kind::RequestHeader(edit) if edit.touches_host())
    }

    /// Returns true if it makes the gateway forward the request's `Host`.
    #[must_use]
    pub fn preserves_host(&self) -> bool {
        matches!(self.0, Kind::PreserveHostHeader | Kind::RequestHeader(RequestHeader::Host(_)))
    }
}

// === impl Kind ===

impl Kind {
    fn as_response_edit(&self) -> Option<&ResponseEdit> {
        if let Self::Response(edit) = self { Some(edit) } else { None }
    }
}
