#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::borrow::Cow;

use proptest::prelude::*;

use super::{PathError, normalize};

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
        ("/a%2f..%2fb", "/a%2F..%2Fb"),
        ("/%3b", "/%3B"),
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

proptest! {
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
