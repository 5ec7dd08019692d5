//! `server.path`: encoded separators in paths.

use serde::Deserialize;

use crate::de::defaults::Word;

use tollgate_routing::{PathRules, Separator};

/// Encoded separators in paths.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawPath {
    /// `%2F` in a path: `keep` it in its segment, `decode` it to a `/`, or `reject` the request with 400. Default {}, since upstreams differ; `keep` in a Spring file, as in Spring.
    encoded_slash: Word<RawSeparator>,
    /// `\` and `%5C` in a path: `keep`, `decode` or `reject`.
    backslash: Word<RawSeparator>,
}

/// Treatment of a separator.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema, serde::Serialize))]
#[serde(rename_all = "kebab-case")]
enum RawSeparator {
    /// It stays encoded, and belongs to its segment.
    Keep,
    /// It becomes a `/`.
    Decode,
    /// The request is refused with 400.
    #[default]
    Reject,
}

impl RawPath {
    /// Returns the rules.
    pub(super) fn check(&self) -> PathRules {
        PathRules { encoded_slash: self.encoded_slash.0.into(), backslash: self.backslash.0.into() }
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
