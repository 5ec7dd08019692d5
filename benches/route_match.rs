//! How long it takes to find a route, and to read patterns.

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};

use criterion::{Criterion, criterion_group, criterion_main};
use http::{HeaderMap, Method};
use tollgate::routing::{PathPattern, Predicate, RequestView, RouteTable, normalize};

/// Routes as gateways have them: half share their first segments, each asks for a method too.
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
            let request = RequestView {
                method: &Method::GET,
                path,
                query: None,
                headers: &headers,
                peer: IpAddr::V4(Ipv4Addr::LOCALHOST),
                now_ms: || 0,
                chance: 0,
            };
            assert_eq!(table.find(&request).is_some(), *place != "none", "{path}");
            group.bench_function(format!("{routes} routes, {place}"), |b| {
                b.iter(|| table.find(black_box(&request)).map(|found| found.index));
            });
        }
    }
    group.finish();
}

fn read(c: &mut Criterion) {
    let patterns: Vec<String> = (0..5_000).map(pattern).collect();
    c.bench_function("parse 5000 patterns", |b| {
        b.iter(|| patterns.iter().filter(|pattern| PathPattern::parse(black_box(pattern)).is_ok()).count());
    });
    c.bench_function("build a table of 5000 routes", |b| b.iter(|| table(black_box(5_000)).len()));
    c.bench_function("normalize a normal path", |b| b.iter(|| normalize(black_box("/api/v1/service2/a/b")).is_ok()));
    c.bench_function("normalize an encoded path", |b| b.iter(|| normalize(black_box("/api//v1/%61/../b%2f")).is_ok()));
}

criterion_group!(benches, find, read);
criterion_main!(benches);
