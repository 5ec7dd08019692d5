//! How long it takes to read a configuration of thousands of routes.

use std::fmt::Write as _;
use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use tollgate::config::parse;

/// An application.yml as a generator of routes writes it: `noisy` ones each earn a remark.
fn yaml(routes: usize, noisy: bool) -> String {
    let mut text = String::from(
        "spring.cloud.gateway.server.webflux:\n  default-filters:\n    - AddRequestHeader=X-Gateway, tollgate\n  routes:\n",
    );
    for index in 0..routes {
        let _ = write!(
            text,
            "    - id: service-{index}\n      uri: http://service-{index}.internal:8080\n      predicates:\n        \
             - Path=/api/v1/service{index}/**, /v2/service{index}/{{id}}{}\n        - Method=GET,POST\n        \
             - Header=X-Tenant, [a-z]+\n      filters:\n        - StripPrefix=2\n        \
             - RewritePath=/service{index}/(?<rest>.*), /$\\{{rest}}\n        - AddResponseHeader=X-Served-By, service-{index}\n      \
             metadata:\n        response-timeout: 2000\n",
            if noisy { ",true" } else { "" }
        );
    }
    text
}

fn load(c: &mut Criterion) {
    let mut group = c.benchmark_group("load");
    group.sample_size(10);
    for (name, noisy) in [("5000 routes", false), ("5000 routes with a remark each", true)] {
        let text = yaml(5_000, noisy);
        group.bench_function(name, |b| {
            b.iter(|| parse("bench.yaml", black_box(&text), &|_| None).map(|loaded| loaded.config.routes.len()).ok());
        });
    }
    group.finish();
}

criterion_group!(benches, load);
criterion_main!(benches);
