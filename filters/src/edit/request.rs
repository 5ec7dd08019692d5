//! Constructors of request edits.

use super::header::{Action, RequestHeader, parse_name, parse_pair, parse_settable_name};
use super::path::{PathEdit, parse_template};
use super::query::{QueryEdit, required};
use super::target::TargetEdit;
use super::template::Template;
use super::{Edit, EditError, Kind};

impl Edit {
    /// `StripPrefix`: removes the first `parts` segments of the path. Empty segments are removed and not counted. A
    /// trailing slash is kept. If all segments are removed, the path is `/`.
    ///
    /// # Errors
    /// Currently none.
    pub fn strip_prefix(parts: u32) -> Result<Self, EditError> {
        Ok(Self(Kind::Path(PathEdit::Strip { segments: usize::try_from(parts).unwrap_or(usize::MAX) })))
    }

    /// `PrefixPath`: puts `prefix`, which may contain variables, before the path. Applies once per request: if a default
    /// filter has added a prefix, one of the route has no effect.
    ///
    /// # Errors
    /// Returns an error for a prefix that does not start with `/` or a variable, or that contains `?` or `#`.
    pub fn prefix_path(prefix: &str) -> Result<Self, EditError> {
        Ok(Self(Kind::Path(PathEdit::Prefix(parse_template(prefix)?))))
    }

    /// `SetPath`: replaces the path by `template`, which may contain variables.
    ///
    /// # Errors
    /// Returns an error for a template that does not start with `/` or a variable, or that contains `?` or `#`.
    pub fn set_path(template: &str) -> Result<Self, EditError> {
        Ok(Self(Kind::Path(PathEdit::Set(parse_template(template)?))))
    }

    /// `RewritePath`: replaces every match of `regexp` in the path by `replacement`, as Java's `String.replaceAll` does:
    /// unanchored, with `$1` and `${name}` for groups `(…)` and `(?<name>…)`, and `\` before literal characters. `$\`
    /// means `$`, for YAML in which `${name}` would be a placeholder. As in Java, an empty match directly after another
    /// match counts, so `.*` matches a path twice. Parameters after a `?` in the replacement precede those of the request.
    ///
    /// # Errors
    /// Returns an error for an expression that [`JavaRegex`](tollgate_java_regex::JavaRegex) rejects, for a replacement on
    /// which Java would fail, and for one that contains `#`.
    pub fn rewrite_path(regexp: &str, replacement: &str) -> Result<Self, EditError> {
        PathEdit::rewrite(regexp, replacement).map(|edit| Self(Kind::Path(edit)))
    }

    /// `AddRequestHeader`: appends a value, which may contain variables, to those of the client.
    ///
    /// # Errors
    /// Returns an error for an invalid header name or value, and for the two headers that frame messages.
    pub fn add_request_header(name: &str, value: &str) -> Result<Self, EditError> {
        let (name, value) = parse_pair(name, value)?;
        Ok(Self(Kind::RequestHeader(RequestHeader::One(name, Action::Add(value)))))
    }

    /// `SetRequestHeader`: replaces all values.
    ///
    /// # Errors
    /// As [`Self::add_request_header`].
    pub fn set_request_header(name: &str, value: &str) -> Result<Self, EditError> {
        let (name, value) = parse_pair(name, value)?;
        Ok(Self(Kind::RequestHeader(RequestHeader::One(name, Action::Set(value)))))
    }

    /// `RemoveRequestHeader`: removes all values.
    ///
    /// # Errors
    /// Returns an error for an invalid header name.
    pub fn remove_request_header(name: &str) -> Result<Self, EditError> {
        Ok(Self(Kind::RequestHeader(RequestHeader::One(parse_name(name)?, Action::Remove))))
    }

    /// `AddRequestHeadersIfNotPresent`: adds the values of each header for which the request has only blank values or none.
    /// Values may contain variables; a header that is listed twice gets both values.
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
    /// Returns an error for an invalid header name, and if `to` frames messages.
    pub fn map_request_header(from: &str, to: &str) -> Result<Self, EditError> {
        let (from, to) = (parse_name(from)?, parse_settable_name(to)?);
        Ok(Self(Kind::RequestHeader(RequestHeader::Map { from, to })))
    }

    /// `SetRequestHostHeader`: sends `host`, which may contain variables, as `Host` to the upstream. If a variable makes
    /// it an invalid host, the request gets a 400.
    ///
    /// # Errors
    /// Returns an error unless `host` is `host` or `host:port`.
    pub fn set_request_host_header(host: &str) -> Result<Self, EditError> {
        RequestHeader::host(host).map(|edit| Self(Kind::RequestHeader(edit)))
    }

    /// `PreserveHostHeader`: sets [`RequestContext::preserve_host`](crate::context::RequestContext::preserve_host).
    #[must_use]
    pub fn preserve_host_header() -> Self {
        Self(Kind::PreserveHostHeader)
    }

    /// `AddRequestParameter`: appends `name=value` to the query. The value may contain variables. Characters that are
    /// invalid in a query are encoded; escapes are kept.
    ///
    /// # Errors
    /// Returns an error for an empty name.
    pub fn add_request_parameter(name: &str, value: &str) -> Result<Self, EditError> {
        QueryEdit::add(name, value).map(|edit| Self(Kind::Query(edit)))
    }

    /// `RemoveRequestParameter`: removes all parameters of that name.
    ///
    /// # Errors
    /// Returns an error for an empty name.
    pub fn remove_request_parameter(name: &str) -> Result<Self, EditError> {
        Ok(Self(Kind::Query(QueryEdit::Remove { name: required(name)?.into() })))
    }

    /// `RewriteRequestParameter`: replaces all parameters of that name, if there are any, by one at the end of the query.
    /// Its value is `replacement`, which is not encoded in the configuration.
    ///
    /// # Errors
    /// Returns an error for an empty name.
    pub fn rewrite_request_parameter(name: &str, replacement: &str) -> Result<Self, EditError> {
        Ok(Self(Kind::Query(QueryEdit::Rewrite { name: required(name)?.into(), value: replacement.into() })))
    }

    /// `SetRequestUri`: sends the request to `template`, which may contain variables and includes path and query. A
    /// variable in place of the host lets clients reach all hosts that the gateway can reach.
    ///
    /// # Errors
    /// Currently none: if the result is not an absolute `http` or `https` URI, the route's target is used, as in Spring.
    pub fn set_request_uri(template: &str) -> Result<Self, EditError> {
        Ok(Self(Kind::Target(TargetEdit::Template(Template::parse(template)))))
    }

    /// `RequestHeaderToRequestUri`: sends the request to the URI in the first value of the header `name`, if that is an
    /// absolute `http` or `https` URI without user information.
    ///
    /// A client that can set the header can reach every server that the gateway can reach, also behind a firewall
    /// (server-side request forgery). Only a trusted proxy before the gateway may set it.
    ///
    /// # Errors
    /// Returns an error for an invalid header name.
    pub fn request_header_to_request_uri(name: &str) -> Result<Self, EditError> {
        Ok(Self(Kind::Target(TargetEdit::Header(parse_name(name)?))))
    }
}
