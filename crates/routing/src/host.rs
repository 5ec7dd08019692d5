//! Host patterns: Spring's `AntPathMatcher` with `.` as the separator.

use std::fmt;

use crate::decision::Decision;
use crate::error::PatternError;
use crate::request::Variables;
use crate::segment::{GlobToken, PatternPart, SegmentPattern, SegmentsPattern};

/// A pattern for the value of `Host` in [normal form](crate::normalize_host). It matches label by label and includes the port, as
/// in Spring; case and a final dot make no difference.
///
/// `?` is one character and `*` any number of them within a label. `**` is any number of labels. `{name}` and
/// `{name:regex}` capture one label. So `**.foo.org` matches `www.foo.org` and `foo.org`, and `**.foo.org:*` matches
/// `www.foo.org:8080`. Unlike in Spring, an expression in braces may contain dots; it is still matched with one label.
#[derive(Clone, Debug, PartialEq)]
pub struct HostPattern(SegmentsPattern<'.'>);

// === impl HostPattern ===

impl HostPattern {
    /// Parses a pattern.
    ///
    /// # Errors
    /// See [`PatternError`].
    pub fn parse(pattern: &str) -> Result<Self, PatternError> {
        SegmentsPattern::parse(pattern).map(Self)
    }

    /// Returns true if `host` certainly matches. Does not allocate.
    #[must_use]
    pub fn matches(&self, host: &str) -> bool {
        self.decide(host) == Decision::Yes
    }

    /// Decides if `host` matches.
    #[must_use]
    pub fn decide(&self, host: &str) -> Decision {
        if self.starts_as(host) { self.0.decide(labels(host)) } else { Decision::No }
    }

    /// Adds the variables of `host` to `out` if it matches.
    pub fn capture(&self, host: &str, out: &mut Variables) {
        if self.starts_as(host) {
            self.0.capture(labels(host), out);
        }
    }

    /// Returns the suffix that all matching hosts share: at most `max_labels` whole labels, without the port, as in
    /// [`suffixes`]. `None` if the pattern does not fix the last label.
    pub(super) fn literal_suffix(&self, max_labels: usize) -> Option<String> {
        let mut parts = self.0.parts.iter().rev();
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
        self.0.variable_names()
    }

    /// Returns true if both or neither of `host` and the pattern start with a dot. Otherwise they do not match.
    fn starts_as(&self, host: &str) -> bool {
        host.starts_with('.') == self.0.text.starts_with('.')
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Returns the suffixes of `host` in whole labels, shortest first. Outer dots and a port are removed.
///
/// If a pattern matches `host` and has a [`HostPattern::literal_suffix`], that suffix is among them.
pub(super) fn suffixes(host: &str) -> impl Iterator<Item = &str> {
    let host = without_outer_dots(host);
    let last = host.rfind('.').map_or(0, |dot| dot + 1);
    let host = &host[..last + before_colon(&host[last..]).len()];
    host.rmatch_indices('.').map(|(dot, _)| &host[dot + 1..]).chain(std::iter::once(host))
}

fn before_colon(label: &str) -> &str {
    label.split(':').next().unwrap_or(label)
}

/// Returns the labels of `host`; `None` if it has none.
fn labels(host: &str) -> Option<&str> {
    Some(without_outer_dots(host)).filter(|labels| !labels.is_empty())
}

fn without_outer_dots(host: &str) -> &str {
    let host = host.strip_prefix('.').unwrap_or(host);
    host.strip_suffix('.').unwrap_or(host)
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
