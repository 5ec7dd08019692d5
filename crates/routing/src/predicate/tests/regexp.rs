//! Expressions that the linear engine has not.

use super::super::Predicate;
use super::Request;

#[test]
fn look_around_is_what_it_is_in_java() {
    let predicate = Predicate::header("user-agent", Some("^(?!.*(?i:bot)).*"));
    for (value, expected) in [("Mozilla/5.0", true), ("GoogleBot", false), ("a robot", false)] {
        assert_eq!(Request::get().header("user-agent", value.as_bytes()).meets(&predicate), expected, "{value}");
    }
}

#[test]
fn an_expression_that_takes_too_long_does_not_match() {
    let predicate = Predicate::query("q", Some(r"(?:(a+)\1?)+b"));
    for (query, expected) in [("q=aab", true), ("q=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false)]
    {
        assert_eq!(Request { query: Some(query), ..Request::get() }.meets(&predicate), expected, "{query}");
    }
}
