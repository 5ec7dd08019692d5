//! Growth of the number of steps with the size of a file.

use std::fmt::Write as _;

use crate::{parse, steps};

fn lines(head: &str, count: usize, line: impl Fn(usize) -> String) -> String {
    (0..count).fold(head.to_owned(), |mut text, at| {
        let _ = writeln!(text, "{}", line(at));
        text
    })
}

const PLANS: &str = "routes:
- id: a
  uri: 'echo:'
  predicates: [Path=/**]
  filters:
  - name: RequestRateLimiter
    args:
      key-resolver: header:X-Key
      replenish-rate: 1
      plans: {gold: {replenish-rate: 5}}
      plan-resolver:
        table:
";

const LIMITER: &str = "{name: RequestRateLimiter, args: {key-resolver: ip, replenish-rate: 100, burst-capacity: 200}}";

/// Checks that a file of ten times the size takes at most about ten times as many steps.
fn grows_linearly(name: &str, text: impl Fn(usize) -> String) {
    let count = |size: usize| {
        let text = text(size);
        steps::of(|| {
            let report = parse(name, &text, &|_| None).map_or_else(|report| report, |loaded| loaded.notes);
            let _ = report.render(false);
        })
    };
    let (usual, tenfold) = (count(100), count(1_000));
    assert!(tenfold <= 12 * usual, "{usual} steps, ten times the size: {tenfold}");
}

#[test]
fn routes_with_several_predicates_and_a_limiter() {
    grows_linearly("routes.yaml", |count| {
        lines("routes:\n", count, |at| {
            let filters = format!("filters: [StripPrefix=1, {LIMITER}]");
            format!("- {{id: s{at}, uri: 'http://s{at}', predicates: [Path=/s{at}/**, Method=GET], {filters}}}")
        })
    });
}

#[test]
fn routes_in_the_properties_of_an_application() {
    grows_linearly("application.properties", |count| {
        lines("", count, |at| {
            let route = format!("spring.cloud.gateway.routes[{at}]");
            format!("{route}.id=s{at}\n{route}.uri=http://s{at}\n{route}.predicates[0]=Path=/s{at}/**")
        })
    });
}

#[test]
fn routes_with_a_warning_each() {
    grows_linearly("routes.yaml", |count| {
        lines("routes:\n- {id: all, uri: 'echo:', predicates: [Path=/**]}\n", count, |at| {
            format!("- id: s{at}\n  uri: http://s{at}\n  predicates: [Path=/s{at}/**]")
        })
    });
}

#[test]
fn routes_to_unknown_upstreams() {
    grows_linearly("application.yml", |count| {
        lines("spring.cloud.gateway.routes:\n", count, |at| {
            format!("- {{id: s{at}, uri: 'lb://s{at}', predicates: [Path=/s{at}/**]}}")
        })
    });
}

#[test]
fn a_table_of_plans() {
    grows_linearly("plans.yaml", |count| lines(PLANS, count, |at| format!("          key-{at}: gold")));
}

#[test]
fn a_table_of_plans_with_dots_in_its_keys() {
    grows_linearly("plans.yaml", |count| lines(PLANS, count, |at| format!("          org.key-{at}: gold")));
    grows_linearly("plans.yaml", |count| lines(PLANS, count, |at| format!("          key-{at}@example.org: gold")));
}

#[test]
fn a_document_over_another() {
    let table = |count| lines("upstreams:\n", count, |at| format!("  u{at}: {{endpoints: ['http://u{at}']}}"));
    let routes = "---\nroutes: [{id: a, uri: 'lb://U0', predicates: [Path=/**]}]\n";
    grows_linearly("upstreams.yaml", |count| format!("{}---\n{}{routes}", table(count), table(count)));
}
