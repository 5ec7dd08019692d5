//! Growth of the number of steps with the size of a file.

use std::fmt::Write as _;

use crate::{parse, steps};

pub(super) fn lines(head: &str, count: usize, line: impl Fn(usize) -> String) -> String {
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
pub(super) fn grows_linearly(name: &str, text: impl Fn(usize) -> String) {
    let count = |size: usize| {
        let text = text(size);
        steps::of(|| {
            let report = parse(name, &text, &|_| None).map_or_else(|report| report, |loaded| loaded.notes);
            let _ = report.render(false);
        })
    };
    let (usual, tenfold) = (count(100), count(1_000));
    assert!(tenfold <= 12 * usual, "{usual} steps, ten times the size: {tenfold}: {}", text(1));
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

#[test]
fn keys_that_are_unknown() {
    let route = "routes: [{id: a, uri: 'echo:', predicates: [Path=/**]}]\n";
    for section in ["", "server:\n  ", "resilience4j:\n  circuitbreaker:\n    instances:\n      "] {
        let indent = " ".repeat(section.rsplit('\n').next().unwrap_or_default().len());
        grows_linearly("a.yaml", |count| {
            let head = format!("{route}{}", section.trim_end_matches(' '));
            lines(&head, count, |at| format!("{indent}unknown{at}: {{register-health-indicator: ${{NONE}}}}"))
        });
    }
    grows_linearly("application.yml", |count| {
        lines("spring.cloud.gateway.routes: ['a=http://a,Path=/**']\ntollgate:\n", count, |at| {
            format!("  unknown{at}: 1")
        })
    });
}

#[test]
fn placeholders_without_a_value() {
    grows_linearly("application.yml", |count| {
        lines("spring.cloud.gateway.routes:\n", count, |at| {
            format!("- {{id: s{at}, uri: 'http://${{HOST{at}}}', predicates: [Path=/s{at}]}}")
        })
    });
}

#[test]
fn placeholders_that_are_open_or_nested() {
    let texts: [&dyn Fn(usize) -> String; 3] = [&|count| "${".repeat(count), &|count| "${a:".repeat(count), &|count| {
        ["${a:".repeat(count), "}".repeat(count)].concat()
    }];
    for text in texts {
        for (before, after) in [
            ("{uri: 'http://a', id: '", "'}"),
            ("{id: a, uri: '", "'}"),
            ("{id: a, uri: 'http://a', predicates: '", "'}"),
        ] {
            grows_linearly("application.yml", |count| {
                format!("spring.cloud.gateway.routes:\n- {before}{}{after}\n", text(count))
            });
        }
    }
}

#[test]
fn properties_that_placeholders_name() {
    grows_linearly("application.yml", |count| {
        lines("spring.cloud.gateway.routes:\n", count, |at| {
            format!("- {{id: s{at}, uri: 'http://${{host{at}}}', predicates: [Path=/s{at}]}}")
        }) + &lines("", count, |at| format!("host{at}: a${{x.host{at}}}\nx.host{at}: b"))
    });
}

#[test]
fn unknown_keys_are_not_looked_up_in_the_environment() {
    let lookups = std::cell::Cell::new(0);
    let env = |_: &str| {
        lookups.set(lookups.get() + 1);
        None
    };
    let keys: Vec<String> = (0..1_000).map(|at| format!("unknown{at}: 1")).collect();
    let text = format!("spring.cloud.gateway: {{routes: [], {}}}\n", keys.join(", "));
    assert!(parse("application.yml", &text, &env).is_ok());
    assert!(lookups.get() < 500, "{} lookups", lookups.get());
}

#[test]
fn keys_of_one_line() {
    let one_line = |count: usize, entry: &dyn Fn(usize) -> String| {
        let entries: Vec<String> = (0..count).map(entry).collect();
        format!("routes: []\nserver: {{{}}}\n", entries.join(", "))
    };
    grows_linearly("a.yaml", |count| one_line(count, &|_| "port: 8080".to_owned()));
    grows_linearly("a.yaml", |count| one_line(count, &|at| format!("password{at}: hunter-{at}, unknown{at}: 1")));
}

#[test]
fn routes_with_three_mistakes_each() {
    grows_linearly("routes.yaml", |count| {
        lines("routes:\n", count, |at| {
            format!("- {{id: s{at}, uri: nowhere, predicates: [Pth=/s{at}], filters: [StripPrefx=1]}}")
        })
    });
}

/// Names that resemble many known ones: their suggestions share one budget of comparisons.
#[test]
fn suggestions_have_a_bound() {
    let steps = |text: String| {
        steps::of(|| drop(parse("a.yaml", &text, &|_| None).map_or_else(|report| report, |loaded| loaded.notes)))
    };
    let known = |head: &str, count, value: &str| lines(head, count, |at| format!("  name{at}: {value}"));
    let limiter =
        |at| format!("{{name: RequestRateLimiter, args: {{replenish-rate: 1, key-resolver: '#{{@nxme{at}}}'}}}}");
    let route = |at, uri: &str, filters: &str| {
        format!("- {{id: s{at}, uri: '{uri}', predicates: [Path=/s{at}], filters: [{filters}]}}")
    };
    let files: [&dyn Fn(usize) -> String; 3] = [
        &|count| {
            known("upstreams:\n", count, "{endpoints: ['http://a']}")
                + &lines("routes:\n", count, |at| route(at, &format!("lb://nxme{at}"), ""))
        },
        &|count| {
            known("key-resolvers:\n", count, "ip") + &lines("routes:\n", count, |at| route(at, "echo:", &limiter(at)))
        },
        &|count| {
            lines("routes:\n", count, |at| {
                format!("- {{id: s{at}, uri: 'echo:', predicates: [Path=/s{at}, 'Weight=g{at},1']}}")
            })
        },
    ];
    for (number, file) in files.into_iter().enumerate() {
        let (usual, threefold) = (steps(file(1_000)), steps(file(3_000)));
        assert!(threefold <= 4 * usual, "file {number}: {usual} steps, three times the size: {threefold}");
    }
}

#[test]
fn lists_that_replace_each_other() {
    grows_linearly("a.yaml", |count| {
        lines("", count, |at| format!("---\nroutes: [{{id: s{at}, uri: 'echo:', predicates: [Path=/s{at}]}}]"))
    });
    grows_linearly("a.yaml", |count| {
        let list = |name: &str| lines("default-filters:\n", count, |at| format!("- AddRequestHeader={name}{at}, 1"));
        format!("{}---\n{}routes: []\n", list("X-A"), list("X-B"))
    });
}

/// The length of a report does not grow with the file: long lists in messages, and parts of the overlay.
#[test]
fn a_report_has_a_bound() {
    let text = lines("spring.cloud.gateway.routes:\n", 3_000, |at| {
        format!("- {{id: s{at}, uri: 'lb://name-{at}', predicates: [Path=/s{at}]}}")
    }) + &lines("", 3_000, |at| format!("application-{at}: {{a: 1}}"));
    let notes = parse("application.yml", &text, &|_| None).unwrap().notes;
    assert!(notes.list().iter().all(|found| found.message.len() < 4_100), "a message lists all sections");
    assert!(notes.render(false).len() < 200_000);
    let (overlay, others) = notes.overlay_at_most(&["application.yml"], None, 100).unwrap();
    assert!((others, overlay.lines().count() < 120) == (2_900, true), "{others} {overlay}");
    assert!(overlay.ends_with("# 2900 more are missing; `--max-problems 0` names them\n"), "{overlay}");
}

#[test]
fn lines_that_are_ever_deeper() {
    grows_linearly("a.yaml", |count| {
        lines("x:\n", count / 10, |at| format!("{}a:", " ".repeat(at + 1))) + &" ".repeat(count * 10) + "b: 1\n"
    });
}

#[test]
fn secrets_of_a_file_with_mistakes() {
    grows_linearly("a.yaml", |count| {
        lines("redis: {host: a, port: x}\nmanagement:\n  tokens:\n", count, |at| {
            format!("  - {{name: n{at}, role: none, token: 'hunter-{at}'}}")
        })
    });
}
