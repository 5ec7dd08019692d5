//! `RewriteLocationResponseHeader`.

use http::header::{HOST, LOCATION};
use http::{HeaderMap, HeaderName, HeaderValue, Request};

use super::{EditError, header};
use crate::percent;
use tollgate_java_regex::{Charset, JavaRegex};

/// Removal of a version such as `/v2` at the start of a location's path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StripVersion {
    /// Never.
    NeverStrip,
    /// If the request's path has none.
    #[default]
    AsInRequest,
    /// Always.
    AlwaysStrip,
}

/// Settings of `RewriteLocationResponseHeader`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocationSettings {
    /// Removal of versions.
    pub strip_version: StripVersion,
    /// The rewritten header. Default: `Location`.
    pub header: HeaderName,
    /// The new `host[:port]` of locations; `None` uses the request's `Host`.
    pub host: Option<String>,
    /// A Java regular expression for the schemes of rewritten locations.
    pub protocols: String,
}

/// Replaces the upstream's address by the gateway's.
#[derive(Clone, Debug)]
pub(super) struct Location {
    strip_version: StripVersion,
    header: HeaderName,
    host: Option<HeaderValue>,
    /// Matches the start of a location, up to its authority.
    scheme: JavaRegex,
}

/// Values of the request, captured at the position of the filter.
#[derive(Debug)]
pub(super) struct RequestLocation {
    host: Option<HeaderValue>,
    is_versioned: bool,
}

impl Default for LocationSettings {
    fn default() -> Self {
        let protocols = "https?|ftps?".to_owned();
        Self { strip_version: StripVersion::default(), header: LOCATION, host: None, protocols }
    }
}

// === impl Location ===

impl Location {
    pub(super) fn new(settings: &LocationSettings) -> Result<Self, EditError> {
        let invalid = |problem: String| EditError::Regexp { regexp: settings.protocols.clone(), problem };
        JavaRegex::new(&settings.protocols, Charset::Bytes).map_err(|error| invalid(error.to_string()))?;
        let scheme = JavaRegex::new(&format!("^(?:{})://", settings.protocols), Charset::Bytes)
            .map_err(|error| invalid(error.to_string()))?;
        let host = match settings.host.as_deref().map(str::trim).filter(|host| !host.is_empty()) {
            Some(host) => Some(header::parse_host(host)?),
            None => None,
        };
        Ok(Self { strip_version: settings.strip_version, header: settings.header.clone(), host, scheme })
    }

    pub(super) fn capture<B>(&self, request: &Request<B>) -> RequestLocation {
        let host = self.host.clone().or_else(|| request.headers().get(HOST).cloned());
        RequestLocation { host, is_versioned: is_versioned(request.uri().path()) }
    }

    /// Rewrites the first location and removes the others.
    pub(super) fn apply(&self, request: &RequestLocation, headers: &mut HeaderMap) {
        let (Some(location), Some(host)) = (headers.get(&self.header), &request.host) else { return };
        let strip_version = match self.strip_version {
            StripVersion::NeverStrip => false,
            StripVersion::AsInRequest => !request.is_versioned,
            StripVersion::AlwaysStrip => true,
        };
        let location = match self.rewrite(location.as_bytes(), host.as_bytes(), strip_version) {
            Some(rewritten) => match HeaderValue::try_from(rewritten) {
                Ok(rewritten) => rewritten,
                Err(_) => return,
            },
            None => location.clone(),
        };
        header::replace_all(headers, &self.header, vec![location]);
    }

    /// Returns the location with `host`; `None` if its scheme does not match or it has no path.
    fn rewrite(&self, location: &[u8], host: &[u8], strip_version: bool) -> Option<Vec<u8>> {
        let (_, begin) = self.scheme.matcher_without_groups().find_at(location, 0).ok()??;
        let rest = location.get(begin..)?;
        let mut end = authority_length(rest)?;
        if strip_version && let Some(version) = version_length(rest.get(end..)?) {
            end += version;
        }
        Some([location.get(..begin)?, host, rest.get(end..)?].concat())
    }
}

/// Returns the length of `host` or `host:port` at the start of `rest` if a slash follows it. Like Spring, this supports
/// neither user information nor IPv6 addresses.
fn authority_length(rest: &[u8]) -> Option<usize> {
    let host = rest.iter().position(|byte| matches!(byte, b':' | b'/')).filter(|length| *length > 0)?;
    if rest.get(host) == Some(&b'/') {
        return Some(host);
    }
    let port = digits(rest.get(host + 1..)?);
    let end = host + 1 + port;
    (port > 0 && rest.get(end) == Some(&b'/')).then_some(end)
}

/// Returns the length of `/v2` at the start of `path` if a slash follows it.
fn version_length(path: &[u8]) -> Option<usize> {
    let number = digits(path.strip_prefix(b"/v")?);
    (number > 0 && path.get(2 + number) == Some(&b'/')).then_some(2 + number)
}

fn digits(text: &[u8]) -> usize {
    text.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

/// Returns true if the decoded path starts with `/v2/`.
fn is_versioned(path: &str) -> bool {
    let decoded: Vec<u8> = percent::decode(path.as_bytes(), false).collect();
    version_length(&decoded).is_some()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    fn rewritten(settings: &LocationSettings, path: &str, location: &str) -> String {
        let edit = Location::new(settings).unwrap();
        let request = Request::builder().uri(path).header(HOST, "api.example.com").body(()).unwrap();
        let mut headers = HeaderMap::new();
        headers.append(&settings.header, location.parse().unwrap());
        headers.append(&settings.header, HeaderValue::from_static("http://second/"));
        edit.apply(&edit.capture(&request), &mut headers);
        assert_eq!(headers.len(), 1, "only the first value is kept");
        headers[&settings.header].to_str().unwrap().to_owned()
    }

    #[test]
    fn locations_get_the_host_of_the_request() {
        let settings = LocationSettings::default();
        for (path, location, expected) in [
            // From Spring's documentation.
            (
                "/some/object/name",
                "http://object-service.prod.example.net/v2/some/object/id",
                "http://api.example.com/some/object/id",
            ),
            ("/v1/name", "https://backend:8443/v2/id", "https://api.example.com/v2/id"),
            ("/v1%2Fname", "https://backend:8443/v2/id", "https://api.example.com/v2/id"),
            ("/v1", "https://backend/v2/id", "https://api.example.com/id"),
            ("/vx/name", "https://backend/v/id", "https://api.example.com/v/id"),
            ("/name", "https://backend/v2", "https://api.example.com/v2"),
            ("/name", "https://backend/v2/", "https://api.example.com/"),
            // No slash after the authority, or an authority that Spring does not support.
            ("/name", "https://backend", "https://backend"),
            ("/name", "https://backend:8443", "https://backend:8443"),
            ("/name", "https://backend?a=/b", "https://api.example.com/b"),
            ("/name", "https://backend:/id", "https://backend:/id"),
            ("/name", "https://user:word@backend/id", "https://user:word@backend/id"),
            ("/name", "https://[::1]:80/id", "https://[::1]:80/id"),
            ("/name", "/v2/id", "/v2/id"),
            ("/name", "gopher://backend/id", "gopher://backend/id"),
            ("/name", "see https://backend/id", "see https://backend/id"),
            ("/name", "ftps://backend/id", "ftps://api.example.com/id"),
        ] {
            assert_eq!(rewritten(&settings, path, location), expected, "{location} to {path}");
        }
    }

    #[test]
    fn settings_select_locations_and_hosts() {
        let with = |strip_version, host: Option<&str>, protocols: &str| LocationSettings {
            strip_version,
            host: host.map(str::to_owned),
            protocols: protocols.to_owned(),
            header: HeaderName::from_static("link"),
        };
        for (settings, path, location, expected) in [
            (with(StripVersion::AlwaysStrip, Some("a:8080"), "https?"), "/v1/x", "http://b/v1/y", "http://a:8080/y"),
            (with(StripVersion::NeverStrip, Some(" "), "https?"), "/x", "http://b/v1/y", "http://api.example.com/v1/y"),
            (with(StripVersion::AsInRequest, None, "https|ftps"), "/x", "http://b/y", "http://b/y"),
        ] {
            assert_eq!(rewritten(&settings, path, location), expected, "{settings:?}");
        }
        assert!(Location::new(&with(StripVersion::NeverStrip, None, "(")).is_err());
        assert!(Location::new(&with(StripVersion::NeverStrip, Some("a b"), "http")).is_err());
    }
}
