//! Host patterns: Spring's `AntPathMatcher` with `.` as the separator.

use std::fmt;

use super::pattern_error::PatternError;
use super::request::Variables;
use super::segment::{Dialect, Part, Segment, Text, Token, cut, parse, walk};

const DIALECT: Dialect = Dialect { separator: '.', is_path: false };

/// A pattern for the text of `Host`, label by label, **case-sensitive, the port included**, as in Spring.
///
/// `?` is one character and `*` any number of them within a label, `**` is any number of labels, `{name}` and
/// `{name:regex}` keep what they match. So `**.foo.org` matches `www.foo.org` and `foo.org` but not `www.foo.org:8080`,
/// which `**.foo.org:*` matches. Unlike Spring's, an expression in braces may hold dots; it still sees one label.
#[derive(Clone, Debug)]
pub struct HostPattern {
    text: Box<str>,
    parts: Box<[Part]>,
    starts_with_dot: bool,
    /// None after a last `**`, which takes a dot at the end too.
    ends_with_dot: Option<bool>,
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
        let mut parts = parse(pattern, usize::from(starts_with_dot), DIALECT)?;
        let ends_with_dot = matches!(parts.last(), Some(Part::One(Segment::Empty)));
        if ends_with_dot {
            parts.pop();
        }
        let takes_all = matches!(parts.last(), Some(Part::Any(_))) && !ends_with_dot;
        Ok(Self {
            text: pattern.into(),
            parts: parts.into(),
            starts_with_dot,
            ends_with_dot: (!takes_all).then_some(ends_with_dot),
        })
    }

    /// Whether `host` matches. Allocates nothing.
    #[must_use]
    pub fn matches(&self, host: &str) -> bool {
        self.labels(host).is_some_and(|labels| walk(&self.parts, labels, '.', label_matches, |_, _| {}))
    }

    /// Adds the variables of a `host` that matches to `out`, and nothing for one that does not.
    pub fn captures(&self, host: &str, out: &mut Variables) {
        let Some(labels) = self.labels(host) else { return };
        let mut starts = vec![None; self.parts.len() + 1];
        let record = |part: usize, left| starts.get_mut(part).map_or((), |start| *start = left);
        if walk(&self.parts, labels, '.', label_matches, record) {
            for (part, start) in self.parts.iter().zip(&starts) {
                if let (Part::One(label), Some(text)) = (part, start) {
                    label.capture(Text::of_host(cut(text, '.').0), out);
                }
            }
        }
    }

    /// What every host that matches ends in, as far as it is whole labels; `max_labels` of them at most. The port is left
    /// out, as [`endings`] leaves it out. None where nothing is known of the last label.
    pub(super) fn literal_ending(&self, max_labels: usize) -> Option<String> {
        let mut parts = self.parts.iter().rev();
        let mut ending = match parts.next() {
            Some(Part::One(Segment::Literal(label))) => before_colon(label).to_owned(),
            // `org:*`: the text before the colon is that of the host.
            Some(Part::One(Segment::Glob(tokens))) => match tokens.first() {
                Some(Token::Literal(start)) if start.contains(':') => before_colon(start).to_owned(),
                _ => return None,
            },
            _ => return None,
        };
        for part in parts.take(max_labels.saturating_sub(1)) {
            let Part::One(Segment::Literal(label)) = part else { break };
            ending = format!("{label}.{ending}");
        }
        Some(ending)
    }

    /// The names of its variables.
    pub(super) fn variable_names(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().flat_map(Part::variables).map(|name| &**name)
    }

    /// The labels of a host whose outer dots agree with the pattern's.
    fn labels<'h>(&self, host: &'h str) -> Option<Option<&'h str>> {
        if host.starts_with('.') != self.starts_with_dot {
            return None;
        }
        let host = host.strip_prefix('.').unwrap_or(host);
        if self.ends_with_dot.is_some_and(|ends| ends != host.ends_with('.')) {
            return None;
        }
        let labels = host.strip_suffix('.').unwrap_or(host);
        Some(Some(labels).filter(|labels| !labels.is_empty()))
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The host of `host[:port]`; an IPv6 address keeps its brackets.
pub(super) fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !in_brackets(name) => name,
        _ => host,
    }
}

/// Whether `name` ends within the brackets of an IPv6 address.
fn in_brackets(name: &str) -> bool {
    name.starts_with('[') && !name.ends_with(']')
}

/// The endings of `host` by whole labels, shortest first, without outer dots and without what follows a colon in the
/// last label: every pattern that matches `host` has its [`HostPattern::literal_ending`] among them, if it has one.
pub(super) fn endings(host: &str) -> impl Iterator<Item = &str> {
    let host = host.strip_prefix('.').unwrap_or(host);
    let host = host.strip_suffix('.').unwrap_or(host);
    let last = host.rfind('.').map_or(0, |dot| dot + 1);
    let host = &host[..last + before_colon(&host[last..]).len()];
    host.rmatch_indices('.').map(|(dot, _)| &host[dot + 1..]).chain(std::iter::once(host))
}

fn before_colon(label: &str) -> &str {
    label.split(':').next().unwrap_or(label)
}

fn label_matches(label: &Segment, text: &str, is_last: bool) -> bool {
    label.matches(Text::of_host(text), is_last)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::{HostPattern, endings, without_port};
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
            ("a.**.b.**.c", "a.x.b.b.y.c"),
        ] {
            assert!(matches(pattern, host), "{pattern} {host}");
        }
        for (pattern, host) in [
            ("foo.org", "FOO.org"),
            ("foo.org", "foo.org:8080"),
            ("**.foo.org", "www.foo.org:8080"),
            ("**.foo.org:*", "www.foo.org"),
            ("**.foo.org", "xfoo.org"),
            ("*.foo.org", "a.b.foo.org"),
            ("*.foo.org", "foo.org"),
            ("w?w.foo.org", "ww.foo.org"),
            ("{sub:[a-z]+}.foo.org", "w1.foo.org"),
            ("foo.org", "foo.org."),
            ("foo.org.", "foo.org"),
            ("foo.org", ".foo.org"),
            ("**.foo.org", "foo.org."),
            ("foo.org", ""),
        ] {
            assert!(!matches(pattern, host), "{pattern} {host}");
        }
    }

    #[test]
    fn variables_hold_their_labels() {
        let mut variables = Vec::new();
        HostPattern::parse("**.{tenant}.{kind:a|b}-x.org:{port}")
            .unwrap()
            .captures("www.eu.acme.a-x.org:8080", &mut variables);
        let pairs: Vec<_> = variables.iter().map(|(name, value)| (&**name, &**value)).collect();
        assert_eq!(pairs, [("tenant", "acme"), ("kind", "a"), ("port", "8080")]);
    }

    #[test]
    fn a_port_is_left_out_of_names_and_addresses() {
        for (host, expected) in [
            ("a.org:80", "a.org"),
            ("a.org", "a.org"),
            ("a.org:", "a.org"),
            ("a.org:x", "a.org:x"),
            ("[::1]:80", "[::1]"),
            ("[::1]", "[::1]"),
            ("", ""),
        ] {
            assert_eq!(without_port(host), expected, "{host}");
        }
    }

    #[test]
    fn endings_are_told_by_whole_labels() {
        let ending = |pattern: &str| HostPattern::parse(pattern).unwrap().literal_ending(3);
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
            assert_eq!(ending(pattern).as_deref(), expected, "{pattern}");
        }
        assert_eq!(endings("a.b.org:80").collect::<Vec<_>>(), ["org", "b.org", "a.b.org"]);
        assert_eq!(endings(".org.").collect::<Vec<_>>(), ["org"]);
        assert_eq!(endings("").collect::<Vec<_>>(), [""]);
    }

    #[test]
    fn a_broken_pattern_is_refused() {
        assert_eq!(HostPattern::parse("").unwrap_err(), PatternError::Empty);
        assert_eq!(HostPattern::parse("{a.org").unwrap_err(), PatternError::NotClosed { at: 1 });
        assert_eq!(HostPattern::parse("{a}.{a}").unwrap_err(), PatternError::NameTwice { at: 6, name: "a".into() });
    }
}
