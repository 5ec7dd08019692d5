//! `Version`: the version of an API that a request asks for, as Spring Framework 7's `DefaultApiVersionStrategy` and
//! `SemanticApiVersionParser` find and read it.

use std::borrow::Cow;
use std::fmt;

use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderName};

use super::header::text;
use super::query;
use crate::RequestView;

/// A version: major, minor and patch. `1`, `1.0` and `1.0.0` are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version([u32; 3]);

/// Where a request says which version it wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VersionSource {
    /// The first value of a header.
    Header(HeaderName),
    /// The first value of a query parameter.
    Query(String),
    /// The segment of the path at this index, from 0.
    PathSegment(usize),
    /// A parameter of a media type in `Accept` or `Content-Type`.
    MediaType {
        /// The media type, `*` for any type or subtype.
        media_type: String,
        /// The parameter's name.
        parameter: String,
    },
}

/// How requests say which version they want, and which there are.
#[derive(Clone, Debug, Default)]
pub struct ApiVersions {
    /// Where it is looked for; the first place that has something counts.
    pub sources: Vec<VersionSource>,
    /// The version of a request that does not say.
    pub default: Option<Version>,
    /// Whether a request must say: without a version none of the routes that ask for one takes it.
    pub required: bool,
    /// The versions that there are, besides those that routes name; none: any.
    pub supported: Vec<Version>,
    /// Whether what a route names is supported without being listed.
    pub detects: bool,
}

/// What a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Nothing,
    Version(Version),
    Unreadable(String),
}

/// What a route takes: one version, or one and all later ones.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    version: Version,
    or_later: bool,
}

// === impl Version ===

impl Version {
    /// Reads `1`, `1.2` or `1.2.3`; what stands before the first digit, as in `v1.2`, is passed over.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.get(text.find(|char: char| char.is_ascii_digit())?..)?;
        let mut numbers = [0; 3];
        for (index, part) in digits.split('.').enumerate() {
            if part.is_empty() || !part.bytes().all(|byte| byte.is_ascii_digit()) {
                return None;
            }
            *numbers.get_mut(index)? = part.parse().ok()?;
        }
        Some(Self(numbers))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.0;
        match patch {
            0 => write!(f, "{major}.{minor}"),
            _ => write!(f, "{major}.{minor}.{patch}"),
        }
    }
}

// === impl ApiVersions ===

impl ApiVersions {
    pub(super) fn asked(&self, request: &RequestView<'_>) -> Asked {
        let said = self.sources.iter().find_map(|source| source.look(request));
        match (said, self.default) {
            (Some(text), _) => match Version::parse(&text) {
                Some(version) => Asked::Version(version),
                None => Asked::Unreadable(text.into_owned()),
            },
            (None, Some(default)) => Asked::Version(default),
            (None, None) => Asked::Nothing,
        }
    }

    fn supports(&self, version: Version, named: Version) -> bool {
        self.supported.is_empty() || self.supported.contains(&version) || (self.detects && version == named)
    }
}

// === impl VersionSource ===

impl VersionSource {
    fn look<'r>(&self, request: &RequestView<'r>) -> Option<Cow<'r, str>> {
        match self {
            Self::Header(name) => request.headers.get(name).map(text),
            Self::Query(param) => query::first(request.query.unwrap_or_default(), param),
            Self::PathSegment(index) => request
                .path
                .strip_prefix('/')?
                .split('/')
                .nth(*index)
                .filter(|text| !text.is_empty())
                .map(Cow::Borrowed),
            Self::MediaType { media_type, parameter } => media_type_parameter(request.headers, media_type, parameter),
        }
    }
}

/// The parameter of the first media type compatible with `wanted` that has it: those of `Accept`, then `Content-Type`.
fn media_type_parameter<'r>(headers: &'r HeaderMap, wanted: &str, parameter: &str) -> Option<Cow<'r, str>> {
    headers.get_all(ACCEPT).iter().chain(headers.get(CONTENT_TYPE)).find_map(|line| {
        line.to_str().ok()?.split(',').find_map(|media_type| {
            let mut parts = media_type.split(';').map(str::trim);
            let is_compatible = parts.next().is_some_and(|media_type| compatible(media_type, wanted));
            parts.filter(|_| is_compatible).find_map(|part| {
                let (name, value) = part.split_once('=')?;
                name.trim().eq_ignore_ascii_case(parameter).then(|| Cow::Borrowed(value.trim().trim_matches('"')))
            })
        })
    })
}

/// Whether two media types, either with `*`, can mean the same.
fn compatible(one: &str, other: &str) -> bool {
    let (Some((type1, subtype1)), Some((type2, subtype2))) = (one.split_once('/'), other.split_once('/')) else {
        return false;
    };
    let same = |a: &str, b: &str| a == "*" || b == "*" || a.eq_ignore_ascii_case(b);
    same(type1, type2) && same(subtype1, subtype2)
}

// === impl Wanted ===

impl Wanted {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (version, or_later) = match text.strip_suffix('+') {
            Some(version) => (version, true),
            None => (text, false),
        };
        Version::parse(version).map(|version| Self { version, or_later })
    }

    pub(super) fn matches(self, versions: &ApiVersions, request: &RequestView<'_>) -> bool {
        match versions.asked(request) {
            Asked::Nothing => !versions.required,
            Asked::Unreadable(_) => false,
            Asked::Version(asked) => {
                let fits = if self.or_later { asked >= self.version } else { asked == self.version };
                fits && versions.supports(asked, self.version)
            }
        }
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.version, if self.or_later { "+" } else { "" })
    }
}
