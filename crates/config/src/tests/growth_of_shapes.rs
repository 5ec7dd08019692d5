//! Growth of the number of steps with the number of entries of each kind, and the bounds of what multiplies.

use super::growth::{grows_linearly, lines};
use crate::parse;

const SPRING: &str = "spring.cloud.gateway.routes: ['a=http://a,Path=/**']\n";
const OWN: &str = "routes:\n- id: a\n  uri: 'http://a'\n  predicates: [Path=/**]\n";

/// Lines that each have one entry, `#` for its number.
const SHAPES: [(&str, &str); 26] = [
    ("", "s#: {ribbon: {listOfServers: 'a:1,b:2'}}"),
    ("hystrix.command:\n", "  h#: {execution.isolation.thread.timeoutInMilliseconds: 1}"),
    ("", "---\nspring.cloud.gateway.x#: 1"),
    ("upstreams: {}\n", "---\nupstreams: {u#: {endpoints: ['http://a']}}"),
    ("", "---\nspring.config.activate.on-profile: p#\nserver.port: 1"),
    ("spring.profiles.active: p0\nspring.profiles.group:\n", "  p#: g#"),
    ("filter-beans:\n", "  MyFilter#: {use: AddRequestHeader, args: {name: a, value: b}}"),
    ("spring.cloud.gateway.default-filters:\n", "- MyFilter#=1"),
    ("resilience4j.circuitbreaker.instances:\n", "  b#: {slidingWindowSize: 10}"),
    ("spring.cloud.discovery.client.simple.instances:\n", "  s#: [{uri: 'http://a'}]"),
    ("spring.cloud.loadbalancer.clients:\n", "  h#: {configurations: x}"),
    ("", "app#: {gateway: {routes: 1}}"),
    ("", "x#: {authorization: 'Basic dXNlcjpwYXNz#'}"),
    ("server.port: x\n", "p#.password: secret-value-#"),
    ("server.port: x\n", "p#: {url: 'redis://:secret#@host'}"),
    ("x:\n", "- &a# v#\n- *a#"),
    ("x: &x {a: 1}\ny:\n", "- {<<: *x, b#: 1}"),
    ("", "dup: 1"),
    ("", "a-b.c_d.e#: 1"),
    ("x:\n", "  '${A#:${B#:c}}': '${C#}'"),
    ("x:\n", "  y#: !tag# a"),
    ("key-resolvers:\n", "  k#: ip"),
    ("upstreams:\n  u:\n    endpoints:\n", "    - http://a#"),
    ("management:\n  tokens:\n", "  - {name: n#, role: none, token: 'hunter-#'}"),
    ("spring.cloud.gateway.globalcors.cors-configurations:\n", "  '[/p#/**]': {allowedOrigins: 'http://a'}"),
    ("spring.ssl.bundle.pem:\n", "  b#: {keystore.certificate: none.pem}"),
];

#[test]
fn entries_of_each_kind() {
    for (head, line) in SHAPES {
        grows_linearly("application.yml", |count| {
            lines(&format!("{SPRING}{head}"), count, |at| line.replace('#', &at.to_string()))
        });
    }
}

#[test]
fn properties_of_each_kind() {
    for line in
        ["p#.password=secret#", "spring.cloud.gateway.unknown#=1", "s.a#=1\ns.a#.b=1", "s#.ribbon.listOfServers=a:1"]
    {
        grows_linearly("application.properties", |count| {
            lines("spring.cloud.gateway.routes[0]=a=http://a,Path=/**\n", count, |at| {
                line.replace('#', &at.to_string())
            })
        });
    }
}

#[test]
fn wrong_predicates_and_filters_of_one_line() {
    for (key, shortcuts) in [
        ("predicates", ["Method=BAD #", "Path=bad", "Header=X,(", "RemoteAddr=1.2.3.4,x#"]),
        ("filters", ["StripPrefix=x#", "SetStatus=x", "AddRequestHeader=X-A", "RequestSize=1, 2, #"]),
    ] {
        for shortcut in shortcuts {
            grows_linearly("a.yaml", |count| {
                let list: Vec<String> =
                    (0..count).map(|at| format!("'{}'", shortcut.replace('#', &at.to_string()))).collect();
                format!("routes: [{{id: a, uri: 'http://a', {key}: [{}]}}]\n", list.join(", "))
            });
        }
    }
}

fn report(name: &str, text: &str) -> String {
    parse(name, text, &|_| None).map_or_else(|report| report.to_string(), |loaded| loaded.notes.to_string())
}

#[test]
fn filters_of_a_route_have_a_bound() {
    let filters = |count| lines("  filters:\n", count, |at| format!("  - AddRequestHeader=X-{at}, a"));
    for (count, is_refused) in [(999, false), (1_000, true)] {
        let defaults = "default-filters: ['AddRequestHeader=X, a']\n";
        let text = report("a.yaml", &format!("{defaults}{OWN}{}", filters(count)));
        let error = format!("error: the route has {} filters, with `default-filters`\n", count + 1);
        assert_eq!(text.contains(&error), is_refused, "{text}");
        assert_eq!(text.contains("  help: a route has at most 1,000\n"), is_refused, "{text}");
    }
}

#[test]
fn header_fields_of_a_request_have_a_bound() {
    let filter = |start: usize, count: usize| {
        let pairs: Vec<String> = (start..start + count).map(|at| format!("X-{at}:a")).collect();
        format!("  - AddRequestHeadersIfNotPresent={}\n", pairs.join(","))
    };
    let of_filters = |counts: &[usize]| {
        let filters: String = counts.iter().enumerate().map(|(at, count)| filter(10_000 * at, *count)).collect();
        report("a.yaml", &format!("{OWN}  filters:\n{filters}"))
    };
    for (counts, error) in [
        (&[1_000][..], ""),
        (&[1_001], "error: 1001 header fields are more than a request can carry"),
        (&[1_000; 4], ""),
        (&[1_000; 5], "error: filters of route `a` change 5000 header fields of a request"),
    ] {
        let text = of_filters(counts);
        assert!(text.contains(error) && text.contains("error:") != error.is_empty(), "{text}");
    }
}

#[test]
fn mistakes_in_one_argument() {
    grows_linearly("a.yaml", |count| {
        let names = (0..count).map(|at| format!("/{{a-long-name-of-a-variable-{at}}}")).collect::<String>();
        format!("routes: [{{id: a, uri: 'http://a', predicates: [Path=/a], filters: ['SetPath={names}']}}]\n")
    });
}

#[test]
fn default_filters_times_routes_have_a_bound() {
    let defaults = lines("default-filters:\n", 900, |at| format!("- AddRequestHeader=X-{at}, {}", "a".repeat(32)));
    let routes =
        |count| lines("routes:\n", count, |at| format!("- {{id: r{at}, uri: 'http://a', predicates: [Path=/{at}]}}"));
    for (count, is_refused) in [(20, false), (1_200, true)] {
        let text = report("a.yaml", &format!("{defaults}{}", routes(count)));
        let error = format!("error: `default-filters` have 1801 values, {count} times: more than 500,000");
        assert_eq!(text.contains(&error), is_refused, "{text}");
    }
}

#[test]
fn copies_of_filter_beans_have_a_bound() {
    let head = "filter-beans:\n  My:\n    use: AddRequestHeader\n    args:\n";
    let bean = lines(head, 1_000, |at| format!("      a{at}: b"));
    let routes = |count| {
        lines("spring.cloud.gateway.routes:\n", count, |at| {
            format!("- {{id: r{at}, uri: 'http://a', predicates: [Path=/{at}], filters: [My]}}")
        })
    };
    for (count, is_refused) in [(10, false), (300, true)] {
        let text = report("application.yml", &format!("{bean}{}", routes(count)));
        let found = text.matches("error: the copies of `filter-beans` have more than 250,000 values").count();
        assert_eq!(found == 1, is_refused, "{text}");
    }
}

#[test]
fn exceptions_that_instances_inherit_have_a_bound() {
    let file = |count| {
        let classes = vec!["java.io.IOException"; count].join(", ");
        format!(
            "{SPRING}resilience4j.circuitbreaker: {{configs: {{default: {{recordExceptions: [{classes}]}}}}, instances: {{a: {{}}}}}}\n"
        )
    };
    for (count, is_refused) in [(100, false), (101, true)] {
        let text = report("application.yml", &file(count));
        let error = "error: 101 exceptions, of which each instance has a copy\n";
        assert_eq!(text.contains(error), is_refused, "{text}");
    }
}
