//! How predicates show, and what is said of broken ones.

use std::error::Error;

use super::{AllOf, Predicate, PredicateError, texts};

#[test]
fn predicates_show_as_spring_shows_them() {
    let shown = |predicate: Result<Predicate, PredicateError>| predicate.unwrap().to_string();
    assert_eq!(
        shown(Predicate::path(&texts(&["/orders/**", "b"]), false)),
        "Paths: [/orders/**, b], match trailing slash: false"
    );
    assert_eq!(shown(Predicate::method(&texts(&["GET", "post"]))), "Methods: [GET, POST]");
    assert_eq!(shown(Predicate::host(&texts(&["**.a.org"]))), "Hosts: [**.a.org]");
    assert_eq!(shown(Predicate::header("X-Id", Some(r"\d+"))), r"Header: X-Id regexp=\d+");
    assert_eq!(shown(Predicate::header("X-Id", None)), "Header: X-Id regexp=null");
    assert_eq!(shown(Predicate::query("q", None)), "Query: param=q regexp=null");
    assert_eq!(shown(Predicate::cookie("c", "a|b")), "Cookie: name=c regexp=a|b");
    assert_eq!(shown(Predicate::between("1", "2")), "Between: 1 and 2");
    assert_eq!(shown(Predicate::remote_addr(&texts(&["10.0.0.1/8"]))), "RemoteAddrs: [10.0.0.1/8]");
    let method = Predicate::method(&texts(&["GET"])).unwrap();
    assert_eq!(AllOf(&[]).to_string(), "");
    assert_eq!(AllOf(std::slice::from_ref(&method)).to_string(), "Methods: [GET]");
    assert_eq!(
        AllOf(&[method.clone(), Predicate::after("1").unwrap(), method]).to_string(),
        "((Methods: [GET] && After: 1) && Methods: [GET])"
    );
}

#[test]
fn a_broken_predicate_says_what_to_do() {
    let chain = |error: PredicateError| {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(inner) = source {
            text = format!("{text}: {inner}");
            source = inner.source();
        }
        text
    };
    for (broken, expected) in [
        (Predicate::path(&[], false), "no path pattern is given: name at least one"),
        (
            Predicate::path(&texts(&["/a/{v"]), false),
            "path pattern `/a/{v` cannot be used: `{` at character 4 is never closed: add `}`",
        ),
        (Predicate::method(&texts(&["G T"])), "`G T` is no HTTP method: write one such as GET"),
        (Predicate::header("X Id", None), "`X Id` is no header name: write one such as X-Request-Id"),
        (
            Predicate::query("q", Some("(?U)a")),
            "regular expression `(?U)a` cannot be used: `(?U)` is not supported: rewrite the expression without it",
        ),
        (Predicate::cookie("c", "("), "regular expression `(` cannot be used: unclosed group"),
    ] {
        assert_eq!(chain(broken.unwrap_err()), expected);
    }
}
