//! A slow reference matcher, written from the definitions alone. It reads a pattern character by character and tries
//! every division of the path between its parts. `PathPattern` must give the same results, variables included.

use proptest::prelude::*;
use regex::Regex;

use super::{captured, pattern};
use crate::{PathPattern, Variables};

/// Names and decoded values of variables.
type Values = Vec<(String, String)>;

/// A segment of the path.
#[derive(Clone)]
struct Segment {
    /// True if the segment is empty and has no parameters.
    raw_is_empty: bool,
    /// Decoded, without parameters.
    value: Vec<char>,
}

/// A piece of a segment of the pattern.
enum Piece {
    Char(char),
    AnyChar,
    AnyChars,
    Variable(String, Option<Regex>),
}

fn segment(text: &str) -> Segment {
    let (mut bytes, mut rest) = (Vec::new(), text.split(';').next().unwrap().bytes());
    while let Some(byte) = rest.next() {
        let digits: Vec<u8> = if byte == b'%' { rest.by_ref().take(2).collect() } else { Vec::new() };
        let escape = std::str::from_utf8(&digits).unwrap();
        bytes.push(if byte == b'%' { u8::from_str_radix(escape, 16).unwrap() } else { byte });
    }
    Segment { raw_is_empty: text.is_empty(), value: String::from_utf8(bytes).unwrap().chars().collect() }
}

/// Returns the variables if the path matches.
fn matched(pattern: &str, path: &str, trailing_slash: bool) -> Option<Values> {
    let parts: Vec<&str> = pattern[1..].split('/').collect();
    let path: Vec<Segment> = path[1..].split('/').map(segment).collect();
    let (last, shorter) = path.split_last().unwrap();
    let without_slash = (trailing_slash && last.raw_is_empty && !shorter.is_empty()).then_some(shorter);
    segments(&parts, &path).or_else(|| segments(&parts, without_slash?))
}

fn segments(parts: &[&str], path: &[Segment]) -> Option<Values> {
    let [first, rest @ ..] = parts else { return path.is_empty().then(Values::new) };
    let name = first.strip_prefix("{*").and_then(|name| name.strip_suffix('}'));
    if *first == "**" || name.is_some() {
        // As few as possible, or all remaining segments at the end of the pattern.
        let fewest = if rest.is_empty() { path.len() } else { 0 };
        return (fewest..=path.len()).find_map(|taken| {
            let later = segments(rest, &path[taken..])?;
            let text = path[..taken].iter().map(|segment| format!("/{}", segment.value.iter().collect::<String>()));
            let own = name.map(|name| (name.to_owned(), text.collect()));
            Some(own.into_iter().chain(later).collect())
        });
    }
    let [here, left @ ..] = path else { return None };
    let pieces = pieces(first);
    let has_variable = pieces.iter().any(|piece| matches!(piece, Piece::Variable(..)));
    let own = match pieces.as_slice() {
        [] => here.raw_is_empty.then(Values::new),
        [Piece::AnyChars] => (!here.value.is_empty() || rest.is_empty()).then(Values::new),
        _ if has_variable && here.value.is_empty() => None,
        pieces => within(pieces, &here.value),
    }?;
    Some(own.into_iter().chain(segments(rest, left)?).collect())
}

fn pieces(part: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut chars = part.chars();
    while let Some(char) = chars.next() {
        pieces.push(match char {
            '?' => Piece::AnyChar,
            '*' => Piece::AnyChars,
            '{' => {
                let mut depth = 1;
                let inside = chars.by_ref().take_while(|char| {
                    depth += i32::from(*char == '{') - i32::from(*char == '}');
                    depth > 0
                });
                let inside: String = inside.collect();
                match inside.split_once(':') {
                    Some((name, regex)) => Piece::Variable(name.into(), Regex::new(&format!("^(?:{regex})$")).ok()),
                    None => Piece::Variable(inside, None),
                }
            }
            char => Piece::Char(char),
        });
    }
    pieces
}

/// Wildcards and variables take as much as possible, from left to right.
fn within(pieces: &[Piece], text: &[char]) -> Option<Values> {
    let [first, rest @ ..] = pieces else { return text.is_empty().then(Values::new) };
    match first {
        Piece::Char(char) => (text.first() == Some(char)).then(|| within(rest, &text[1..]))?,
        Piece::AnyChar => (!text.is_empty()).then(|| within(rest, &text[1..]))?,
        Piece::AnyChars => (0..=text.len()).rev().find_map(|taken| within(rest, &text[taken..])),
        Piece::Variable(name, regex) => (0..=text.len()).rev().find_map(|taken| {
            let own: String = text[..taken].iter().collect();
            regex.as_ref().is_none_or(|regex| regex.is_match(&own)).then_some(())?;
            let later = within(rest, &text[taken..])?;
            Some(std::iter::once((name.clone(), own)).chain(later).collect())
        }),
    }
}

/// A segment of a pattern; each `#` becomes a unique name.
fn part() -> impl Strategy<Value = String> {
    let special = vec![
        "{#}",
        "{#}",
        "{#:[ab]+}",
        "{#:[^x]*}",
        r"{#:\d{1,2}}",
        "x{#}",
        "{#}x{#}",
        "{#:[ab]+}-{#}",
        "?{#}*",
        "*{#:b+}",
        "{*#}",
        "{*#}",
    ];
    prop_oneof![
        3 => "[abx]{1,2}",
        2 => "[ab?*]{1,5}",
        1 => Just("*".to_owned()),
        2 => Just("**".to_owned()),
        1 => Just("a b".to_owned()),
        1 => Just("a/b".to_owned()),
        4 => prop::sample::select(special).prop_map(str::to_owned),
    ]
}

/// Returns a path that probably matches `parts`.
fn likely(parts: &[String], fill: &[String]) -> String {
    let instance = |part: &String| match part.as_str() {
        "**" | "{*#}" => fill.join("/"),
        "*" | "{#}" => fill.first().cloned().unwrap_or_default(),
        "{#:[ab]+}" => "ab".to_owned(),
        "{#:[^x]*}" => "b%31".to_owned(),
        r"{#:\d{1,2}}" => "12".to_owned(),
        "{#}x{#}" => "axbx%20".to_owned(),
        "{#:[ab]+}-{#}" => "ab-x".to_owned(),
        "*{#:b+}" => "abb;c".to_owned(),
        other => other.replace("{#}", "x1").replace('?', "a").replace('*', "b").replace(' ', "%20"),
    };
    let segments: Vec<String> = parts.iter().map(instance).filter(|segment| !segment.is_empty()).collect();
    format!("/{}", segments.join("/"))
}

fn with_names(template: &str) -> String {
    let mut names = 0..;
    let name = |char: char| match char {
        '#' => format!("v{}", names.next().unwrap_or(0)),
        _ => char.to_string(),
    };
    template.chars().map(name).collect()
}

fn path() -> impl Strategy<Value = String> {
    let segment = prop_oneof![
        5 => "[abx]{1,4}",
        2 => "[abx1]{0,2}-[ab2]{0,2}",
        1 => "[12]{1,3}",
        1 => "[ab]?;[a]?",
        1 => "[ab]?(%20|%2F|%C3%BC)[ab]?",
        1 => "(%61|%62|%78){1,3}",
    ];
    (prop::collection::vec(segment, 0..6), any::<bool>()).prop_map(|(segments, slash)| {
        let joined = format!("/{}", segments.join("/"));
        if slash && !joined.ends_with('/') { joined + "/" } else { joined }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_a_pattern_or_an_error(text in "([/{}*?:a.ü()\\[\\]+]|\\\\){0,14}") {
        if let Ok(pattern) = PathPattern::parse(&text) {
            let mut variables = Variables::new();
            pattern.capture("/a/%C3%BC;x/", true, &mut variables);
            prop_assert!(variables.is_empty() || pattern.matches("/a/%C3%BC;x/", true));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1200) })]

    #[test]
    fn the_matcher_agrees_with_the_reference(
        mut parts in prop::collection::vec(part(), 0..5),
        slash in any::<bool>(),
        random in path(),
        fill in prop::option::of(prop::collection::vec("[abx]{1,2}(%20|;a)?", 0..3)),
        trailing_slash in any::<bool>(),
    ) {
        let path = fill.map_or(random, |fill| likely(&parts, &fill));
        if slash || parts.is_empty() {
            parts.push(String::new());
        }
        let text = with_names(&format!("/{}", parts.join("/")));
        let expected = matched(&text, &path, trailing_slash);
        prop_assert_eq!(pattern(&text).matches(&path, trailing_slash), expected.is_some(), "{} {}", text, path);
        let decoded = |(name, value): (String, String)| (name, segment(&value).value.into_iter().collect::<String>());
        let captured: Values = captured(&text, &path, trailing_slash).into_iter().map(decoded).collect();
        prop_assert_eq!(captured, expected.unwrap_or_default(), "{} {}", text, path);
    }
}

#[test]
fn the_reference_agrees_with_the_documented_table() {
    for (pattern, path, expected) in [
        ("/api/**", "/api", true),
        ("/api/**", "/apix", false),
        ("/a/*", "/a/", true),
        ("/a/*/c", "/a/;x/c", false),
        ("/a/{v}", "/a/", false),
        ("/**/b", "/a/x/b", true),
        ("/a/{*rest}", "/a", true),
        ("/a/?", "/a/%C3%BC", true),
    ] {
        assert_eq!(matched(pattern, path, false).is_some(), expected, "{pattern} {path}");
    }
}
