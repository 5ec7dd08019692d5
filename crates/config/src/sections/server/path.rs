//! `server.path`: encoded separators in paths.

use serde::Deserialize;

use tollgate_routing::{PathRules, Separator};

/// Encoded separators in paths.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawPath {
    /// `%2F` in a path: `keep` it in its segment, `decode` it to a `/`, or `reject` the request with 400. Default `reject`, since upstreams differ; `keep` in a Spring file, as in Spring.
    encoded_slash: Option<RawSeparator>,
    /// `\` and `%5C` in a path: `keep`, `decode` or `reject`. Default `reject`.
    backslash: Option<RawSeparator>,
}

/// Treatment of a separator.
#[derive(Clone, Copy, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
enum RawSeparator {
    /// It stays encoded, and belongs to its segment.
    Keep,
    /// It becomes a `/`.
    Decode,
    /// The request is refused with 400.
    Reject,
}

impl RawPath {
    /// Returns the rules.
    pub(super) fn check(&self) -> PathRules {
        PathRules {
            encoded_slash: self.encoded_slash.map_or(PathRules::STRICT.encoded_slash, Separator::from),
            backslash: self.backslash.map_or(PathRules::STRICT.backslash, Separator::from),
        }
    }
}

impl From<RawSeparator> for Separator {
    fn from(raw: RawSeparator) -> Self {
        match raw {
            RawSeparator::Keep => Self::Keep,
            RawSeparator::Decode => Self::Decode,
            RawSeparator::Reject => Self::Reject,
        }
    }
}
