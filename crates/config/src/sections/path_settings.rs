//! `server.path`: encoded separators in paths.

use tollgate_routing::{PathRules, Separator};

use crate::de::Word;

/// Encoded separators in paths.
#[section(Clone)]
pub(super) struct PathSettings {
    /// `%2F` in a path: `keep` it in its segment, `decode` it to a `/`, or `reject` the request with 400. Default {}, since upstreams differ; `keep` in a Spring file, as in Spring.
    encoded_slash: Word<RawSeparator>,
    /// `\` and `%5C` in a path: `keep`, `decode` or `reject`.
    backslash: Word<RawSeparator>,
}

/// Treatment of a separator.
#[word(Default)]
enum RawSeparator {
    /// It stays encoded, and belongs to its segment.
    Keep,
    /// It becomes a `/`.
    Decode,
    /// The request is refused with 400.
    #[default]
    Reject,
}

impl PathSettings {
    /// Returns the rules.
    pub(super) fn rules(&self) -> PathRules {
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
