//! Time to read a configuration of thousands of routes.

use std::fmt::Write as _;
use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use tollgate_config::parse;

/// Size of a route.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// A path, methods, filters.
    Plain,
    /// Two regular expressions besides.
    Expressions,
    /// The same, and a remark on each route.
    Remarks,
}

/// An application.yml as a generator of routes writes it.
fn yaml(routes: usize, kind: Kind) -> String {
    let mut text = String::from(
        "spring.cloud.gateway.server.webflux:\n  default-filters:\n    - AddRequestHeader=X-Gateway, tollgate\n  routes:\n",
    );
    for index in 0..routes {
        let flag = if kind == Kind::Remarks { ",true" } else { "" };
        let _ = write!(
            text,
            "    - id: service-{index}\n      uri: http://service-{index}.internal:8080\n      predicates:\n        \
             - Path=/api/v1/service{index}/**, /v2/service{index}/{{id}}{flag}\n        - Method=GET,POST\n"
        );
        if kind != Kind::Plain {
            let _ = writeln!(text, "        - Header=X-Tenant, t{index}-[a-z]+");
        }
        text.push_str("      filters:\n        - StripPrefix=2\n");
        if kind != Kind::Plain {
            let _ = writeln!(text, "        - RewritePath=/service{index}/(?<rest>.*), /$\\{{rest}}");
        }
        let _ = write!(
            text,
            "        - AddResponseHeader=X-Served-By, service-{index}\n      metadata:\n        response-timeout: 2000\n"
        );
    }
    text
}

fn load(c: &mut Criterion) {
    let mut group = c.benchmark_group("load");
    group.sample_size(10);
    for (name, kind) in [
        ("5000 routes", Kind::Plain),
        ("5000 routes of two expressions", Kind::Expressions),
        ("5000 routes of two expressions, with a remark each", Kind::Remarks),
    ] {
        let text = yaml(5_000, kind);
        assert_eq!(parse("bench.yaml", &text, &|_| None).map(|loaded| loaded.config.routes.len()).ok(), Some(5_000));
        group.bench_function(name, |b| {
            b.iter(|| parse("bench.yaml", black_box(&text), &|_| None).map(|loaded| loaded.config.routes.len()).ok());
        });
    }
    group.finish();
}

criterion_group!(benches, load);
criterion_main!(benches);
