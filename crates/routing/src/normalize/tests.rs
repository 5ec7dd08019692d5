#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::borrow::Cow;

use proptest::prelude::*;

use super::{PathError, PathRules, Separator, check_made, keeps_spelling, normalize, normalize_by};
use crate::PathPattern;

#[test]
fn a_normalized_path_is_borrowed() {
    for path in [
        "/",
        "/a",
        "/a/b/",
        "/.well-known/x",
        "/..a",
        "/a%20b",
        "/a%2Fb",
        "/a;v=1/b",
        "/%E2%82%AC",
        "/a|b^{c}[d]",
        "/...",
        "/%0D%0A",
    ] {
        assert!(matches!(normalize(path), Ok(Cow::Borrowed(same)) if same == path), "{path}");
    }
}

#[test]
fn other_spellings_are_normalized() {
    for (path, expected) in [
        ("/%61%2D%7E%5f", "/a-~_"),
        ("/a%2fb", "/a%2Fb"),
        ("/%e2%82%ac", "/%E2%82%AC"),
        ("//", "/"),
        ("//a///b//", "/a/b/"),
        ("/a/./b", "/a/b"),
        ("/a/.", "/a/"),
        ("/a/b/..", "/a/"),
        ("/a/..", "/"),
        ("/.", "/"),
        ("/a/../b", "/b"),
        ("/a/%2e%2E/b", "/b"),
        ("/a//../b", "/b"),
        ("/a/b/../../c", "/c"),
        ("/%252e%252e/a", "/%252e%252e/a"),
        ("/a%2f..b%2fb", "/a%2F..b%2Fb"),
        ("/a%3b", "/a%3B"),
    ] {
        assert_eq!(normalize(path).as_deref(), Ok(expected), "{path}");
    }
}

#[test]
fn paths_that_upstreams_interpret_differently_are_rejected() {
    for (path, expected) in [
        ("", PathError::NotAbsolute),
        ("*", PathError::NotAbsolute),
        ("a/b", PathError::NotAbsolute),
        ("/a%00", PathError::Control),
        ("/a\0", PathError::Control),
        ("/a\r\n", PathError::Control),
        ("/a\u{7f}", PathError::Control),
        ("/%", PathError::MalformedEscape),
        ("/%4", PathError::MalformedEscape),
        ("/%4/1", PathError::MalformedEscape),
        ("/%zz", PathError::MalformedEscape),
        ("/%+1", PathError::MalformedEscape),
        ("/a\\b", PathError::Backslash),
        ("/a%5cb", PathError::Backslash),
        ("/a%5Cb", PathError::Backslash),
        ("/a/..;/b", PathError::DotSegmentParameters),
        ("/a/.;x=1", PathError::DotSegmentParameters),
        ("/a/%2e%2e;x/b", PathError::DotSegmentParameters),
        ("/x/..%3B/login", PathError::DotSegmentParameters),
        ("/x/..%3bv=1/login", PathError::DotSegmentParameters),
        ("/x/..%2Flogin", PathError::DotSegmentSeparator),
        ("/x/y%2f..", PathError::DotSegmentSeparator),
        ("/x/.%2Flogin", PathError::DotSegmentSeparator),
        ("/a%2f..%2fb", PathError::DotSegmentSeparator),
        ("/x/%2e%2e%2Flogin", PathError::DotSegmentSeparator),
        ("/x/y%2F..;v/login", PathError::DotSegmentSeparator),
        ("/;x/login", PathError::EmptySegmentParameters),
        ("/;/login", PathError::EmptySegmentParameters),
        ("/a/;", PathError::EmptySegmentParameters),
        ("/%3Bx/login", PathError::EmptySegmentParameters),
        ("/a%2F;x", PathError::EmptySegmentParameters),
        ("/..", PathError::AboveRoot),
        ("/a/../..", PathError::AboveRoot),
        ("/%2e%2e/a", PathError::AboveRoot),
        ("/\u{20ac}", PathError::NotAscii),
        ("/a b", PathError::Forbidden),
        ("/a#b", PathError::Forbidden),
        ("/a?b", PathError::Forbidden),
        ("/<a>", PathError::Forbidden),
        ("/\"", PathError::Forbidden),
        ("/`", PathError::Forbidden),
    ] {
        assert_eq!(normalize(path), Err(expected), "{path:?}");
    }
}

#[test]
fn encoded_separators_are_kept_decoded_or_rejected() {
    use Separator::{Decode, Keep, Reject};
    let by = |path: &'static str, encoded_slash, backslash| normalize_by(path, PathRules { encoded_slash, backslash });
    for (path, encoded_slash, backslash, expected) in [
        ("/a%2fb", Keep, Reject, Ok("/a%2Fb")),
        ("/a%2fb", Decode, Reject, Ok("/a/b")),
        ("/a%2Fb", Reject, Reject, Err(PathError::EncodedSlash)),
        ("/x/..%2Flogin", Decode, Reject, Ok("/login")),
        ("/a%2F%2Fb", Decode, Reject, Ok("/a/b")),
        ("/x/%2F..;/b", Decode, Reject, Err(PathError::DotSegmentParameters)),
        ("/%252F", Decode, Decode, Ok("/%252F")),
        ("/a\\b", Keep, Keep, Ok("/a%5Cb")),
        ("/a%5cb", Keep, Keep, Ok("/a%5Cb")),
        ("/a\\b%5Cc", Keep, Decode, Ok("/a/b/c")),
        ("/x/..\\login", Keep, Decode, Ok("/login")),
        ("/x/..\\login", Keep, Keep, Err(PathError::DotSegmentSeparator)),
        ("/x/..%5Clogin", Keep, Keep, Err(PathError::DotSegmentSeparator)),
        ("/a\\b", Keep, Reject, Err(PathError::Backslash)),
        ("/a/b", Reject, Reject, Ok("/a/b")),
    ] {
        let normal = by(path, encoded_slash, backslash).map(Cow::into_owned);
        assert_eq!(normal, expected.map(str::to_owned), "{path}");
    }
}

/// Path as a servlet container reads it: decoded, without parameters, empty and dot segments.
fn as_upstream(path: &str) -> Option<Vec<String>> {
    let decoded = path.replace("%2F", "/").replace("%5C", "/").replace("%3B", ";");
    let mut segments = Vec::new();
    for segment in decoded.split('/').map(|segment| segment.split(';').next().unwrap_or_default()) {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()?),
            _ => segments.push(segment.to_owned()),
        }
    }
    Some(segments)
}

/// Path as Tomcat reads it: without parameters, then decoded, without empty and dot segments. `None` if it is refused.
fn as_tomcat(path: &str) -> Option<String> {
    if path.contains("%2F") || path.contains("%5C") || path.contains('\\') {
        return None;
    }
    resolved(path.split('/').map(|segment| decoded(segment.split(';').next().unwrap_or_default())))
}

/// Path as nginx compares it with its locations: decoded, with merged slashes, without dot segments.
fn as_nginx(path: &str) -> Option<String> {
    resolved(decoded(path).split('/').map(str::to_owned))
}

fn decoded(text: &str) -> String {
    [("%2F", "/"), ("%3B", ";"), ("%5C", "\\"), ("%20", " ")]
        .iter()
        .fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

/// Returns the path of `segments`, of which the first is empty. `None` if it leads above its root.
fn resolved(segments: impl Iterator<Item = String>) -> Option<String> {
    let mut names: Vec<String> = Vec::new();
    let mut ends_in_slash = true;
    for segment in segments.skip(1) {
        ends_in_slash = matches!(&*segment, "" | "." | "..");
        match &*segment {
            "" | "." => {}
            ".." => drop(names.pop()?),
            _ => names.push(segment),
        }
    }
    Some(format!("/{}{}", names.join("/"), if ends_in_slash && !names.is_empty() { "/" } else { "" }))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, ..ProptestConfig::default() })]

    #[test]
    fn no_spelling_that_misses_a_pattern_reaches_its_path(path in "/(login|x|/|/|;|;x|\\.|\\.|%3B|%3b|%2F|%2f|%2e|%5C|%20|%6cogin){0,9}") {
        let pattern = PathPattern::parse("/login").unwrap();
        let keep = PathRules { encoded_slash: Separator::Keep, backslash: Separator::Reject };
        for rules in [PathRules::STRICT, keep] {
            let Ok(normal) = normalize_by(&path, rules) else { continue };
            if !pattern.matches(&normal, false) {
                prop_assert!(as_tomcat(&normal).as_deref() != Some("/login"), "{normal}");
                // A kept `%2F` is a separator to nginx; our own form rejects it by default.
                if !normal.contains("%2F") {
                    prop_assert!(as_nginx(&normal).as_deref() != Some("/login"), "{normal}");
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn an_upstream_that_decodes_finds_the_same_segments(path in "/([a.;/]|%2e|%2F|%2f|%3B|%3b|%5C){0,14}") {
        for backslash in [Separator::Keep, Separator::Decode] {
            for encoded_slash in [Separator::Keep, Separator::Decode] {
                if let Ok(normal) = normalize_by(&path, PathRules { encoded_slash, backslash }) {
                    let pieces = normal.split('/').flat_map(|s| s.split("%2F")).flat_map(|s| s.split("%5C"));
                    let names = pieces.map(|s| s.replace("%3B", ";").split(';').next().unwrap_or_default().to_owned());
                    let names: Vec<_> = names.filter(|name| !name.is_empty()).collect();
                    prop_assert_eq!(as_upstream(&normal), Some(names), "{}", normal);
                }
            }
        }
    }

    #[test]
    fn normalizing_twice_changes_nothing(path in "/([a.;/]|%2e|%2F|%2f|%41|%5B|%3b|[ -~]){0,14}") {
        if let Ok(normal) = normalize(&path) {
            let again = normalize(&normal);
            prop_assert!(matches!(again, Ok(Cow::Borrowed(_))));
            prop_assert_eq!(again.as_deref(), Ok(&*normal));
        }
    }

    #[test]
    fn normalized_paths_contain_no_dot_segments_or_empty_segments(path in "/([a.;/]|%2e|%2E|%2F){0,14}") {
        if let Ok(normal) = normalize(&path) {
            prop_assert!(normal.starts_with('/'));
            prop_assert!(!normal.contains("//"));
            for segment in normal.split('/') {
                let name = segment.split(';').next().unwrap();
                prop_assert!(name != "." && name != "..", "{}", normal);
            }
        }
    }

    #[test]
    fn an_unchanged_path_is_borrowed(path in "/([a.;/]|%2e|%2F|%c3){0,10}") {
        if let Ok(normal) = normalize(&path) {
            prop_assert_eq!(matches!(normal, Cow::Borrowed(_)), *normal == *path);
        }
    }
}

#[test]
fn made_paths_keep_their_spelling_and_no_segment_is_read_in_two_ways() {
    for path in
        ["/", "/a", "/a//b", "//a", "/%7Ea", "/%61", "/a%2Fb", "/%2Fa", "/a%5Cb", "/a;x/b", "/a..", "/...", "/%c3%a9"]
    {
        assert_eq!(check_made(path.as_bytes()), Ok(()), "{path}");
    }
    for (path, error) in [
        ("", PathError::NotAbsolute),
        ("a", PathError::NotAbsolute),
        ("/..", PathError::DotSegment),
        ("/a/./b", PathError::DotSegment),
        ("/%2e%2E/b", PathError::DotSegment),
        ("/images/..%2Fadmin", PathError::DotSegmentSeparator),
        ("/images/a%2f..", PathError::DotSegmentSeparator),
        ("/..%5Cb", PathError::DotSegmentSeparator),
        ("/..;x/b", PathError::DotSegmentParameters),
        ("/..%3Bx/b", PathError::DotSegmentParameters),
        ("/a/;x/b", PathError::EmptySegmentParameters),
        ("/a%00", PathError::Control),
        ("/a\n", PathError::Control),
        ("/100%", PathError::MalformedEscape),
        ("/a%2", PathError::MalformedEscape),
        ("/a\\b", PathError::Backslash),
        ("/a b", PathError::Forbidden),
        ("/a?b", PathError::Forbidden),
        ("/é", PathError::NotAscii),
    ] {
        assert_eq!(check_made(path.as_bytes()), Err(error), "{path}");
    }
    assert_eq!(check_made(b"/\xe9"), Err(PathError::NotAscii));
}

#[test]
fn a_received_spelling_is_kept_unless_it_has_another_meaning_when_it_is_resolved() {
    let decode = PathRules { encoded_slash: Separator::Decode, backslash: Separator::Decode };
    let keep = PathRules { encoded_slash: Separator::Keep, backslash: Separator::Keep };
    for (path, rules, is_kept) in [
        ("//a", PathRules::STRICT, true),
        ("/a//b", PathRules::STRICT, true),
        ("/%7Ea%c3%a9", PathRules::STRICT, true),
        ("/https://a/b", PathRules::STRICT, true),
        ("/a%2fb", keep, true),
        ("/a%2fb", decode, false),
        ("/a%5cb", keep, true),
        ("/a%5cb", decode, false),
        ("/a\\b", keep, false),
        ("/a/../b", PathRules::STRICT, false),
        ("/a//./b", PathRules::STRICT, false),
        ("/a/%2E%2e/b", PathRules::STRICT, false),
    ] {
        assert!(normalize_by(path, rules).is_ok(), "{path}");
        assert_eq!(keeps_spelling(path, rules), is_kept, "{path} {rules:?}");
    }
}
