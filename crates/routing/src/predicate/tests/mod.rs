#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::net::{IpAddr, Ipv4Addr};

use http::{HeaderMap, HeaderName, HeaderValue, Method};

use super::{AllOf, Predicate, PredicateError};
use crate::{RequestView, Variables};

mod ours;
mod regexp;
mod show;
mod version;
mod weight;

/// 2027-01-21T00:42:47.789Z.
const NOW_MS: i64 = 1_800_492_167_789;

/// A GET of `/` from this machine that the tests vary.
struct Request {
    method: Method,
    path: &'static str,
    query: Option<&'static str>,
    headers: HeaderMap,
    peer: IpAddr,
    chance: u64,
}

impl Request {
    fn get() -> Self {
        Self {
            method: Method::GET,
            path: "/",
            query: None,
            headers: HeaderMap::new(),
            peer: IpAddr::V4(Ipv4Addr::LOCALHOST),
            chance: 0,
        }
    }

    fn header(mut self, name: &'static str, value: &'static [u8]) -> Self {
        self.headers.append(HeaderName::from_static(name), HeaderValue::from_bytes(value).unwrap());
        self
    }

    fn view(&self) -> RequestView<'_> {
        RequestView {
            method: &self.method,
            path: self.path,
            query: self.query,
            headers: &self.headers,
            peer: self.peer,
            now_ms: || NOW_MS,
            chance: self.chance,
        }
    }

    fn meets(&self, predicate: &Result<Predicate, PredicateError>) -> bool {
        predicate.as_ref().unwrap().matches(&self.view())
    }
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.to_owned()).collect()
}

#[test]
fn path_takes_the_variables_of_the_first_pattern_in_order_not_the_closest() {
    let predicate = Predicate::path(&texts(&["/b", "/{first}/**", "/a/{second}"]), false).unwrap();
    let request = Request { path: "/a/1", ..Request::get() };
    assert!(predicate.matches(&request.view()));
    let mut variables = Variables::new();
    predicate.variables(&request.view(), &mut variables);
    assert_eq!(variables, [("first".into(), "a".to_owned())]);
}

#[test]
fn path_honours_its_trailing_slash_flag() {
    let request = Request { path: "/red/1/", ..Request::get() };
    assert!(request.meets(&Predicate::path(&texts(&["/red/{s}"]), true)));
    assert!(!request.meets(&Predicate::path(&texts(&["/red/{s}"]), false)));
}

#[test]
fn method_is_exact_and_a_preflight_is_not_its_method() {
    let predicate = Predicate::method(&texts(&["get", "PURGE"]));
    assert!(Request::get().meets(&predicate));
    for (method, expected) in [("PURGE", true), ("purge", false), ("OPTIONS", false), ("get", false)] {
        let request = Request { method: Method::from_bytes(method.as_bytes()).unwrap(), ..Request::get() };
        assert_eq!(request.meets(&predicate), expected, "{method}");
    }
}

#[test]
fn host_needs_a_host_and_sees_its_port() {
    let predicate = Predicate::host(&texts(&["**.a.org", "**.foo.org:*"]));
    assert!(!Request::get().meets(&predicate));
    for (host, expected) in
        [("www.foo.org:8080", true), ("foo.org", false), ("a.org", true), ("a.org:80", false), ("A.org", false)]
    {
        assert_eq!(Request::get().header("host", host.as_bytes()).meets(&predicate), expected, "{host}");
    }
}

#[test]
fn host_sees_no_port_where_it_is_left_out() {
    let predicate = Predicate::host_without_port(&texts(&["**.foo.org", "{name}.bar"]));
    for (host, expected) in
        [("www.foo.org:8080", true), ("foo.org", true), ("foo.org:", true), ("foo.org:x", false), ("a.bar:1", true)]
    {
        assert_eq!(Request::get().header("host", host.as_bytes()).meets(&predicate), expected, "{host}");
    }
    let mut variables = Variables::new();
    predicate.unwrap().variables(&Request::get().header("host", b"a.bar:1").view(), &mut variables);
    assert_eq!(variables, [("name".into(), "a".to_owned())]);
}

#[test]
fn header_matches_one_element_of_one_line_as_a_whole() {
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
fn header_without_an_expression_needs_a_value_that_is_not_empty() {
    let predicate = Predicate::header("X-Id", None);
    for (value, expected) in [("a", true), ("", false), (" , ,", false), ("\"\"", false), (",a", true)] {
        assert_eq!(Request::get().header("x-id", value.as_bytes()).meets(&predicate), expected, "{value}");
    }
}

#[test]
fn query_without_an_expression_needs_the_parameter_alone() {
    let predicate = Predicate::query("green", None);
    for (query, expected) in [
        (None, false),
        (Some(""), false),
        (Some("green"), true),
        (Some("green="), true),
        (Some("a=b&green=1"), true),
        (Some("gr%65en"), true),
        (Some("Green"), false),
        (Some("a=green"), false),
    ] {
        assert_eq!(Request { query, ..Request::get() }.meets(&predicate), expected, "{query:?}");
    }
}

#[test]
fn query_with_an_expression_needs_one_value_that_matches_as_a_whole() {
    let predicate = Predicate::query("red", Some("gree.( x)?"));
    for (query, expected) in [
        ("red=green", true),
        ("red=greet", true),
        ("red=greenish", false),
        ("red=a&red=green", true),
        ("red=green+x", true),
        ("red=green%20x", true),
        ("red=green%2Bx", false),
        ("red", false),
        ("red=", false),
    ] {
        assert_eq!(Request { query: Some(query), ..Request::get() }.meets(&predicate), expected, "{query}");
    }
    let any = Predicate::query("red", Some(".*"));
    for (query, expected) in [("red=", true), ("red", false), ("red=%", true), ("red=%zz&%", true), ("=red", false)] {
        assert_eq!(Request { query: Some(query), ..Request::get() }.meets(&any), expected, "{query}");
    }
}

#[test]
fn equal_expressions_share_what_they_are_compiled_to_however_many_there_are() {
    let of = |index: usize| Predicate::query("q", Some(&format!("a{index}"))).unwrap();
    let all: Vec<Predicate> = (0..1_100).chain(0..1_100).map(of).collect();
    for (place, predicate) in all.iter().enumerate() {
        let value = format!("q=a{}", place % 1_100);
        assert!(predicate.matches(&RequestView { query: Some(&value), ..Request::get().view() }), "{value}");
    }
}

#[test]
fn cookie_needs_one_of_its_name_whose_value_matches_as_a_whole() {
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
fn times_are_compared_strictly() {
    let (before, now, after) = ("1800492167788", "1800492167789", "1800492167790");
    let get = Request::get();
    for (from, expected) in [(before, true), (now, false), (after, false)] {
        assert_eq!(get.meets(&Predicate::after(from)), expected, "after {from}");
    }
    for (to, expected) in [(before, false), (now, false), (after, true)] {
        assert_eq!(get.meets(&Predicate::before(to)), expected, "before {to}");
    }
    assert!(get.meets(&Predicate::between(before, after)));
    assert!(!get.meets(&Predicate::between(now, after)));
    assert!(!get.meets(&Predicate::between(before, now)));
}

#[test]
fn times_are_written_with_an_offset_or_in_milliseconds() {
    for text in [
        "2027-01-20T17:42:47.788-07:00[America/Denver]",
        "2027-01-20T17:42:47.788-07:00",
        "2027-01-21T00:42:47.788Z",
        "2027-01-21T00:42:47Z[UTC]",
        "2027-01-21T00:42Z",
        "1800492167788",
        "-1",
    ] {
        assert!(Request::get().meets(&Predicate::after(text)), "{text}");
    }
    assert!(!Request::get().meets(&Predicate::after("2027-01-20T17:42:47.789-07:00[America/Denver]")));
    for text in [
        "",
        "tomorrow",
        "2027-01-20T17:42:47",
        "2027-01-20T17:42:47[America/Denver]",
        "2027-01-21T00:42:47Z[",
        "2027-01-21T00:42:47Z[]",
        "2027-13-01T00:00:00Z",
    ] {
        assert_eq!(Predicate::after(text).unwrap_err(), PredicateError::Datetime { text: text.to_owned() });
    }
    let order = PredicateError::Order { from: "2".to_owned(), to: "2".to_owned() };
    assert_eq!(Predicate::between("2", "2").unwrap_err(), order);
}

#[test]
fn remote_addr_compares_the_peer_with_networks() {
    for (source, peer, expected) in [
        ("127.0.0.1/24", "127.0.0.9", true),
        ("127.0.0.1", "127.0.0.1", true),
        ("127.0.0.1", "127.0.0.2", false),
        ("10.0.0.0/8", "::ffff:10.1.2.3", true),
        ("::ffff:10.0.0.0/104", "10.1.2.3", true),
        ("::ffff:10.0.0.1", "10.0.0.1", true),
        ("2001:db8::1", "2001:db8::1", true),
        ("2001:db8::1", "2001:db8::2", false),
        ("2001:db8::/32", "2001:db8:ffff::1", true),
        ("0.0.0.0/0", "8.8.8.8", true),
        ("0.0.0.0/0", "2001:db8::1", false),
    ] {
        let request = Request { peer: peer.parse().unwrap(), ..Request::get() };
        assert_eq!(request.meets(&Predicate::remote_addr(&texts(&[source]))), expected, "{source} {peer}");
    }
    for source in ["", "localhost", "10.0.0.0/33", "10.0.0"] {
        let expected = PredicateError::Network { source_text: source.to_owned() };
        assert_eq!(Predicate::remote_addr(&texts(&[source])).unwrap_err(), expected);
    }
}

#[test]
fn x_forwarded_remote_addr_takes_the_entry_counted_from_the_right() {
    let here = Request::get;
    for (lines, index, expected) in [
        (vec!["10.0.0.1"], 1, true),
        (vec!["10.0.0.1, 192.0.2.1"], 1, false),
        (vec!["192.0.2.1, 10.0.0.1"], 1, true),
        (vec!["192.0.2.1,10.0.0.1 "], 1, true),
        (vec!["10.0.0.1, 192.0.2.1"], 2, true),
        (vec!["10.0.0.1, 192.0.2.1"], 9, true),
        (vec!["192.0.2.1, 10.0.0.1, 192.0.2.2"], 3, false),
        (vec!["10.0.0.1:4711"], 1, true),
        (vec!["unknown"], 1, false),
        (vec!["10.0.0.1, "], 1, false),
        // The peer's address counts, which is 127.0.0.1.
        (vec![], 1, false),
        (vec![" "], 1, false),
        (vec!["10.0.0.1", "10.0.0.1"], 1, false),
    ] {
        let request = lines.iter().fold(here(), |request, line| request.header("x-forwarded-for", line.as_bytes()));
        let index = index.try_into().unwrap();
        let predicate = Predicate::x_forwarded_remote_addr(&texts(&["10.0.0.0/8"]), index);
        assert_eq!(request.meets(&predicate), expected, "{lines:?} {index}");
    }
    let local = Predicate::x_forwarded_remote_addr(&texts(&["127.0.0.1"]), 1.try_into().unwrap());
    assert!(here().meets(&local));
    assert!(here().header("x-forwarded-for", b"").meets(&local));
    assert!(here().header("x-forwarded-for", b"10.0.0.1").header("x-forwarded-for", b"10.0.0.2").meets(&local));
}

#[test]
fn a_cloud_foundry_route_service_needs_its_three_headers() {
    let predicate = Ok(Predicate::cloud_foundry_route_service());
    let two = Request::get().header("x-cf-forwarded-url", b"a").header("x-cf-proxy-signature", b"b");
    assert!(!two.meets(&predicate));
    assert!(two.header("x-cf-proxy-metadata", b"c").meets(&predicate));
}
