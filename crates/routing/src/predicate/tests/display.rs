//! Display of predicates and of their errors.

use std::error::Error;

use super::{AllOf, Predicate, PredicateError, texts};
use crate::{HostPort, PREDICATES, PredicateForm, PredicateSettings};

#[test]
fn each_predicate_is_displayed_by_its_name() {
    for row in PREDICATES {
        let predicate = match row.form {
            PredicateForm::NoArguments(new) => Ok(new()),
            PredicateForm::Two(_, new) => new("1", "2"),
            PredicateForm::OneOrTwo(_, new) => new("1", None),
            PredicateForm::One(_, new) => new("1", &PredicateSettings::default()),
            PredicateForm::List(_, new) => new(&texts(&["10.0.0.1"])),
            PredicateForm::ListWithOption(_, new) => new(&texts(&["10.0.0.1"]), None),
        };
        let shown = predicate.unwrap().to_string();
        // Spring shows lists in the plural.
        assert_eq!(shown.split(':').next().map(|name| name.trim_end_matches('s')), Some(row.name));
    }
}

#[test]
fn predicates_are_displayed_as_in_spring() {
    let displayed = |predicate: Result<Predicate, PredicateError>| predicate.unwrap().to_string();
    assert_eq!(
        displayed(Predicate::path(&texts(&["/orders/**", "b"]), false)),
        "Paths: [/orders/**, b], match trailing slash: false"
    );
    assert_eq!(displayed(Predicate::method(&texts(&["GET", "post"]))), "Methods: [GET, POST]");
    assert_eq!(displayed(Predicate::host(&texts(&["**.a.org"]), HostPort::Included)), "Hosts: [**.a.org]");
    assert_eq!(displayed(Predicate::header("X-Id", Some(r"\d+"))), r"Header: X-Id regexp=\d+");
    assert_eq!(displayed(Predicate::header("X-Id", None)), "Header: X-Id regexp=null");
    assert_eq!(displayed(Predicate::query("q", None)), "Query: param=q regexp=null");
    assert_eq!(displayed(Predicate::cookie("c", "a|b")), "Cookie: name=c regexp=a|b");
    assert_eq!(displayed(Predicate::between("1", "2")), "Between: 1 and 2");
    assert_eq!(displayed(Predicate::remote_addr(&texts(&["10.0.0.1/8"]))), "RemoteAddrs: [10.0.0.1/8]");
    let method = Predicate::method(&texts(&["GET"])).unwrap();
    assert_eq!(AllOf(&[]).to_string(), "");
    assert_eq!(AllOf(std::slice::from_ref(&method)).to_string(), "Methods: [GET]");
    assert_eq!(
        AllOf(&[method.clone(), Predicate::after("1").unwrap(), method]).to_string(),
        "((Methods: [GET] && After: 1) && Methods: [GET])"
    );
}

#[test]
fn masked_values_leave_the_rest_of_a_combination() {
    let query = |regexp| Predicate::query("q", regexp).unwrap();
    let cookie = Predicate::negated(Predicate::cookie("c", "s3cret").unwrap());
    let header = Predicate::header("X-Key", Some("s3cret")).unwrap();
    let any = Predicate::any(vec![query(None), header, cookie]);
    assert_eq!(
        format!("{:#}", AllOf(&[any, query(Some("s3cret")), Predicate::method(&texts(&["GET"])).unwrap()])),
        "((((Query: param=q regexp=null || Header: X-Key regexp=****) || !Cookie: name=c regexp=****) \
         && Query: param=q regexp=****) && Methods: [GET])"
    );
}

#[test]
fn errors_say_what_to_write_instead() {
    let chain = |error: PredicateError| {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(inner) = source {
            text = format!("{text}: {inner}");
            source = inner.source();
        }
        text
    };
    for (result, expected) in [
        (Predicate::path(&[], false), "no path pattern given: write at least one"),
        (
            Predicate::path(&texts(&["/a/{v"]), false),
            "invalid path pattern `/a/{v`: `{` at character 4 is not closed: add `}`",
        ),
        (Predicate::method(&texts(&["G T"])), "`G T` is not an HTTP method: write one such as GET"),
        (Predicate::header("X Id", None), "`X Id` is not a header name: write one such as X-Request-Id"),
        (
            Predicate::query("q", Some("(?U)a")),
            "invalid regular expression `(?U)a`: `(?U)` is not supported: rewrite the expression without it",
        ),
        (Predicate::cookie("c", "("), "invalid regular expression `(`: unclosed group"),
    ] {
        assert_eq!(chain(result.unwrap_err()), expected);
    }
}
