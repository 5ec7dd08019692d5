#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use proptest::prelude::*;

use super::PathPattern;
use crate::routing::{PatternError, Variables};

fn pattern(text: &str) -> PathPattern {
    PathPattern::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn captured(text: &str, path: &str, trailing_slash: bool) -> Vec<(String, String)> {
    let mut variables = Variables::new();
    pattern(text).captures(path, trailing_slash, &mut variables);
    variables.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
}

#[test]
fn paths_that_match() {
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
fn paths_that_do_not_match() {
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
fn a_trailing_slash_may_be_ignored_when_asked() {
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
fn a_broken_pattern_says_where() {
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
fn a_pattern_shows_as_it_was_written() {
    assert_eq!(pattern("a/{v}").to_string(), "a/{v}");
}

/// A slow matcher that tries every division.
mod reference {
    /// The value of a segment, and whether it is wholly empty.
    type Segment = (String, bool);

    fn decode(segment: &str) -> Segment {
        let value = segment.split(';').next().unwrap();
        (value.replace("%20", " ").replace("%2F", "/").replace("%C3%BC", "ü"), segment.is_empty())
    }

    pub(super) fn matches(pattern: &str, path: &str, trailing_slash: bool) -> bool {
        let parts: Vec<&str> = pattern[1..].split('/').collect();
        let path: Vec<Segment> = path[1..].split('/').map(decode).collect();
        let shorter = trailing_slash && path.len() > 1 && path.last().unwrap().1;
        segments(&parts, &path) || (shorter && segments(&parts, &path[..path.len() - 1]))
    }

    fn segments(parts: &[&str], path: &[Segment]) -> bool {
        match parts {
            [] => path.is_empty(),
            ["**", rest @ ..] => (0..=path.len()).any(|taken| segments(rest, &path[taken..])),
            [first, rest @ ..] => match path {
                [] => false,
                [segment, others @ ..] => one(first, segment, rest.is_empty()) && segments(rest, others),
            },
        }
    }

    fn one(part: &str, (value, is_blank): &Segment, is_last: bool) -> bool {
        match part {
            "" => *is_blank,
            "*" => is_last || !value.is_empty(),
            "{v}" => !value.is_empty(),
            "{w:[ab]+}" => !value.is_empty() && value.chars().all(|char| "ab".contains(char)),
            "x{u}" => value.starts_with('x'),
            _ => glob(&part.chars().collect::<Vec<_>>(), &value.chars().collect::<Vec<_>>()),
        }
    }

    fn glob(pattern: &[char], text: &[char]) -> bool {
        match pattern {
            [] => text.is_empty(),
            ['*', rest @ ..] => (0..=text.len()).any(|taken| glob(rest, &text[taken..])),
            ['?', rest @ ..] => !text.is_empty() && glob(rest, &text[1..]),
            [char, rest @ ..] => text.first() == Some(char) && glob(rest, &text[1..]),
        }
    }
}

fn part() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => "[abx]{1,2}",
        2 => "[ab?*]{1,5}",
        1 => Just("*".to_owned()),
        2 => Just("**".to_owned()),
        1 => Just("a b".to_owned()),
    ]
}

fn path() -> impl Strategy<Value = String> {
    let segment = prop_oneof![5 => "[abx]{1,4}", 1 => "[ab]?;[a]?", 1 => "[ab]?(%20|%2F|%C3%BC)[ab]?"];
    (prop::collection::vec(segment, 0..5), any::<bool>()).prop_map(|(segments, slash)| {
        let joined = format!("/{}", segments.join("/"));
        if slash && !joined.ends_with('/') { joined + "/" } else { joined }
    })
}

proptest! {
    #[test]
    fn any_text_is_a_pattern_or_an_error(text in "([/{}*?:a.ü()\\[\\]+]|\\\\){0,14}") {
        if let Ok(pattern) = PathPattern::parse(&text) {
            let mut variables = Variables::new();
            pattern.captures("/a/%C3%BC;x/", true, &mut variables);
            prop_assert!(variables.is_empty() || pattern.matches("/a/%C3%BC;x/", true));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn the_matcher_equals_one_that_tries_everything(
        mut parts in prop::collection::vec(part(), 0..5),
        special in prop::option::of((0_usize..5, prop::sample::select(vec!["{v}", "{w:[ab]+}", "x{u}"]))),
        slash in any::<bool>(),
        path in path(),
        trailing_slash in any::<bool>(),
    ) {
        if let Some((at, special)) = special {
            parts.insert(at.min(parts.len()), special.to_owned());
        }
        if slash || parts.is_empty() {
            parts.push(String::new());
        }
        let text = format!("/{}", parts.join("/"));
        prop_assert_eq!(
            pattern(&text).matches(&path, trailing_slash),
            reference::matches(&text, &path, trailing_slash),
            "{} {}", text, path
        );
    }
}
