//! `any`, `all` and `not`, and the texts that explain mismatches.

use super::{AllOf, Predicate, PredicateError, Request, Variables, texts};
use crate::{ApiVersions, Decision, HostPort, RouteTable, Undecided, VersionSource};

fn path(pattern: &str) -> Predicate {
    Predicate::path(&texts(&[pattern]), false).unwrap()
}

fn method(method: &str) -> Predicate {
    Predicate::method(&texts(&[method])).unwrap()
}

#[test]
fn any_all_and_not_combine_predicates() {
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
fn the_first_matching_alternative_sets_the_variables_and_negated_predicates_set_none() {
    let request = Request { path: "/a/1", ..Request::get() };
    let predicate = Predicate::any(vec![
        Predicate::all(vec![path("/a/{lost}"), method("POST")]),
        Predicate::all(vec![path("/a/{id}"), method("GET")]),
        path("/{late}/**"),
        Predicate::negated(path("/{not}")),
    ]);
    let mut variables = Variables::new();
    predicate.capture_variables(&request.view(), &mut variables);
    assert_eq!(variables, [("id".into(), "1".to_owned())]);
    assert_eq!(predicate.variable_names(), ["lost", "id", "late"]);
}

#[test]
fn combinations_are_displayed_as_in_spring() {
    let displayed = |predicate: Predicate| predicate.to_string();
    let (a, b, c) = (method("GET"), method("PUT"), method("POST"));
    assert_eq!(
        displayed(Predicate::any(vec![a.clone(), b.clone(), c.clone()])),
        "((Methods: [GET] || Methods: [PUT]) || Methods: [POST])"
    );
    assert_eq!(displayed(Predicate::negated(a.clone())), "!Methods: [GET]");
    let both = [Predicate::all(vec![a.clone(), b]), Predicate::negated(Predicate::any(vec![a, c]))];
    assert_eq!(
        AllOf(&both).to_string(),
        "((Methods: [GET] && Methods: [PUT]) && !(Methods: [GET] || Methods: [POST]))"
    );
    let index = |index: usize| {
        displayed(Predicate::x_forwarded_remote_addr(&texts(&["10.0.0.1"]), index.try_into().unwrap()).unwrap())
    };
    assert_eq!(index(1), "XForwardedRemoteAddrs: [10.0.0.1]");
    assert_eq!(index(2), "XForwardedRemoteAddrs: [10.0.0.1], max trusted index: 2");
    assert_eq!(displayed(Predicate::weight("g", 8)), "Weight: g 8");
    assert_eq!(displayed(Predicate::version("1.1+", std::sync::Arc::default()).unwrap()), "Version: 1.1+");
}

#[test]
fn a_mismatch_names_the_predicate_and_the_observed_values() {
    let table = RouteTable::new(vec![
        (vec![path("/b")], "b"),
        (vec![path("/a"), method("POST")], "a"),
        (vec![Predicate::header("X-Id", Some("1")).unwrap()], "header"),
        (vec![], "rest"),
        (vec![], "never evaluated"),
    ]);
    let request = Request { path: "/a", ..Request::get().header("x-id", b"2").header("x-id", b"3") };
    let evaluated: Vec<_> = table
        .explain(&request.view())
        .into_iter()
        .map(|tested| (*tested.route.value, tested.mismatch.map(|no| format!("{}: {}", no.predicate, no.observed))))
        .collect();
    assert_eq!(
        evaluated,
        [
            ("b", Some("Paths: [/b], match trailing slash: false: the path is `/a`".to_owned())),
            ("a", Some("Methods: [POST]: the method is `GET`".to_owned())),
            ("header", Some("Header: X-Id regexp=1: header `X-Id` is `2`, `3`".to_owned())),
            ("rest", None),
        ]
    );
}

#[test]
fn every_predicate_describes_the_values_that_it_reads() {
    let request = || Request { query: Some("a=1&b"), ..Request::get() };
    let with = |name, value: &'static str| request().header(name, value.as_bytes());
    let of =
        |predicate: Result<Predicate, PredicateError>, request: &Request| predicate.unwrap().observe(&request.view());
    let host = || Predicate::host(&texts(&["x"]), HostPort::Included);
    let version = || {
        let header = VersionSource::Header(http::HeaderName::from_static("x-version"));
        Predicate::version("1", ApiVersions { sources: vec![header], ..Default::default() }.into())
    };
    let drawn = RouteTable::new(vec![(vec![Predicate::weight("g", 1)], ()), (vec![Predicate::weight("g", 2)], ())]);
    let weight = drawn.iter().last().map(|(predicates, ())| predicates[0].observe(&request().view())).unwrap();
    for (observed, expected) in [
        (of(host(), &request()), "`Host` is missing"),
        (of(host(), &with("host", "a:1")), "the host is `a:1`"),
        (of(Predicate::host(&texts(&["x"]), HostPort::Ignored), &with("host", "a:1")), "the host is `a`"),
        (of(Predicate::query("a", None), &request()), "parameter `a` is `1`"),
        (of(Predicate::query("b", Some("x")), &request()), "parameter `b` is ``"),
        (of(Predicate::query("c", None), &request()), "parameter `c` is missing"),
        (of(Predicate::cookie("a", "x"), &request()), "`Cookie` is missing"),
        (of(Predicate::cookie("a", "x"), &with("cookie", "b=1")), "`Cookie` is `b=1`"),
        (of(Predicate::after("1"), &request()), "the time is 2027-01-21T00:42:47.789Z"),
        (of(Predicate::remote_addr(&texts(&["10.0.0.1"])), &request()), "the remote address is 127.0.0.1"),
        (weight, "group `g` drew 0 of 0 to 2, the route has 1 to 2"),
        (of(Ok(Predicate::weight("g", 0)), &request()), "the route's weight is 0"),
        (of(version(), &request()), "the request names no version"),
        (of(version(), &with("x-version", "1.2")), "the request names version 1.2"),
        (of(version(), &with("x-version", "new")), "`new` is not a version"),
        (of(Ok(Predicate::negated(method("GET"))), &request()), "the method is `GET`"),
        (of(Ok(Predicate::any(vec![method("PUT"), path("/b")])), &request()), "the method is `GET`; the path is `/`"),
    ] {
        assert_eq!(observed, expected);
    }
}

/// An expression that gives up after its limit of steps on a long run of `a`.
const SLOW: &str = "(?=(a+)+$)(a|aa)+b";

#[test]
fn an_undecided_predicate_stays_undecided_in_combinations() {
    let slow = || Predicate::header("x-a", Some(SLOW)).unwrap();
    let text: &'static [u8] = "a".repeat(200).leak().as_bytes();
    let request = Request::get().header("x-a", text).header("x-b", b"1");
    let (yes, no) = (|| Predicate::header("x-b", None).unwrap(), || Predicate::header("x-c", None).unwrap());
    let decide = |predicate: Predicate| predicate.decide(&request.view());
    assert_eq!(decide(slow()), Decision::Undecided);
    assert_eq!(decide(Predicate::negated(slow())), Decision::Undecided);
    assert_eq!(decide(Predicate::any(vec![slow(), no()])), Decision::Undecided);
    assert_eq!(decide(Predicate::any(vec![slow(), yes()])), Decision::Yes);
    assert_eq!(decide(Predicate::all(vec![slow(), yes()])), Decision::Undecided);
    assert_eq!(decide(Predicate::all(vec![slow(), no()])), Decision::No);
    assert_eq!(decide(Predicate::negated(Predicate::all(vec![slow(), no()]))), Decision::Yes);
    let table = |predicates| RouteTable::new(vec![(predicates, 0), (vec![], 1)]);
    let found = |predicates| table(predicates).find(&request.view()).map(|found| found.map(|found| *found.value));
    assert_eq!(found(vec![slow()]), Err(Undecided), "the next route does not take the request");
    assert_eq!(found(vec![slow(), no()]), Ok(Some(1)));
    assert_eq!(found(vec![Predicate::negated(slow())]), Err(Undecided));
    let explained = table(vec![yes(), slow()]);
    let evaluations = explained.explain(&request.view());
    assert_eq!((evaluations.len(), evaluations[0].decision), (1, Decision::Undecided));
    assert!(evaluations[0].mismatch.as_ref().unwrap().predicate.to_string().contains("x-a"));
}

#[test]
fn expressions_in_patterns_may_be_undecided() {
    let long = format!("/{}", "a".repeat(200));
    let pattern = crate::PathPattern::parse("/{v:(?=(?:a+)+$)(?:a|aa)+b}").unwrap();
    assert_eq!(pattern.decide(&long, false), Decision::Undecided);
    assert_eq!((pattern.decide("/x", false), pattern.decide("/a/b", false)), (Decision::No, Decision::No));
    let host = crate::HostPattern::parse("{v:(?=(?:a+)+$)(?:a|aa)+b}.org").unwrap();
    assert_eq!(host.decide(&format!("{}.org", "a".repeat(200))), Decision::Undecided);
    assert_eq!(host.decide("a.com"), Decision::No);
}
