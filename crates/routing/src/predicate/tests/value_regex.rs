//! Expressions that need the backtracking engine.

use super::{Predicate, Request};

#[test]
fn look_around_works_as_in_java() {
    let predicate = Predicate::header("user-agent", Some("^(?!.*(?i:bot)).*"));
    for (value, expected) in [("Mozilla/5.0", true), ("GoogleBot", false), ("a robot", false)] {
        assert_eq!(Request::get().header("user-agent", value.as_bytes()).meets(&predicate), expected, "{value}");
    }
}

#[test]
fn an_expression_that_exceeds_the_backtracking_limit_does_not_match() {
    let predicate = Predicate::query("q", Some(r"(?:(a+)\1?)+b"));
    for (query, expected) in [("q=aab", true), ("q=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false)]
    {
        assert_eq!(Request { query: Some(query), ..Request::get() }.meets(&predicate), expected, "{query}");
    }
}
