#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::borrow::Cow;

use proptest::prelude::*;

use super::{PathProblem, normalize};

#[test]
fn a_normal_path_is_borrowed() {
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
fn other_spellings_get_the_one_normal_form() {
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
fn what_upstreams_read_differently_is_refused() {
    for (path, expected) in [
        ("", PathProblem::NotAbsolute),
        ("*", PathProblem::NotAbsolute),
        ("a/b", PathProblem::NotAbsolute),
        ("/a%00", PathProblem::Control),
        ("/a\0", PathProblem::Control),
        ("/a\r\n", PathProblem::Control),
        ("/a\u{7f}", PathProblem::Control),
        ("/%", PathProblem::MalformedEscape),
        ("/%4", PathProblem::MalformedEscape),
        ("/%4/1", PathProblem::MalformedEscape),
        ("/%zz", PathProblem::MalformedEscape),
        ("/%+1", PathProblem::MalformedEscape),
        ("/a\\b", PathProblem::Backslash),
        ("/a%5cb", PathProblem::Backslash),
        ("/a%5Cb", PathProblem::Backslash),
        ("/a/..;/b", PathProblem::DotSegmentParameters),
        ("/a/.;x=1", PathProblem::DotSegmentParameters),
        ("/a/%2e%2e;x/b", PathProblem::DotSegmentParameters),
        ("/..", PathProblem::AboveRoot),
        ("/a/../..", PathProblem::AboveRoot),
        ("/%2e%2e/a", PathProblem::AboveRoot),
        ("/\u{20ac}", PathProblem::NotAscii),
        ("/a b", PathProblem::Forbidden),
        ("/a#b", PathProblem::Forbidden),
        ("/a?b", PathProblem::Forbidden),
        ("/<a>", PathProblem::Forbidden),
        ("/\"", PathProblem::Forbidden),
        ("/`", PathProblem::Forbidden),
    ] {
        assert_eq!(normalize(path), Err(expected), "{path:?}");
    }
}

proptest! {
    #[test]
    fn the_normal_form_is_its_own_normal_form(path in "/([a.;/]|%2e|%2F|%2f|%41|%5B|%3b|[ -~]){0,14}") {
        if let Ok(normal) = normalize(&path) {
            let again = normalize(&normal);
            prop_assert!(matches!(again, Ok(Cow::Borrowed(_))));
            prop_assert_eq!(again.as_deref(), Ok(&*normal));
        }
    }

    #[test]
    fn no_normal_form_holds_a_dot_segment_or_an_empty_one(path in "/([a.;/]|%2e|%2E|%2F){0,14}") {
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
    fn a_borrowed_answer_is_given_whenever_nothing_changes(path in "/([a.;/]|%2e|%2F|%c3){0,10}") {
        if let Ok(normal) = normalize(&path) {
            prop_assert_eq!(matches!(normal, Cow::Borrowed(_)), *normal == *path);
        }
    }
}
