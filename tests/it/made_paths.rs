//! Paths and hosts that filters make.

use crate::support::gateway::Gateway;
use crate::support::upstream::Upstream;

/// Keeps encoded slashes in their segments.
const KEEP: &str = "server: {address: 127.0.0.1, workers: 1, path: {encoded-slash: keep}}\n";

/// A path that the client sends, the filter, and the path that the upstream gets; `None` if the request is refused.
type MadePath = (&'static str, &'static str, Option<&'static str>);

#[test]
fn the_rules_for_paths_hold_for_those_that_filters_make() {
    const MADE: [MadePath; 12] = [
        ("/img-a", "SetPath=/images/{name}", Some("/images/a")),
        ("/img-a%2Fb", "SetPath=/images/{name}", Some("/images/a%2Fb")),
        ("/img-..%2Fadmin", "SetPath=/images/{name}", None),
        ("/img-..", "SetPath=/images/{name}", None),
        ("/img-..%3Bx", "SetPath=/images/{name}/b", None),
        ("/img-..%2Fadmin", "PrefixPath=/images/{name}", None),
        ("/img-a", "PrefixPath=/images/{name}", Some("/images/a/img-a")),
        ("/img-..%2Fadmin", "RewritePath=/img-(?<n>.*), /images/$\\{n}", None),
        ("/img-a", "SetPath=/group%2Fproject/100%/{name}", Some("/group%2Fproject/100%25/a")),
        ("/img-a", "SetRequestUri=http://UPSTREAM/x/{name}", Some("/x/a")),
        ("/img-..%2Fadmin", "SetRequestUri=http://UPSTREAM/x/{name}", Some("/img-..%2Fadmin")),
        ("/img-..%2Fadmin", "StripPrefix=0", Some("/img-..%2Fadmin")),
    ];
    let upstream = Upstream::ok("reached");
    let mut routes = String::from("routes:\n");
    for (n, (_, filter, _)) in MADE.iter().enumerate() {
        let filter = filter.replace("UPSTREAM", &upstream.address.to_string());
        routes += &format!(
            "  - {{id: r{n}, uri: '{}', predicates: ['Path=/img-{{name}}', Host=h{n}], filters: ['{filter}']}}\n",
            upstream.uri()
        );
    }
    for yaml in [format!("{KEEP}{routes}"), format!("spring.cloud.gateway:\n  {routes}")] {
        let gateway = Gateway::start(&yaml);
        for (n, (path, filter, seen)) in MADE.iter().enumerate() {
            let before = upstream.requests().len();
            let answer = gateway.connect().request("GET", path, &[("Host", &format!("h{n}"))], b"");
            match seen {
                Some(seen) => {
                    assert_eq!(answer.status, 200, "{filter} on {path}");
                    assert_eq!(upstream.targets().last().unwrap(), seen, "{filter} on {path}");
                }
                None => {
                    assert_eq!(answer.status, 400, "{filter} on {path}");
                    assert!(answer.text().starts_with("Bad Request: after a filter, the path"), "{}", answer.text());
                    assert_eq!(upstream.requests().len(), before, "{filter} on {path}");
                }
            }
        }
    }
}

/// A path that is routed again is matched by its normal form.
#[test]
fn a_path_that_a_filter_made_bypasses_no_route() {
    let upstream = Upstream::ok("reached");
    let routes = format!(
        "routes:\n\
         - {{id: made, uri: 'forward:/', predicates: ['Path=/to/t-{{name}}'], filters: ['SetPath=/x/{{name}}', 'RewritePath=^/x/, //']}}\n\
         - {{id: fallback, uri: 'no:', predicates: ['Path=/fallback/f-{{name}}'], filters: [{{name: CircuitBreaker, args: \
         {{name: b, statusCodes: [200], fallbackUri: 'forward:/x/{{name}}'}}}}]}}\n\
         - {{id: guarded, uri: '{uri}', predicates: [Path=/admin/**], filters: [SetStatus=403]}}\n\
         - {{id: open, uri: '{uri}', predicates: [Path=/**]}}\n",
        uri = upstream.uri()
    );
    let gateway = Gateway::start(&format!("{KEEP}{routes}"));
    for (path, status) in
        [("/to/t-admin", 403), ("/to/t-%61dmin", 403), ("/to/t-other", 200), ("/to/t-..%2Fadmin", 400)]
    {
        assert_eq!(gateway.get(path).status, status, "{path}");
    }
    for (path, status) in [("/fallback/f-a", 200), ("/fallback/f-..%2Fadmin", 400), ("/fallback/f-a%2Fb", 200)] {
        assert_eq!(gateway.get(path).status, status, "{path}");
    }
}

#[test]
fn a_host_that_a_filter_makes_is_a_valid_one() {
    let upstream = Upstream::ok("reached");
    let mut routes = String::from("routes:\n");
    for (id, filter) in [
        ("host", "'SetRequestHostHeader={name}.example'"),
        ("field", "PreserveHostHeader, 'SetRequestHeader=Host, {name}.example'"),
    ] {
        routes += &format!(
            "  - {{id: {id}, uri: '{}', predicates: ['Path=/{id}/{{name}}'], filters: [{filter}]}}\n",
            upstream.uri()
        );
    }
    for yaml in [format!("{KEEP}{routes}"), format!("spring.cloud.gateway:\n  {routes}")] {
        let gateway = Gateway::start(&yaml);
        for path in ["/host/", "/field/"] {
            assert_eq!(gateway.get(&format!("{path}a")).status, 200, "{path}");
            assert_eq!(upstream.requests().last().unwrap().header("host"), Some("a.example"));
            for name in ["a,b", "a%2Cb", "a%20b", "a@b", "a%2Fb", "%5Ba%5D", "a%0D%0AX:b", "a%3Ab"] {
                let before = upstream.requests().len();
                let answer = gateway.get(&format!("{path}{name}"));
                assert_eq!((answer.status, upstream.requests().len()), (400, before), "{path}{name}");
            }
        }
    }
}
