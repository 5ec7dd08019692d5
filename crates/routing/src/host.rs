//! Host patterns: Spring's `AntPathMatcher` with `.` as the separator.

use std::fmt;

use crate::decision::Decision;
use crate::pattern_error::PatternError;
use crate::request::Variables;
use crate::segment::{
    GlobToken, PatternKind, PatternPart, SegmentPattern, SegmentText, decide_segments, match_segments, parse,
    split_segment,
};

const SEPARATOR: char = PatternKind::Host.separator();

/// A pattern for the value of `Host` in [normal form](crate::normalize_host). It matches label by label and includes the port, as
/// in Spring; case and a final dot make no difference.
///
/// `?` is one character and `*` any number of them within a label. `**` is any number of labels. `{name}` and
/// `{name:regex}` capture one label. So `**.foo.org` matches `www.foo.org` and `foo.org`, and `**.foo.org:*` matches
/// `www.foo.org:8080`. Unlike in Spring, an expression in braces may contain dots; it is still matched with one label.
#[derive(Clone, Debug)]
pub struct HostPattern {
    text: Box<str>,
    parts: Box<[PatternPart]>,
    starts_with_dot: bool,
}

// === impl HostPattern ===

impl HostPattern {
    /// Parses a pattern.
    ///
    /// # Errors
    /// See [`PatternError`].
    pub fn parse(pattern: &str) -> Result<Self, PatternError> {
        if pattern.is_empty() {
            return Err(PatternError::Empty);
        }
        let starts_with_dot = pattern.starts_with('.');
        let mut parts = parse(pattern, usize::from(starts_with_dot), PatternKind::Host)?;
        if matches!(parts.last(), Some(PatternPart::Segment(SegmentPattern::Empty))) {
            parts.pop();
        }
        Ok(Self { text: pattern.into(), parts: parts.into(), starts_with_dot })
    }

    /// Returns true if `host` certainly matches. Does not allocate.
    #[must_use]
    pub fn matches(&self, host: &str) -> bool {
        self.decide(host) == Decision::Yes
    }

    /// Decides if `host` matches.
    #[must_use]
    pub fn decide(&self, host: &str) -> Decision {
        let Some(labels) = self.labels(host) else { return Decision::No };
        decide_segments(&self.parts, labels, SEPARATOR, |label, text, is_last| {
            label.decide(SegmentText::of_host(text), is_last)
        })
    }

    /// Adds the variables of `host` to `out` if it matches.
    pub fn capture(&self, host: &str, out: &mut Variables) {
        let Some(labels) = self.labels(host) else { return };
        let mut starts = vec![None; self.parts.len() + 1];
        let record = |part: usize, remaining| starts.get_mut(part).map_or((), |start| *start = remaining);
        if match_segments(&self.parts, labels, SEPARATOR, label_matches, record) {
            for (part, start) in self.parts.iter().zip(&starts) {
                if let (PatternPart::Segment(label), Some(text)) = (part, start) {
                    label.capture(SegmentText::of_host(split_segment(text, SEPARATOR).0), out);
                }
            }
        }
    }

    /// Returns the suffix that all matching hosts share: at most `max_labels` whole labels, without the port, as in
    /// [`suffixes`]. `None` if the pattern does not fix the last label.
    pub(super) fn literal_suffix(&self, max_labels: usize) -> Option<String> {
        let mut parts = self.parts.iter().rev();
        let mut suffix = match parts.next() {
            Some(PatternPart::Segment(SegmentPattern::Literal(label))) => before_colon(label).to_owned(),
            // `org:*`: the text before the colon is a whole label.
            Some(PatternPart::Segment(SegmentPattern::Glob(tokens))) => match tokens.first() {
                Some(GlobToken::Literal(start)) if start.contains(':') => before_colon(start).to_owned(),
                _ => return None,
            },
            _ => return None,
        };
        for part in parts.take(max_labels.saturating_sub(1)) {
            let PatternPart::Segment(SegmentPattern::Literal(label)) = part else { break };
            suffix = format!("{label}.{suffix}");
        }
        Some(suffix)
    }

    /// Returns the names of the variables.
    pub(super) fn variable_names(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().flat_map(PatternPart::variable_names).map(|name| &**name)
    }

    /// Returns `host` without its first and last dot; `Some(None)` if it has no labels. `None` if only one of `host` and
    /// the pattern starts with a dot, so that they cannot match.
    fn labels<'h>(&self, host: &'h str) -> Option<Option<&'h str>> {
        if host.starts_with('.') != self.starts_with_dot {
            return None;
        }
        let host = host.strip_prefix('.').unwrap_or(host);
        let labels = host.strip_suffix('.').unwrap_or(host);
        Some(Some(labels).filter(|labels| !labels.is_empty()))
    }
}

/// The text decides what is parsed.
impl PartialEq for HostPattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Returns the suffixes of `host` in whole labels, shortest first. Outer dots and a port are removed.
///
/// If a pattern matches `host` and has a [`HostPattern::literal_suffix`], that suffix is among them.
pub(super) fn suffixes(host: &str) -> impl Iterator<Item = &str> {
    let host = host.strip_prefix('.').unwrap_or(host);
    let host = host.strip_suffix('.').unwrap_or(host);
    let last = host.rfind('.').map_or(0, |dot| dot + 1);
    let host = &host[..last + before_colon(&host[last..]).len()];
    host.rmatch_indices('.').map(|(dot, _)| &host[dot + 1..]).chain(std::iter::once(host))
}

fn before_colon(label: &str) -> &str {
    label.split(':').next().unwrap_or(label)
}

fn label_matches(label: &SegmentPattern, text: &str, is_last: bool) -> bool {
    label.decide(SegmentText::of_host(text), is_last) == Decision::Yes
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::{HostPattern, suffixes};
    use crate::PatternError;

    fn matches(pattern: &str, host: &str) -> bool {
        HostPattern::parse(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}")).matches(host)
    }

    #[test]
    fn hosts_match_label_by_label() {
        for (pattern, host) in [
            ("foo.org", "foo.org"),
            ("**.foo.org", "www.foo.org"),
            ("**.foo.org", "foo.org"),
            ("**.foo.org", "a.b.foo.org"),
            ("**.foo.org:*", "www.foo.org:8080"),
            ("**.foo.org:8080", "www.foo.org:8080"),
            ("*.foo.org", "www.foo.org"),
            ("w?w.foo.org", "wxw.foo.org"),
            ("foo.**", "foo.org"),
            ("foo.**", "foo"),
            ("foo.**", "foo.org."),
            ("**", "anything:80"),
            ("{sub}.foo.org", "www.foo.org"),
            ("{sub:[a-z]+}.foo.org", "www.foo.org"),
            ("{sub:a.c}.foo.org", "abc.foo.org"),
            ("{a}-{b}.foo.org", "x-y.foo.org"),
            ("foo.org.", "foo.org."),
            ("foo.org.", "foo.org"),
            ("foo.org", "foo.org."),
            ("**.foo.org", "foo.org."),
            ("**.Foo.ORG", "www.foo.org"),
            ("W?W.foo.org", "wxw.foo.org"),
            ("{sub:[A-Z]+}.foo.org", "www.foo.org"),
            ("a.**.b.**.c", "a.x.b.b.y.c"),
        ] {
            assert!(matches(pattern, host), "{pattern} {host}");
        }
        for (pattern, host) in [
            ("foo.org", "foo.org:8080"),
            ("**.foo.org", "www.foo.org:8080"),
            ("**.foo.org:*", "www.foo.org"),
            ("**.foo.org", "xfoo.org"),
            ("*.foo.org", "a.b.foo.org"),
            ("*.foo.org", "foo.org"),
            ("w?w.foo.org", "ww.foo.org"),
            ("{sub:[a-z]+}.foo.org", "w1.foo.org"),
            ("foo.org", ".foo.org"),
            ("foo.org", ""),
        ] {
            assert!(!matches(pattern, host), "{pattern} {host}");
        }
    }

    #[test]
    fn variables_capture_their_labels() {
        let mut variables = Vec::new();
        HostPattern::parse("**.{tenant}.{kind:a|b}-x.org:{port}")
            .unwrap()
            .capture("www.eu.acme.a-x.org:8080", &mut variables);
        let pairs: Vec<_> = variables.iter().map(|(name, value)| (&**name, &**value)).collect();
        assert_eq!(pairs, [("tenant", "acme"), ("kind", "a"), ("port", "8080")]);
    }

    #[test]
    fn suffixes_consist_of_whole_labels() {
        let suffix = |pattern: &str| HostPattern::parse(pattern).unwrap().literal_suffix(3);
        for (pattern, expected) in [
            ("**.foo.org", Some("foo.org")),
            ("**.foo.org:*", Some("foo.org")),
            ("a.b.c.foo.org:80", Some("c.foo.org")),
            ("{x}.org", Some("org")),
            ("x*.foo.org", Some("foo.org")),
            ("foo.org.", Some("foo.org")),
            ("foo.**", None),
            ("foo.o?g", None),
            ("foo.org*", None),
            ("foo.{tld}", None),
        ] {
            assert_eq!(suffix(pattern).as_deref(), expected, "{pattern}");
        }
        assert_eq!(suffixes("a.b.org:80").collect::<Vec<_>>(), ["org", "b.org", "a.b.org"]);
        assert_eq!(suffixes(".org.").collect::<Vec<_>>(), ["org"]);
        assert_eq!(suffixes("").collect::<Vec<_>>(), [""]);
    }

    #[test]
    fn an_invalid_pattern_is_an_error() {
        assert_eq!(HostPattern::parse("").unwrap_err(), PatternError::Empty);
        assert_eq!(HostPattern::parse("{a.org").unwrap_err(), PatternError::NotClosed { at: 1 });
        assert_eq!(HostPattern::parse("{a}.{a}").unwrap_err(), PatternError::NameTwice { at: 6, name: "a".into() });
    }
}
