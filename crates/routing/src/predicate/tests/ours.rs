//! Alternatives and negation, and what predicates say they saw.

use super::{AllOf, Predicate, Request, Variables, texts};
use crate::RouteTable;

fn path(pattern: &str) -> Predicate {
    Predicate::path(&texts(&[pattern]), false).unwrap()
}

fn method(method: &str) -> Predicate {
    Predicate::method(&texts(&[method])).unwrap()
}

#[test]
fn any_all_and_not_combine_as_their_names_say() {
    let request = Request { path: "/a", ..Request::get() };
    for (predicate, expected) in [
        (Predicate::any(vec![path("/b"), method("GET")]), true),
        (Predicate::any(vec![path("/b"), method("POST")]), false),
        (Predicate::any(vec![]), false),
        (Predicate::all(vec![path("/a"), method("GET")]), true),
        (Predicate::all(vec![path("/a"), method("POST")]), false),
        (Predicate::negated(method("GET")), false),
        (Predicate::negated(Predicate::any(vec![path("/b"), method("POST")])), true),
        (Predicate::negated(Predicate::negated(path("/a"))), true),
    ] {
        assert_eq!(request.meets(&Ok(predicate.clone())), expected, "{predicate}");
    }
}

#[test]
fn variables_are_those_of_the_first_alternative_that_matches_and_none_of_what_is_negated() {
    let request = Request { path: "/a/1", ..Request::get() };
    let predicate = Predicate::any(vec![
        Predicate::all(vec![path("/a/{lost}"), method("POST")]),
        Predicate::all(vec![path("/a/{id}"), method("GET")]),
        path("/{late}/**"),
        Predicate::negated(path("/{not}")),
    ]);
    let mut variables = Variables::new();
    predicate.variables(&request.view(), &mut variables);
    assert_eq!(variables, [("id".into(), "1".to_owned())]);
    assert_eq!(predicate.variable_names(), ["lost", "id", "late"]);
}

#[test]
fn they_show_as_spring_shows_its_own() {
    let shown = |predicate: Predicate| predicate.to_string();
    let (a, b, c) = (method("GET"), method("PUT"), method("POST"));
    assert_eq!(
        shown(Predicate::any(vec![a.clone(), b.clone(), c.clone()])),
        "((Methods: [GET] || Methods: [PUT]) || Methods: [POST])"
    );
    assert_eq!(shown(Predicate::negated(a.clone())), "!Methods: [GET]");
    let both = [Predicate::all(vec![a.clone(), b]), Predicate::negated(Predicate::any(vec![a, c]))];
    assert_eq!(
        AllOf(&both).to_string(),
        "((Methods: [GET] && Methods: [PUT]) && !(Methods: [GET] || Methods: [POST]))"
    );
    let index = |index: usize| {
        shown(Predicate::x_forwarded_remote_addr(&texts(&["10.0.0.1"]), index.try_into().unwrap()).unwrap())
    };
    assert_eq!(index(1), "XForwardedRemoteAddrs: [10.0.0.1]");
    assert_eq!(index(2), "XForwardedRemoteAddrs: [10.0.0.1], max trusted index: 2");
    assert_eq!(shown(Predicate::weight("g", 8)), "Weight: g 8");
    assert_eq!(shown(Predicate::version("1.1+", std::sync::Arc::default()).unwrap()), "Version: 1.1+");
}

#[test]
fn a_refusal_names_the_predicate_and_what_it_saw() {
    let table = RouteTable::new(vec![
        (vec![path("/b")], "b"),
        (vec![path("/a"), method("POST")], "a"),
        (vec![Predicate::header("X-Id", Some("1")).unwrap()], "header"),
        (vec![], "rest"),
        (vec![], "never tried"),
    ]);
    let request = Request { path: "/a", ..Request::get().header("x-id", b"2").header("x-id", b"3") };
    let told: Vec<_> = table
        .explain(&request.view())
        .into_iter()
        .map(|tried| (*tried.route.value, tried.refusal.map(|no| format!("{}: {}", no.predicate, no.seen))))
        .collect();
    assert_eq!(
        told,
        [
            ("b", Some("Paths: [/b], match trailing slash: false: the path is `/a`".to_owned())),
            ("a", Some("Methods: [POST]: the method is `GET`".to_owned())),
            ("header", Some("Header: X-Id regexp=1: header `X-Id` is `2`, `3`".to_owned())),
            ("rest", None),
        ]
    );
}

#[test]
fn every_predicate_says_what_it_saw() {
    let request = || Request { query: Some("a=1&b"), ..Request::get() };
    let with = |name, value: &'static str| request().header(name, value.as_bytes());
    let of = |predicate: Result<Predicate, super::PredicateError>, request: &Request| {
        predicate.unwrap().seen(&request.view())
    };
    let host = || Predicate::host(&texts(&["x"]));
    let version = || {
        let header = super::super::VersionSource::Header(http::HeaderName::from_static("x-version"));
        Predicate::version("1", super::super::ApiVersions { sources: vec![header], ..Default::default() }.into())
    };
    let drawn = RouteTable::new(vec![(vec![Predicate::weight("g", 1)], ()), (vec![Predicate::weight("g", 2)], ())]);
    let weight = drawn.iter().last().map(|(predicates, ())| predicates[0].seen(&request().view())).unwrap();
    for (seen, expected) in [
        (of(host(), &request()), "there is no `Host`"),
        (of(host(), &with("host", "a:1")), "the host is `a:1`"),
        (of(Predicate::host_without_port(&texts(&["x"])), &with("host", "a:1")), "the host is `a`"),
        (of(Predicate::query("a", None), &request()), "parameter `a` is `1`"),
        (of(Predicate::query("b", Some("x")), &request()), "parameter `b` is ``"),
        (of(Predicate::query("c", None), &request()), "there is no parameter `c`"),
        (of(Predicate::cookie("a", "x"), &request()), "there is no cookie"),
        (of(Predicate::cookie("a", "x"), &with("cookie", "b=1")), "of cookie `a` there is: `b=1`"),
        (of(Predicate::after("1"), &request()), "it is 2027-01-21T00:42:47.789Z"),
        (of(Predicate::remote_addr(&texts(&["10.0.0.1"])), &request()), "the peer is 127.0.0.1"),
        (weight, "group `g` drew 0 of 0 to 2, the route has 1 to 2"),
        (of(Ok(Predicate::weight("g", 0)), &request()), "the route's share is 0"),
        (of(version(), &request()), "the request asks for no version"),
        (of(version(), &with("x-version", "1.2")), "the request asks for version 1.2"),
        (of(version(), &with("x-version", "new")), "`new` is no version"),
        (of(Ok(Predicate::negated(method("GET"))), &request()), "the method is `GET`"),
        (of(Ok(Predicate::any(vec![method("PUT"), path("/b")])), &request()), "the method is `GET`; the path is `/`"),
    ] {
        assert_eq!(seen, expected);
    }
}
