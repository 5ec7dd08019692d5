//! Places of API keys in requests.

use std::borrow::Cow;
use std::fmt;

use http::header::AUTHORIZATION;
use http::{HeaderName, HeaderValue, Request};

use crate::percent;
use crate::query;
use crate::repeated::Repeated;

static AUTHORIZATION_FIELD: HeaderName = AUTHORIZATION;

/// Part of an API key that a key resolver returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyPart {
    /// The id.
    Id,
    /// The plan.
    Plan,
}

/// Place of an API key in a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApiKeySource {
    /// The value of this header field.
    Header(HeaderName),
    /// `Authorization: Bearer …`. A token in the form of a JSON Web Token is no API key.
    Bearer,
    /// This parameter of the query.
    Query(Box<str>),
}

/// Places of API keys, and the field that tells upstreams the id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Places of keys.
    pub sources: Vec<ApiKeySource>,
    /// Field of forwarded requests with the id of the key.
    pub id_header: HeaderName,
}

// === impl ApiKeySource ===

impl ApiKeySource {
    /// Parses `header:NAME`, `bearer` or `query:NAME`. Returns `None` for other texts, and for `header:Authorization`, whose value has a scheme.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text.trim().split_once(':') {
            None => (text.trim() == "bearer").then_some(Self::Bearer),
            Some((kind, name)) => match (kind.trim(), name.trim()) {
                ("header", name) => {
                    let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
                    (name != AUTHORIZATION).then_some(Self::Header(name))
                }
                ("query", name) if !name.is_empty() => Some(Self::Query(name.into())),
                _ => None,
            },
        }
    }

    /// Returns the header field that holds the key.
    #[must_use]
    pub fn header(&self) -> Option<&HeaderName> {
        match self {
            Self::Header(name) => Some(name),
            Self::Bearer => Some(&AUTHORIZATION_FIELD),
            Self::Query(_) => None,
        }
    }
}

impl fmt::Display for ApiKeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(name) => write!(f, "header:{name}"),
            Self::Bearer => f.write_str("bearer"),
            Self::Query(name) => write!(f, "query:{name}"),
        }
    }
}

// === impl Settings ===

impl Default for Settings {
    /// Keys in `X-Api-Key`, and ids in `X-Api-Key-Id`.
    fn default() -> Self {
        Self {
            sources: vec![ApiKeySource::Header(HeaderName::from_static("x-api-key"))],
            id_header: HeaderName::from_static("x-api-key-id"),
        }
    }
}

impl Settings {
    /// Returns the header fields that hold keys.
    pub fn headers(&self) -> impl Iterator<Item = &HeaderName> {
        self.sources.iter().filter_map(ApiKeySource::header)
    }

    /// Returns the names of the query parameters that hold keys.
    pub fn parameters(&self) -> impl Iterator<Item = &str> + Clone {
        self.sources
            .iter()
            .filter_map(|source| if let ApiKeySource::Query(name) = source { Some(&**name) } else { None })
    }

    /// Returns true if keys may be bearer tokens.
    #[must_use]
    pub fn reads_bearer(&self) -> bool {
        self.sources.contains(&ApiKeySource::Bearer)
    }

    /// Returns true if `request` has a field or a parameter for a key.
    pub fn has_field<B>(&self, request: &Request<B>) -> bool {
        self.keys(request) != Repeated::Absent
    }

    /// Returns the keys in `request`. Empty values are no keys.
    pub(crate) fn keys<'r, B>(&self, request: &'r Request<B>) -> Repeated<Cow<'r, [u8]>> {
        let mut keys = Repeated::Absent;
        let mut add = |key: Cow<'r, [u8]>| {
            if !key.is_empty() {
                keys.add(key);
            }
        };
        for source in &self.sources {
            match source {
                ApiKeySource::Header(name) => {
                    let values = request.headers().get_all(name).iter();
                    values.for_each(|value| add(Cow::Borrowed(value.as_bytes())));
                }
                ApiKeySource::Bearer => {
                    let values = request.headers().get_all(AUTHORIZATION).iter().filter_map(bearer);
                    values.for_each(|value| add(Cow::Borrowed(value)));
                }
                ApiKeySource::Query(name) => {
                    let values = query::values(request.uri(), name);
                    values.for_each(|value| add(percent::decode(value, true).collect::<Vec<_>>().into()));
                }
            }
        }
        keys
    }

    /// Removes the keys from `request`.
    #[cfg(feature = "verify-api-key")]
    pub(crate) fn remove_keys<B>(&self, request: &mut Request<B>) {
        for source in &self.sources {
            match source {
                ApiKeySource::Header(name) => {
                    request.headers_mut().remove(name);
                }
                ApiKeySource::Bearer => remove_bearer(request),
                ApiKeySource::Query(name) => query::remove(request.uri_mut(), name),
            }
        }
    }
}

/// Removes the credentials that are API keys. Others stay.
#[cfg(feature = "verify-api-key")]
fn remove_bearer<B>(request: &mut Request<B>) {
    let headers = request.headers_mut();
    let others: Vec<HeaderValue> =
        headers.get_all(AUTHORIZATION).iter().filter(|v| bearer(v).is_none()).cloned().collect();
    headers.remove(AUTHORIZATION);
    others.into_iter().for_each(|value| {
        headers.append(AUTHORIZATION, value);
    });
}

/// Returns the API key in the credentials `value`.
fn bearer(value: &HeaderValue) -> Option<&[u8]> {
    let (scheme, rest) = value.as_bytes().split_at_checked(6)?;
    let token = rest.strip_prefix(b" ")?.trim_ascii();
    (scheme.eq_ignore_ascii_case(b"bearer") && !is_jwt(token)).then_some(token)
}

/// Returns true for the compact form of a signed or encrypted token (RFC 7515 §3.1, RFC 7516 §3.1): parts of base64url, of
/// which the first is a JSON object.
fn is_jwt(token: &[u8]) -> bool {
    let dots = token.iter().filter(|byte| **byte == b'.').count();
    let is_base64url = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    // `{` and the first bits of a quote, a space or a line break.
    (token.starts_with(b"ey") || token.starts_with(b"ew")) && [2, 4].contains(&dots) && token.iter().all(is_base64url)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn settings() -> Settings {
        let sources = ["header:X-Api-Key", "bearer", "query:api_key"].map(|text| ApiKeySource::parse(text).unwrap());
        Settings { sources: sources.into(), ..Settings::default() }
    }

    fn request(uri: &str, fields: &[(&str, &str)]) -> Request<()> {
        let builder =
            fields.iter().fold(Request::builder().uri(uri), |builder, (name, value)| builder.header(*name, *value));
        builder.body(()).unwrap()
    }

    #[test]
    fn a_request_has_one_key_if_all_its_places_agree() {
        let one = |key: &'static str| Repeated::One(Cow::Borrowed(key.as_bytes()));
        for (uri, fields, expected) in [
            ("/", &[][..], Repeated::Absent),
            ("/", &[("x-api-key", "")], Repeated::Absent),
            ("/", &[("x-api-key", "a")], one("a")),
            ("/?api_key=a", &[("x-api-key", "a"), ("x-api-key", "a"), ("authorization", "bearer  a")], one("a")),
            ("/?api%5Fkey=%61", &[], one("a")),
            ("/?api_key=b", &[("x-api-key", "a")], Repeated::Differing),
            ("/?api_key=a&api_key=b", &[], Repeated::Differing),
            ("/", &[("x-api-key", "a"), ("x-api-key", "b")], Repeated::Differing),
            ("/", &[("x-api-key", "A"), ("authorization", "Bearer a")], Repeated::Differing),
            ("/", &[("x-api-key", "a"), ("authorization", "Bearer eyJhbGciOiJub25lIn0.e30.x")], one("a")),
            ("/", &[("x-api-key", "a"), ("authorization", "Basic YTpi")], one("a")),
            ("/", &[("authorization", "Bearer a.b.c")], one("a.b.c")),
        ] {
            assert_eq!(settings().keys(&request(uri, fields)), expected, "{uri} {fields:?}");
        }
    }

    #[cfg(feature = "verify-api-key")]
    #[test]
    fn removed_keys_leave_other_credentials_and_parameters() {
        let fields =
            [("authorization", "Basic YTpi"), ("authorization", "Bearer k"), ("x-api-key", "k"), ("x-other", "1")];
        let mut with = request("/a?x=1&api_key=k&api%5Fkey=k&y=2", &fields);
        settings().remove_keys(&mut with);
        assert_eq!(with.uri(), "/a?x=1&y=2");
        assert_eq!(with.headers().get_all("authorization").iter().collect::<Vec<_>>(), ["Basic YTpi"]);
        assert!(!with.headers().contains_key("x-api-key") && with.headers().contains_key("x-other"));
        let mut only = request("/a?api_key=k", &[("authorization", "Bearer eyJh.e30.x")]);
        settings().remove_keys(&mut only);
        assert_eq!(only.uri(), "/a");
        assert!(only.headers().contains_key("authorization"), "a token");
    }

    #[test]
    fn sources_have_names() {
        for text in ["header:x-api-key", "bearer", "query:api_key"] {
            assert_eq!(ApiKeySource::parse(text).unwrap().to_string(), text);
        }
        for text in ["", "header", "header:", "header:a b", "header:Authorization", "query:", "cookie:a", "Bearer"] {
            assert_eq!(ApiKeySource::parse(text), None, "{text}");
        }
    }
}
