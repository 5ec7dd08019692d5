use super::{Predicate, Request};

#[test]
fn header_matches_one_whole_element_of_any_line() {
    let predicate = Predicate::header("X-Id", Some(r"\d+"));
    for (value, expected) in [
        ("12", true),
        ("12a", false),
        ("a, 12 ,b", true),
        ("a12,b", false),
        ("\"12\"", true),
        ("\"a,12,b\"", false),
        ("\"a\\\",12\", x", false),
        ("\"a,12", true),
        ("", false),
    ] {
        assert_eq!(Request::get().header("x-id", value.as_bytes()).meets(&predicate), expected, "{value}");
    }
    assert!(Request::get().header("x-id", b"a").header("x-id", b"1").meets(&predicate));
    assert!(!Request::get().meets(&predicate));
    assert!(Request::get().header("x-id", b"\xe9").meets(&Predicate::header("X-Id", Some("\u{e9}"))));
    assert!(Request::get().header("x-id", b"\"a\\\"b\"").meets(&Predicate::header("X-Id", Some("a\"b"))));
}

#[test]
fn header_without_an_expression_requires_a_value_that_is_not_empty() {
    let predicate = Predicate::header("X-Id", None);
    for (value, expected) in [("a", true), ("", false), (" , ,", false), ("\"\"", false), (",a", true)] {
        assert_eq!(Request::get().header("x-id", value.as_bytes()).meets(&predicate), expected, "{value}");
    }
}

#[test]
fn cookie_requires_one_whole_value_of_its_name_that_matches() {
    let predicate = Predicate::cookie("chocolate", "ch.p");
    for (value, expected) in [
        ("chocolate=chip", true),
        ("a=b; chocolate=chip", true),
        ("chocolate=chop;x=y", true),
        ("chocolate=chips", false),
        ("chocolate=\"chip\"", true),
        ("chocolate=x; chocolate=chip", true),
        ("Chocolate=chip", false),
        ("chocolate", false),
        ("xchocolate=chip", false),
    ] {
        assert_eq!(Request::get().header("cookie", value.as_bytes()).meets(&predicate), expected, "{value}");
    }
    assert!(Request::get().header("cookie", b"a=b").header("cookie", b"chocolate=chip").meets(&predicate));
}

#[test]
fn cloud_foundry_route_service_requires_its_three_headers() {
    let predicate = Ok(Predicate::cloud_foundry_route_service());
    let two = Request::get().header("x-cf-forwarded-url", b"a").header("x-cf-proxy-signature", b"b");
    assert!(!two.meets(&predicate));
    assert!(two.header("x-cf-proxy-metadata", b"c").meets(&predicate));
}
