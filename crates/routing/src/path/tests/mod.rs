#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::PathPattern;
use crate::{PatternError, Variables};

mod reference;

fn pattern(text: &str) -> PathPattern {
    PathPattern::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn captured(text: &str, path: &str, trailing_slash: bool) -> Vec<(String, String)> {
    let mut variables = Variables::new();
    pattern(text).capture(path, trailing_slash, &mut variables);
    variables.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
}

#[test]
fn patterns_match_these_paths() {
    for (text, path) in [
        ("/", "/"),
        ("/a", "/a"),
        ("a/b", "/a/b"),
        ("/a/", "/a/"),
        ("/api/**", "/api"),
        ("/api/**", "/api/"),
        ("/api/**", "/api/a/b"),
        ("/api/**", "/api;v=1/a"),
        ("/**", "/"),
        ("/**", "/a/b/"),
        ("/**/b", "/b"),
        ("/**/b", "/a/x/b"),
        ("/a/**/b/**/c", "/a/b/x/b/c"),
        ("/a/?", "/a/b"),
        ("/a/?", "/a/%C3%BC"),
        ("/a/*", "/a/b"),
        ("/a/*", "/a/"),
        ("/*", "/"),
        ("/a/*/c", "/a/b/c"),
        ("/a/*.html", "/a/x.y.html"),
        ("/a/x*y?z*", "/a/x11y2z"),
        ("/a/x**y", "/a/xzy"),
        ("/a/{v}", "/a/b"),
        ("/a/{v}/c", "/a/b;x=1/c"),
        ("/a/{v:[a-z]+}", "/a/bc"),
        ("/a/{v:\\d{2,3}}", "/a/123"),
        ("/a/{v:x/y}", "/a/x%2Fy"),
        ("/a/v{n}-*.json", "/a/v12-x.json"),
        ("/a/{*v}", "/a/b/c"),
        ("/a/{*v}", "/a"),
        ("/a b", "/a%20b"),
        ("/ü", "/%C3%BC"),
        ("/ab", "/a%62"),
        ("/a/b", "/a;p=1/b;q"),
        ("/{v}-{w}", "/a-b"),
    ] {
        assert!(pattern(text).matches(path, false), "{text} {path}");
    }
}

#[test]
fn patterns_do_not_match_these_paths() {
    for (text, path) in [
        ("/", "/a"),
        ("/a", "/A"),
        ("/a", "/a/"),
        ("/a/", "/a"),
        ("/a/", "/a/;x"),
        ("/api/**", "/apix"),
        ("/api/**", "/"),
        ("/a/?", "/a/bc"),
        ("/a/?", "/a/"),
        ("/a/*", "/a"),
        ("/a/*", "/a/b/c"),
        ("/a/*/c", "/a/;x/c"),
        ("/a/{v}", "/a/"),
        ("/a/{v}", "/a/b/"),
        ("/a/{v}", "/a/;x"),
        ("/a/{v:[a-z]+}", "/a/bc1"),
        ("/a/v{n}.json", "/a/v1.jsonx"),
        ("/a/{v}", "/a/b/c"),
        ("/a/b", "/a%2Fb"),
        ("/a%20b", "/a%20b"),
        ("/**/b", "/a/bx"),
        ("/**", "*"),
        ("/a", "a"),
    ] {
        assert!(!pattern(text).matches(path, false), "{text} {path}");
    }
}

#[test]
fn a_trailing_slash_is_ignored_only_if_requested() {
    for (text, path) in [("/red/{s}", "/red/1/"), ("/a", "/a/"), ("/a/*", "/a/b/"), ("/", "/"), ("/a/", "/a/")] {
        assert!(pattern(text).matches(path, true), "{text} {path}");
    }
    for (text, path) in [("/a/", "/a"), ("/a", "/a/b/"), ("/red/{s}", "/red/"), ("/", "/a/")] {
        assert!(!pattern(text).matches(path, true), "{text} {path}");
    }
}

#[test]
fn variables_keep_their_escapes_and_lose_matrix_parameters() {
    for (text, path, expected) in [
        ("/{a}/{b}", "/x%20y/%C3%BC;p=1", vec![("a", "x%20y"), ("b", "%C3%BC")]),
        ("/{a}", "/x%2Fy", vec![("a", "x%2Fy")]),
        ("/{a}", "/%FF", vec![("a", "%FF")]),
        ("/a/{*rest}", "/a/b;p/c%20d", vec![("rest", "/b/c%20d")]),
        ("/a/{*rest}", "/a/", vec![("rest", "/")]),
        ("/a/{*rest}", "/a", vec![("rest", "")]),
        ("/{*rest}", "/", vec![("rest", "/")]),
        ("/{*rest}/z/{last}", "/x/y/z/q", vec![("rest", "/x/y"), ("last", "q")]),
        ("/{n:\\d+}", "/12", vec![("n", "12")]),
        ("/v{n:(?:1|2)}-{name}.*", "/v2-a.b.c", vec![("n", "2"), ("name", "a.b")]),
        ("/{a:.+}-{b}", "/..%2F%2e%2e-%3fx", vec![("a", "..%2F.."), ("b", "%3Fx")]),
        ("/v{a:(?!2).*+}", "/v1x", vec![("a", "1x")]),
        ("/{a:(?!admin).*}/{b}", "/user/%C3%BC", vec![("a", "user"), ("b", "%C3%BC")]),
        ("/{a:(?!admin).*}/{b}", "/admin/b", vec![]),
        ("/{a}", "/a/b", vec![]),
    ] {
        let expected: Vec<_> = expected.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        assert_eq!(captured(text, path, false), expected, "{text} {path}");
    }
    assert_eq!(captured("/red/{s}", "/red/1/", true), [("s".to_owned(), "1".to_owned())]);
}

#[test]
fn an_invalid_pattern_reports_its_position() {
    let name = |at, name: &str| PatternError::Name { at, name: name.into() };
    for (text, expected) in [
        ("", PatternError::Empty),
        ("/a/{v", PatternError::NotClosed { at: 4 }),
        ("/a/{v:\\}", PatternError::NotClosed { at: 4 }),
        ("/ü/v}", PatternError::NotOpened { at: 5 }),
        ("/{a}{b}", PatternError::Adjacent { at: 5 }),
        ("/x{*v}", PatternError::RestNotAlone { at: 4 }),
        ("/{*v}x", PatternError::RestNotAlone { at: 3 }),
        ("/{}", name(3, "")),
        ("/{1a}", name(3, "1a")),
        ("/{*}", name(4, "")),
        ("/{a{b}}", name(3, "a{b}")),
        ("/{a}/{a}", PatternError::NameTwice { at: 7, name: "a".into() }),
        ("/{a:}", PatternError::NoRegex { at: 5 }),
        ("/a//b", PatternError::Unreachable { at: 4 }),
        ("/a/../b", PatternError::Unreachable { at: 4 }),
        ("a/.", PatternError::Unreachable { at: 3 }),
    ] {
        assert_eq!(PathPattern::parse(text).map(|_| ()), Err(expected), "{text}");
    }
    assert!(matches!(PathPattern::parse("/x/{a:(}"), Err(PatternError::Regex { at: 7, .. })));
    assert!(matches!(PathPattern::parse("/x/{a:\\G.*}"), Err(PatternError::Regex { at: 7, .. })));
    assert!(matches!(PathPattern::parse("/x/{a:(b)\\1}"), Err(PatternError::Regex { at: 7, .. })));
}

#[test]
fn a_pattern_is_displayed_as_written() {
    assert_eq!(pattern("a/{v}").to_string(), "a/{v}");
}
