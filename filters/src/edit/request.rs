//! Edits of requests, as filters call them.

use super::header::RequestHeader;
use super::path::PathEdit;
use super::query::QueryEdit;
use super::target::TargetEdit;
use super::{Edit, EditError, Kind};

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
    /// so `.*` matches a path twice. Parameters behind a `?` in the replacement stand before those of the request.
    ///
    /// # Errors
    /// What [`JavaRegex`](tollgate_java_regex::JavaRegex) refuses; a replacement that Java would fail on, or that holds
    /// `#`.
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

    /// `AddRequestHeadersIfNotPresent`: adds the values of each header of which the request has none that is not blank.
    /// Values may hold variables; a header that stands there twice gets both.
    ///
    /// # Errors
    /// As [`Self::add_request_header`].
    pub fn add_request_headers_if_not_present<'p>(
        headers: impl IntoIterator<Item = (&'p str, &'p str)>,
    ) -> Result<Self, EditError> {
        RequestHeader::add_if_not_present(headers).map(|edit| Self(Kind::RequestHeader(edit)))
    }

    /// `MapRequestHeader`: adds all values of the header `from` to those of the header `to`.
    ///
    /// # Errors
    /// What is no header name, and the two headers that frame a message as `to`.
    pub fn map_request_header(from: &str, to: &str) -> Result<Self, EditError> {
        RequestHeader::map(from, to).map(|edit| Self(Kind::RequestHeader(edit)))
    }

    /// `SetRequestHostHeader`: sends `host`, which may hold variables, as `Host` upstream. A variable that makes it no
    /// host is answered 400.
    ///
    /// # Errors
    /// What is no `host` or `host:port`.
    pub fn set_request_host_header(host: &str) -> Result<Self, EditError> {
        RequestHeader::host(host).map(|edit| Self(Kind::RequestHeader(edit)))
    }

    /// `PreserveHostHeader`: sets [`RequestContext::preserve_host`](crate::context::RequestContext::preserve_host).
    #[must_use]
    pub fn preserve_host_header() -> Self {
        Self(Kind::PreserveHostHeader)
    }

    /// `AddRequestParameter`: adds `name=value` behind the query. The value may hold variables; what cannot stand in a
    /// query is encoded, escapes stay.
    ///
    /// # Errors
    /// An empty name.
    pub fn add_request_parameter(name: &str, value: &str) -> Result<Self, EditError> {
        QueryEdit::add(name, value).map(|edit| Self(Kind::Query(edit)))
    }

    /// `RemoveRequestParameter`: removes all parameters of that name.
    ///
    /// # Errors
    /// An empty name.
    pub fn remove_request_parameter(name: &str) -> Result<Self, EditError> {
        QueryEdit::remove(name).map(|edit| Self(Kind::Query(edit)))
    }

    /// `RewriteRequestParameter`: replaces all parameters of that name, if there are any, by one behind the others. Its
    /// value is `replacement` as it stands there, decoded.
    ///
    /// # Errors
    /// An empty name.
    pub fn rewrite_request_parameter(name: &str, replacement: &str) -> Result<Self, EditError> {
        QueryEdit::rewrite(name, replacement).map(|edit| Self(Kind::Query(edit)))
    }

    /// `SetRequestUri`: sends the request to `template`, which may hold variables, path and query included. A variable
    /// where the host stands lets clients choose among all hosts that the gateway reaches.
    ///
    /// # Errors
    /// None today: what comes to be no absolute `http` or `https` URI leaves the route's target, as in Spring.
    pub fn set_request_uri(template: &str) -> Result<Self, EditError> {
        Ok(Self(Kind::Target(TargetEdit::template(template))))
    }

    /// `RequestHeaderToRequestUri`: sends the request to the URI in the first value of the header `name`, if that is an
    /// absolute `http` or `https` one without a login.
    ///
    /// Whoever can set the header reaches with it every server that the gateway reaches, those behind a firewall too
    /// (server-side request forgery): let it be set by somebody trusted before the gateway alone.
    ///
    /// # Errors
    /// What is no header name.
    pub fn request_header_to_request_uri(name: &str) -> Result<Self, EditError> {
        TargetEdit::header(name).map(|edit| Self(Kind::Target(edit)))
    }
}
