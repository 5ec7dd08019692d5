//! Path patterns: the grammar of Spring's `PathPattern`.

use std::fmt;

use super::pattern_error::PatternError;
use super::request::{Variables, set_variable};
use super::segment::{Dialect, Part, Segment, Text, cut, parse, walk};

const DIALECT: Dialect = Dialect { separator: '/', is_path: true };

/// A pattern for request paths, case-sensitive, matched segment by segment.
///
/// | pattern | matches |
/// | --- | --- |
/// | `?`, `*` | one character, any number of them, within one segment |
/// | `**` | any number of segments: `/api/**` matches `/api`, `/api/` and `/api/a/b`, not `/apix` |
/// | `{name}` | one segment, not empty, and keeps it |
/// | `{name:regex}` | the same if the expression matches the whole of it |
/// | `{*name}` | like `**`, and keeps what it matched with the slash before it |
///
/// Other text stands for itself; `v{major}-*.json` mixes them. A segment is compared after its matrix parameters
/// (`;a=b`) are taken off and its escapes are decoded, so a pattern is written decoded: `/a b`, not `/a%20b`. An
/// encoded slash (`%2F`) is a character of its segment. A last `*` also matches an empty segment, as in Spring: `/a/*`
/// matches `/a/`. Unlike Spring's, `**` and `{*name}` may stand anywhere; each then takes as few segments as it can.
#[derive(Clone, Debug)]
pub struct PathPattern {
    text: Box<str>,
    parts: Box<[Part]>,
}

// === impl PathPattern ===

impl PathPattern {
    /// Parses a pattern. A `/` at the start is added when it is missing, as Spring does.
    ///
    /// # Errors
    /// See [`PatternError`]. A segment that no path in normal form has is one of them: the route would never match.
    pub fn parse(pattern: &str) -> Result<Self, PatternError> {
        if pattern.is_empty() {
            return Err(PatternError::Empty);
        }
        let start = usize::from(pattern.starts_with('/'));
        let parts = parse(pattern, start, DIALECT)?;
        Ok(Self { text: pattern.into(), parts: parts.into() })
    }

    /// Whether `path`, in normal form, matches. With `trailing_slash` a `/` at the end of the path may be ignored.
    ///
    /// Allocates nothing, unless a segment with escapes meets a regular expression.
    #[must_use]
    pub fn matches(&self, path: &str, trailing_slash: bool) -> bool {
        forms(path, trailing_slash).any(|segments| walk(&self.parts, Some(segments), '/', segment_matches, |_, _| {}))
    }

    /// Adds the variables of a `path` that matches to `out`, percent-encoded as they stand in it, and nothing for one
    /// that does not: put into another path, `%2F` and `%3F` must not become a slash and a query.
    ///
    /// The value of `{*name}` starts with `/`, or is empty when no segment is left.
    pub fn captures(&self, path: &str, trailing_slash: bool, out: &mut Variables) {
        // Where each part starts; the walk never gets past a last `**`, so that one ends where the path does.
        let mut starts = vec![None; self.parts.len() + 1];
        for segments in forms(path, trailing_slash) {
            let record = |part: usize, left| starts.get_mut(part).map_or((), |start| *start = left);
            if walk(&self.parts, Some(segments), '/', segment_matches, record) {
                for (part, start) in self.parts.iter().zip(starts.windows(2)) {
                    if let &[from, to] = start {
                        capture(part, from, to, out);
                    }
                }
                return;
            }
        }
    }

    /// The names of its variables.
    pub(super) fn variable_names(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().flat_map(Part::variables).map(|name| &**name)
    }

    /// What the first segments of every matching path must be, as far as the pattern fixes how many there are: a text, or
    /// anything.
    pub(super) fn start(&self) -> impl Iterator<Item = Option<&str>> {
        self.parts.iter().map_while(|part| match part {
            Part::One(segment) => Some(segment.literal()),
            Part::Any(_) => None,
        })
    }
}

impl fmt::Display for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The segments of a path: what follows its first `/`, and without the last `/` when that may be ignored. What does not
/// start with `/` (the `*` of OPTIONS) has none and matches nothing.
fn forms(path: &str, trailing_slash: bool) -> impl Iterator<Item = &str> {
    let segments = path.strip_prefix('/');
    let without_slash = segments.and_then(|segments| segments.strip_suffix('/')).filter(|_| trailing_slash);
    segments.into_iter().chain(without_slash)
}

fn segment_matches(segment: &Segment, text: &str, is_last: bool) -> bool {
    segment.matches(Text::of_path(text), is_last)
}

/// Adds the variable of one part, which took the text between `from` and `to`.
fn capture(part: &Part, from: Option<&str>, to: Option<&str>, out: &mut Variables) {
    match part {
        Part::One(segment) => {
            if let Some(from) = from {
                segment.capture(Text::of_path(cut(from, '/').0), out);
            }
        }
        Part::Any(Some(name)) => {
            let mut value = String::new();
            let mut left = from;
            // Both are ends of one text, so their lengths tell them apart.
            while left.map(str::len) != to.map(str::len)
                && let Some(here) = left
            {
                let (first, rest) = cut(here, '/');
                value.push('/');
                value.push_str(Text::of_path(first).encoded());
                left = rest;
            }
            set_variable(out, name, value);
        }
        Part::Any(None) => {}
    }
}

#[cfg(test)]
mod tests;
