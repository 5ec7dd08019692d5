#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::net::{IpAddr, Ipv4Addr};

use http::header::HOST;
use http::{HeaderMap, HeaderValue, Method};
use proptest::prelude::*;

use super::RouteTable;
use crate::{HostPort, Predicate, RequestView};

fn path(patterns: &[&str]) -> Predicate {
    let patterns: Vec<String> = patterns.iter().map(|&pattern| pattern.to_owned()).collect();
    Predicate::path(&patterns, false).unwrap()
}

fn request<'a>(path: &'a str, headers: &'a HeaderMap) -> RequestView<'a> {
    RequestView {
        method: &Method::GET,
        path,
        query: None,
        headers,
        forwarded_for: headers,
        remote_addr: IpAddr::V4(Ipv4Addr::LOCALHOST),
        now_ms: || 0,
        random: 0,
    }
}

#[test]
fn the_first_matching_route_takes_the_request() {
    let table = RouteTable::new(vec![
        (vec![path(&["/a/b"]), Predicate::method(&["POST".into()]).unwrap()], "post"),
        (vec![path(&["/a/**"])], "prefix"),
        (vec![path(&["/a/b"])], "exact, too late"),
        (vec![], "rest"),
    ]);
    let headers = HeaderMap::new();
    let take = |path| table.find(&request(path, &headers)).unwrap().map(|found| (*found.value, found.index));
    assert_eq!(take("/a/b"), Some(("prefix", 1)));
    assert_eq!(take("/a"), Some(("prefix", 1)));
    assert_eq!(take("/%61x"), Some(("rest", 3)));
    assert_eq!(table.len(), 4);
}

#[test]
fn without_a_matching_route_nothing_is_found() {
    let headers = HeaderMap::new();
    let table = RouteTable::new(vec![(vec![path(&["/a"])], ())]);
    assert!(table.find(&request("/b", &headers)).unwrap().is_none());
    assert!(RouteTable::<()>::new(Vec::new()).find(&request("/", &headers)).unwrap().is_none());
}

#[test]
fn a_first_segment_with_escapes_or_parameters_finds_its_route() {
    let headers = HeaderMap::new();
    let table = RouteTable::new(vec![(vec![path(&["/a b/c"])], 0), (vec![path(&["/x/**"])], 1)]);
    assert_eq!(table.find(&request("/a%20b/c", &headers)).unwrap().unwrap().index, 0);
    assert_eq!(table.find(&request("/a%20b;v=1/c;w", &headers)).unwrap().unwrap().index, 0);
    assert_eq!(table.find(&request("/x;v=1", &headers)).unwrap().unwrap().index, 1);
}

#[test]
fn variables_of_later_predicates_replace_earlier_ones() {
    let headers = HeaderMap::from_iter([(HOST, HeaderValue::from_static("b.org"))]);
    let host = Predicate::host(&["{tenant}.org".into(), "{tenant}.{x}.org".into()], HostPort::Included).unwrap();
    let table = RouteTable::new(vec![(vec![path(&["/none", "/{tenant}/{id}"]), host], ())]);
    let request = request("/a/1", &headers);
    let variables = table.find(&request).unwrap().unwrap().variables(&request);
    let pairs: Vec<_> = variables.iter().map(|(name, value)| (&**name, &**value)).collect();
    assert_eq!(pairs, [("tenant", "b"), ("id", "1")]);
}

fn pattern() -> impl Strategy<Value = String> {
    let other = prop::sample::select(vec!["*", "**", "{v}", "a b"]).prop_map(str::to_owned);
    let part = prop_oneof![1 => "[abc]", 1 => other];
    (prop::collection::vec(part, 0..6), any::<bool>()).prop_map(|(mut parts, slash)| {
        let mut seen = false;
        parts.retain(|part| part != "{v}" || !std::mem::replace(&mut seen, true));
        if slash && !parts.is_empty() {
            parts.push(String::new());
        }
        format!("/{}", parts.join("/"))
    })
}

/// Predicates that the index uses, and combinations of them.
fn predicate() -> impl Strategy<Value = Predicate> {
    let path = (prop::collection::vec(pattern(), 1..4), any::<bool>())
        .prop_map(|(patterns, slash)| Predicate::path(&patterns, slash).unwrap());
    let hosts = vec!["x", "x.y", "**.y", "**.y:*", "*.y", "{v}.y", "x.**", "y:8?", ".y", "y.", "**", "*.x.y:80", "y*"];
    let host = (prop::collection::vec(prop::sample::select(hosts), 1..3), any::<bool>()).prop_map(|(hosts, port)| {
        let hosts: Vec<String> = hosts.into_iter().map(str::to_owned).collect();
        Predicate::host(&hosts, if port { HostPort::Optional } else { HostPort::Ignored }).unwrap()
    });
    let one = prop_oneof![4 => path, 2 => host];
    one.prop_recursive(2, 6, 3, |inner| {
        prop_oneof![
            2 => prop::collection::vec(inner.clone(), 1..3).prop_map(Predicate::any),
            1 => prop::collection::vec(inner.clone(), 1..3).prop_map(Predicate::all),
            1 => inner.prop_map(Predicate::negated),
        ]
    })
}

fn request_path() -> impl Strategy<Value = String> {
    let segment =
        prop_oneof![6 => "[abc]", 1 => "[abc];[ab]?", 1 => Just("a%20b".to_owned()), 1 => Just(";x".to_owned())];
    (prop::collection::vec(segment, 0..6), any::<bool>()).prop_map(|(segments, slash)| {
        let joined = format!("/{}", segments.join("/"));
        if slash && !joined.ends_with('/') { joined + "/" } else { joined }
    })
}

const HOSTS: [&str; 12] = ["x", "x.y", "y", "y:80", "x.y:80", "a.x.y:80", ".y", "y.", "x.z", "[::1]:80", "x.y.", "..y"];

#[test]
fn routes_behind_a_variable_segment_are_distinguished_by_later_segments() {
    let headers = HeaderMap::new();
    let table = RouteTable::new(vec![
        (vec![path(&["/{tenant}/a/**"])], 0),
        (vec![path(&["/{tenant}/b/{id}"])], 1),
        (vec![path(&["/t/b/**"])], 2),
    ]);
    let take = |path| table.find(&request(path, &headers)).unwrap().map(|found| *found.value);
    assert_eq!([take("/t/a"), take("/t/b/1"), take("/t/b"), take("/x/b")], [Some(0), Some(1), Some(2), None]);
}

#[test]
fn the_index_narrows_by_depth_by_host_and_behind_a_variable() {
    let host = |pattern: String| Predicate::host(&[pattern], HostPort::Included).unwrap();
    let below = |pattern: String| Predicate::path(&[pattern], false).unwrap();
    let either = |index: usize| {
        let inner = Predicate::all(vec![below(format!("/{{t}}/c{index}")), host(format!("t{index}.org"))]);
        Predicate::any(vec![inner, below(format!("/d{index}/**"))])
    };
    for (name, predicates, path, asked) in [
        (
            "deep",
            &(|index| vec![below(format!("/a/b/c/d/e/f/g/i{index}/**"))]) as &dyn Fn(usize) -> _,
            "/a/b/c/d/e/f/g/i9/x",
            "x",
        ),
        ("behind a variable", &|index| vec![below(format!("/{{tenant}}/i{index}/*"))], "/t/i9/x", "x"),
        ("host", &|index| vec![host(format!("t{index}.example.org"))], "/x", "t9.example.org"),
        ("subdomain and port", &|index| vec![host(format!("**.t{index}.org:*"))], "/x", "a.b.t9.org:8080"),
        ("host below a path", &|index| vec![below("/a/**".into()), host(format!("t{index}.org"))], "/a", "t9.org"),
        ("alternatives", &|index| vec![either(index)], "/d9/x", "x"),
        ("alternatives behind a variable", &|index| vec![either(index)], "/x/c9", "t9.org"),
    ] {
        let table = RouteTable::new((0..100).map(|index| (predicates(index), ())).collect());
        let headers = HeaderMap::from_iter([(HOST, HeaderValue::from_static(asked))]);
        let request = request(path, &headers);
        assert_eq!(table.find(&request).unwrap().map(|found| found.index), Some(9), "{name}");
        assert_eq!(table.index.candidates(&request).count(), 1, "{name}");
    }
}

#[test]
fn more_lists_than_fit_inline_are_merged_in_order() {
    let headers = HeaderMap::new();
    let deep = |depth: usize| format!("/{}**", "a/".repeat(depth));
    let routes = (1..20).rev().map(|depth| (vec![path(&[&deep(depth)])], depth)).collect();
    let table = RouteTable::new(routes);
    let ask = format!("/{}", "a/".repeat(15));
    assert_eq!(table.find(&request(&ask, &headers)).unwrap().map(|found| *found.value), Some(15));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(800) })]

    #[test]
    fn the_index_finds_the_same_route_as_a_scan(
        routes in prop::collection::vec(prop::collection::vec(predicate(), 0..3), 0..12),
        paths in prop::collection::vec(request_path(), 1..12),
        host in prop::option::of(prop::sample::select(HOSTS.to_vec())),
    ) {
        let headers = HeaderMap::new();
        let table = RouteTable::new(routes.iter().cloned().map(|predicates| (predicates, ())).collect());
        for path in &paths {
            let mut headers = headers.clone();
            headers.extend(host.map(|host| (HOST, HeaderValue::from_static(host))));
            let request = request(path, &headers);
            let all_match = |all: &Vec<Predicate>| all.iter().all(|predicate| predicate.matches(&request));
            let scan = routes.iter().position(all_match);
            prop_assert_eq!(table.find(&request).unwrap().map(|found| found.index), scan, "{}", path);
        }
    }
}
