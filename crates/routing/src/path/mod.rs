//! Path patterns: the grammar of Spring's `PathPattern`.

use std::fmt;

use crate::decision::Decision;
use crate::error::PatternError;
use crate::request::Variables;
use crate::segment::{PatternPart, SegmentsPattern};

/// A pattern for request paths, case-sensitive, matched segment by segment.
///
/// | pattern | matches |
/// | --- | --- |
/// | `?`, `*` | one character, any number of them, within one segment |
/// | `**` | any number of segments: `/api/**` matches `/api`, `/api/` and `/api/a/b`, not `/apix` |
/// | `{name}` | one segment that is not empty; captures it |
/// | `{name:regex}` | the same if the expression matches the whole segment |
/// | `{*name}` | like `**`; captures the matched segments with the slash before them |
///
/// Other text matches itself, and a segment may mix them: `v{major}-*.json`. Before a segment is compared, its matrix
/// parameters (`;a=b`) are removed and its escapes are decoded. So a pattern is written decoded: `/a b`, not `/a%20b`.
/// An encoded slash (`%2F`) is a character of its segment. A final `*` also matches an empty segment, as in Spring:
/// `/a/*` matches `/a/`. Unlike in Spring, `**` and `{*name}` may be anywhere; each takes as few segments as possible.
#[derive(Clone, Debug, PartialEq)]
pub struct PathPattern(SegmentsPattern<'/'>);

// === impl PathPattern ===

impl PathPattern {
    /// Parses a pattern. A missing `/` at the start is added, as in Spring.
    ///
    /// # Errors
    /// See [`PatternError`]. One of them is a segment that no normalized path contains: its route would never match.
    pub fn parse(pattern: &str) -> Result<Self, PatternError> {
        SegmentsPattern::parse(pattern).map(Self)
    }

    /// Returns true if the normalized `path` certainly matches. If `trailing_slash` is true, a `/` at the end of the path
    /// may be ignored.
    ///
    /// Does not allocate, unless a segment with escapes is matched with a regular expression.
    #[must_use]
    pub fn matches(&self, path: &str, trailing_slash: bool) -> bool {
        self.decide(path, trailing_slash) == Decision::Yes
    }

    /// Decides if the normalized `path` matches, as [`matches`](Self::matches) does.
    #[must_use]
    pub fn decide(&self, path: &str, trailing_slash: bool) -> Decision {
        Decision::any(alternatives(path, trailing_slash).map(|segments| self.0.decide(Some(segments))))
    }

    /// Adds the variables of `path` to `out` if it matches. Values stay percent-encoded: in another path, `%2F` and
    /// `%3F` must not become a slash and a query.
    ///
    /// The value of `{*name}` starts with `/`, or is empty if no segment is left.
    pub fn capture(&self, path: &str, trailing_slash: bool, out: &mut Variables) {
        let _ = alternatives(path, trailing_slash).any(|segments| self.0.capture(Some(segments), out));
    }

    /// Returns the names of the variables.
    pub(super) fn variable_names(&self) -> impl Iterator<Item = &str> {
        self.0.variable_names()
    }

    /// Returns true if each path that `narrow` matches certainly matches this pattern, or leaves it undecided.
    /// `same_slash` is true if this pattern ignores a final `/` wherever `narrow` does.
    pub(crate) fn covers(&self, narrow: &Self, same_slash: bool) -> bool {
        let (parts, narrow_parts) = (&self.0.parts, &narrow.0.parts);
        let (wide, is_open) = match parts.split_last() {
            Some((PatternPart::AnySegments(_), segments)) => (segments, true),
            _ => (&**parts, false),
        };
        let is_comparable = is_open || same_slash;
        if is_comparable && self == narrow {
            return true;
        }
        let has_room = if is_open { narrow_parts.len() >= wide.len() } else { narrow_parts.len() == wide.len() };
        let mut pairs = wide.iter().zip(narrow_parts).enumerate();
        is_comparable
            && has_room
            && pairs.all(|(at, pair)| match pair {
                (PatternPart::Segment(wide_segment), PatternPart::Segment(segment)) => {
                    wide_segment.covers(segment, !is_open && at + 1 == wide.len(), at + 1 == narrow_parts.len())
                }
                _ => false,
            })
    }

    /// Returns true if no path certainly matches both patterns. `ignores_slash` is true if one of them may ignore a final `/`.
    pub(crate) fn excludes(&self, other: &Self, ignores_slash: bool) -> bool {
        let differs = |(text, other): (Option<&str>, Option<&str>)| text.zip(other).is_some_and(|(a, b)| a != b);
        let lacks_segments = |short: &Self, long: &Self| {
            let most = short.0.parts.len() + usize::from(ignores_slash);
            !short.is_open() && most < long.segments().count()
        };
        self.prefix().zip(other.prefix()).any(differs) || lacks_segments(self, other) || lacks_segments(other, self)
    }

    /// Returns true if a part matches any number of segments.
    fn is_open(&self) -> bool {
        self.0.parts.iter().any(|part| matches!(part, PatternPart::AnySegments(_)))
    }

    /// Returns the parts that match one segment each.
    fn segments(&self) -> impl Iterator<Item = &PatternPart> {
        self.0.parts.iter().filter(|part| matches!(part, PatternPart::Segment(_)))
    }

    /// Returns the leading segments that all matching paths share, up to the first `**`; `None` is any segment.
    pub(crate) fn prefix(&self) -> impl Iterator<Item = Option<&str>> {
        self.0.parts.iter().map_while(|part| match part {
            PatternPart::Segment(segment) => Some(segment.literal()),
            PatternPart::AnySegments(_) => None,
        })
    }
}

impl fmt::Display for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Returns the path after its first `/`, and the same without a final `/` if `trailing_slash` is true. A target that
/// does not start with `/`, such as the `*` of OPTIONS, matches nothing.
fn alternatives(path: &str, trailing_slash: bool) -> impl Iterator<Item = &str> {
    let segments = path.strip_prefix('/');
    let without_slash = segments.and_then(|segments| segments.strip_suffix('/')).filter(|_| trailing_slash);
    segments.into_iter().chain(without_slash)
}

#[cfg(test)]
mod tests;
