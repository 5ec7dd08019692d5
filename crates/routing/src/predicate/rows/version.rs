//! `Version`: the API version that a request names, as Spring Framework 7's `DefaultApiVersionStrategy` and
//! `SemanticApiVersionParser` find and parse it.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderName};

use super::query::query_values;
use crate::decision::Decision;
use crate::error::PredicateError;
use crate::predicate::Predicate;
use crate::predicate::condition::{Condition, header_text};
use crate::predicate::row::{PredicateArgument, PredicateForm, PredicateRow, PredicateSettings, Remark};
use crate::request::{RequestPart, RequestView};

pub(super) const VERSION: PredicateRow = PredicateRow {
    name: "Version",
    doc: "The requested version (see `api-version`) is this one, or with a `+` this or a later one. A request without \
          a version matches.",
    form: PredicateForm::One(
        [PredicateArgument::text("version", "A version such as `1.3`, or `1.1+`.")],
        |version, settings| Predicate::version(version, Arc::clone(&settings.versions)),
    ),
    remark: Some(remark),
};

const EXPECTED: &str = "a version: write one such as 1.3, or 1.1+ for that version and later ones";

/// An API version: major, minor and patch. `1`, `1.0` and `1.0.0` are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version([u32; 3]);

/// Header fields with a media type.
static MEDIA_TYPES: [HeaderName; 2] = [ACCEPT, CONTENT_TYPE];

/// The part of a request that names its API version.
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

/// Rules to find a request's API version, and the supported versions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApiVersions {
    /// Sources in order; the first that has a value counts.
    pub sources: Vec<VersionSource>,
    /// The version of a request that names none.
    pub default: Option<Version>,
    /// Requires a version: without one, no route with a `Version` predicate matches.
    pub required: bool,
    /// Supported versions, besides those that routes name. If the list is empty, all versions are supported.
    pub supported: Vec<Version>,
    /// Treats the version that a route names as supported.
    pub detect_supported: bool,
}

/// The version that a request names.
#[derive(Clone, Debug, PartialEq, Eq)]
enum RequestedVersion {
    None,
    Valid(Version),
    Invalid(String),
}

/// The version that a route requires: exactly one, or one and all later ones.
#[derive(Clone, Debug, PartialEq)]
struct VersionRequirement {
    version: Version,
    or_later: bool,
    versions: Arc<ApiVersions>,
}

impl Predicate {
    /// `Version`: the request names the version `requirement` (`1.3`, which is `1.3.0`) or, with a `+` at the end, that
    /// version or a later one. `versions` says how to find the version.
    ///
    /// A request without a version matches unless `versions` requires one. An invalid or unsupported version does not
    /// match.
    ///
    /// # Errors
    /// Returns an error if `requirement` is not a version.
    pub fn version(requirement: &str, versions: Arc<ApiVersions>) -> Result<Self, PredicateError> {
        let (version, or_later) = match requirement.strip_suffix('+') {
            Some(version) => (version, true),
            None => (requirement, false),
        };
        let version = Version::parse(version).ok_or_else(|| PredicateError::value(requirement, EXPECTED))?;
        Ok(Self::other(VersionRequirement { version, or_later, versions }))
    }
}

/// Reports a `Version` without any source of versions.
fn remark(settings: &PredicateSettings) -> Option<Remark> {
    settings.versions.sources.is_empty().then_some(Remark {
        is_mistake: true,
        message: "`Version` never matches: `api-version` has no source of versions",
        help: "add `api-version: {use: {header: X-Version}}`, in Spring's form `spring.webflux.apiversion.use.header: X-Version`",
    })
}

// === impl VersionRequirement ===

impl Condition for VersionRequirement {
    fn decide(&self, request: &RequestView<'_>) -> Decision {
        let holds = match self.versions.requested(request) {
            RequestedVersion::None => !self.versions.required,
            RequestedVersion::Invalid(_) => false,
            RequestedVersion::Valid(version) => {
                let fits = if self.or_later { version >= self.version } else { version == self.version };
                fits && self.versions.supports(version, self.version)
            }
        };
        holds.into()
    }

    fn observe(&self, request: &RequestView<'_>) -> String {
        match self.versions.requested(request) {
            RequestedVersion::None => "the request names no version".to_owned(),
            RequestedVersion::Valid(version) => format!("the request names version {version}"),
            RequestedVersion::Invalid(text) => format!("`{text}` is not a version"),
        }
    }

    fn reads(&self) -> Vec<RequestPart<'_>> {
        let parts = self.versions.sources.iter().flat_map(|source| match source {
            VersionSource::Header(name) => vec![RequestPart::Header(name)],
            VersionSource::Query(_) => vec![RequestPart::Query],
            VersionSource::PathSegment(_) => vec![RequestPart::Path],
            VersionSource::MediaType { .. } => MEDIA_TYPES.iter().map(RequestPart::Header).collect(),
        });
        parts.collect()
    }
}

impl fmt::Display for VersionRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Version: {}{}", self.version, if self.or_later { "+" } else { "" })
    }
}

// === impl Version ===

impl Version {
    /// Parses `1`, `1.2` or `1.2.3`. Text before the first digit is ignored, as in `v1.2`.
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
    fn requested(&self, request: &RequestView<'_>) -> RequestedVersion {
        let text = self.sources.iter().find_map(|source| source.read(request));
        match (text, self.default) {
            (Some(text), _) => match Version::parse(&text) {
                Some(version) => RequestedVersion::Valid(version),
                None => RequestedVersion::Invalid(text.into_owned()),
            },
            (None, Some(default)) => RequestedVersion::Valid(default),
            (None, None) => RequestedVersion::None,
        }
    }

    fn supports(&self, version: Version, named_by_route: Version) -> bool {
        let is_detected = self.detect_supported && version == named_by_route;
        self.supported.is_empty() || self.supported.contains(&version) || is_detected
    }
}

// === impl VersionSource ===

impl VersionSource {
    fn read<'r>(&self, request: &RequestView<'r>) -> Option<Cow<'r, str>> {
        match self {
            Self::Header(name) => request.headers.get(name).map(header_text),
            Self::Query(param) => query_values(request, param).next().flatten(),
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

/// Returns the parameter of the first compatible media type that has it, in `Accept`, then in `Content-Type`.
fn media_type_parameter<'r>(headers: &'r HeaderMap, expected: &str, parameter: &str) -> Option<Cow<'r, str>> {
    headers.get_all(ACCEPT).iter().chain(headers.get(CONTENT_TYPE)).find_map(|line| {
        line.to_str().ok()?.split(',').find_map(|media_type| {
            let mut parts = media_type.split(';').map(str::trim);
            let is_compatible = parts.next().is_some_and(|media_type| is_compatible(media_type, expected));
            parts.filter(|_| is_compatible).find_map(|part| {
                let (name, value) = part.split_once('=')?;
                name.trim().eq_ignore_ascii_case(parameter).then(|| Cow::Borrowed(value.trim().trim_matches('"')))
            })
        })
    })
}

/// Returns true if two media types, each with or without `*`, overlap.
fn is_compatible(one: &str, other: &str) -> bool {
    let (Some((type1, subtype1)), Some((type2, subtype2))) = (one.split_once('/'), other.split_once('/')) else {
        return false;
    };
    let overlap = |a: &str, b: &str| a == "*" || b == "*" || a.eq_ignore_ascii_case(b);
    overlap(type1, type2) && overlap(subtype1, subtype2)
}
