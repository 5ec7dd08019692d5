//! Benchmarks of route look-up, pattern parsing and path normalization.

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};

use criterion::{Criterion, criterion_group, criterion_main};
use http::header::HOST;
use http::{HeaderMap, HeaderValue, Method, Uri};
use tollgate_routing::{HostPort, PathPattern, Predicate, PredicateError, RequestView, RouteTable, normalize};

/// Typical routes: half share their first segments, and each has a `Method` predicate.
fn table(routes: usize) -> RouteTable<usize> {
    let route = |index: usize| {
        let path = Predicate::path(&[pattern(index)], false);
        let method = Predicate::method(&["GET".to_owned(), "POST".to_owned()]);
        (path.into_iter().chain(method).collect(), index)
    };
    RouteTable::new((0..routes).map(route).collect())
}

fn pattern(index: usize) -> String {
    if index.is_multiple_of(2) {
        format!("/api/v1/service{index}/**")
    } else {
        format!("/service{index}/{{id}}/orders/*")
    }
}

fn path(index: usize) -> String {
    if index.is_multiple_of(2) { format!("/api/v1/service{index}/a/b") } else { format!("/service{index}/17/orders/5") }
}

/// Tables that an index of the first path segment alone would not narrow, each with a request for its last route.
fn hard_cases(routes: usize) -> Vec<(&'static str, RouteTable<usize>, String, String)> {
    let last = routes - 1;
    let of = |predicates: &dyn Fn(usize) -> Vec<Result<Predicate, PredicateError>>| {
        RouteTable::new((0..routes).map(|index| (predicates(index).into_iter().flatten().collect(), index)).collect())
    };
    let path = |pattern: String| Predicate::path(&[pattern], false);
    let host = |pattern: String| Predicate::host(&[pattern], HostPort::Included);
    vec![
        (
            "one deep prefix",
            of(&|index| vec![path(format!("/company/shop/api/public/v1/orders/item{index}/**"))]),
            format!("/company/shop/api/public/v1/orders/item{last}/a"),
            "a".to_owned(),
        ),
        (
            "behind a variable",
            of(&|index| vec![path(format!("/{{tenant}}/item{index}/{{id}}"))]),
            format!("/acme/item{last}/17"),
            "a".to_owned(),
        ),
        (
            "hosts",
            of(&|index| vec![host(format!("tenant{index}.example.com")), path("/**".to_owned())]),
            "/a/b".to_owned(),
            format!("tenant{last}.example.com"),
        ),
        (
            "hosts below hosts, with ports",
            of(&|index| vec![host(format!("**.tenant{index}.example.com:*"))]),
            "/a/b".to_owned(),
            format!("www.eu.tenant{last}.example.com:8080"),
        ),
        (
            "hosts and a common path",
            of(&|index| vec![path("/api/v1/**".to_owned()), host(format!("**.tenant{index}.example.com"))]),
            "/api/v1/orders".to_owned(),
            format!("www.tenant{last}.example.com"),
        ),
    ]
}

fn request<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> RequestView<'a> {
    RequestView::new(&Method::GET, uri, headers, IpAddr::V4(Ipv4Addr::LOCALHOST), 0)
}

fn find(c: &mut Criterion) {
    let headers = HeaderMap::new();
    let mut group = c.benchmark_group("find");
    for routes in [1, 1_000, 5_000] {
        let table = table(routes);
        let places = [
            ("first", path(0)),
            ("middle", path(routes / 2)),
            ("last", path(routes - 1)),
            ("none", "/api/v1/x/a".to_owned()),
        ];
        for (place, path) in &places {
            let uri = Uri::try_from(path).unwrap_or_default();
            let request = request(&uri, &headers);
            assert_eq!(table.find(&request).is_ok_and(|found| found.is_some()), *place != "none", "{path}");
            group.bench_function(format!("{routes} routes, {place}"), |b| {
                b.iter(|| table.find(black_box(&request)).map(|found| found.map(|found| found.index)));
            });
        }
    }
    for (name, table, path, host) in hard_cases(5_000) {
        let headers = HeaderMap::from_iter(HeaderValue::from_str(&host).map(|host| (HOST, host)));
        let uri = Uri::try_from(&path).unwrap_or_default();
        let request = request(&uri, &headers);
        assert_eq!(table.find(&request).ok().flatten().map(|found| found.index), Some(4_999), "{name}");
        group.bench_function(format!("5000 routes, {name}"), |b| {
            b.iter(|| table.find(black_box(&request)).map(|found| found.map(|found| found.index)));
        });
    }
    group.finish();
}

fn parse(c: &mut Criterion) {
    let patterns: Vec<String> = (0..5_000).map(pattern).collect();
    c.bench_function("parse 5000 patterns", |b| {
        b.iter(|| patterns.iter().filter(|pattern| PathPattern::parse(black_box(pattern)).is_ok()).count());
    });
    c.bench_function("build a table of 5000 routes", |b| b.iter(|| table(black_box(5_000)).len()));
    c.bench_function("normalize a normalized path", |b| {
        b.iter(|| normalize(black_box("/api/v1/service2/a/b")).is_ok())
    });
    c.bench_function("normalize an encoded path", |b| b.iter(|| normalize(black_box("/api//v1/%61/../b%2f")).is_ok()));
}

criterion_group!(benches, find, parse);
criterion_main!(benches);
