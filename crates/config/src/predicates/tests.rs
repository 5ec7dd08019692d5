#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::predicates::{names, predicates};
use crate::{Loaded, parse};

#[test]
fn each_predicate_is_in_the_table_once_and_documented() {
    let mut seen: Vec<_> = names().collect();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), predicates().len());
    for entry in predicates() {
        assert!(entry.doc.ends_with('.'), "{}", entry.name);
        assert!(entry.args.iter().all(|argument| argument.doc.ends_with('.')), "{}", entry.name);
    }
}

fn outcome(text: &str) -> (Option<Loaded>, String) {
    match parse("test.yaml", text, &|_| None) {
        Ok(loaded) => {
            let notes = loaded.notes.to_string();
            (Some(loaded), notes)
        }
        Err(problems) => (None, problems.to_string()),
    }
}

/// Returns the first route's predicates as they show; `before` are lines before `routes:`.
fn shown(before: &str, predicates: &str) -> String {
    let (loaded, notes) = outcome(&format!("{before}routes: [{{id: a, uri: 'echo:', predicates: {predicates}}}]\n"));
    let loaded = loaded.unwrap_or_else(|| panic!("{notes}"));
    tollgate_routing::AllOf(&loaded.config.routes[0].predicates).to_string()
}

fn complaint(before: &str, predicates: &str) -> String {
    outcome(&format!("{before}routes: [{{id: a, uri: 'echo:', predicates: {predicates}}}]\n")).1
}

#[test]
fn shortcuts_and_named_arguments_mean_the_same() {
    for (predicates, expected) in [
        ("['Path=/a,/b,true']", "Paths: [/a, /b], match trailing slash: true"),
        (
            "[{name: Path, args: {patterns: [/a, /b], match-trailing-slash: true}}]",
            "Paths: [/a, /b], match trailing slash: true",
        ),
        ("[{name: Path, args: {pattern: /a}}]", "Paths: [/a], match trailing slash: false"),
        ("[{name: Path, args: {_genkey_0: /a, _genkey_1: /b}}]", "Paths: [/a, /b], match trailing slash: false"),
        ("['Method= GET, , POST,']", "Methods: [GET, POST]"),
        ("[{name: Host, args: {patterns: '**.a'}}]", "Hosts: [**.a]"),
        ("[{name: Header, args: {HEADER: X-Id, regexp: '\\d+'}}]", "Header: X-Id regexp=\\d+"),
        ("[{name: Header, args: {_genkey_0: X-Id, _genkey_1: '\\d+'}}]", "Header: X-Id regexp=\\d+"),
        ("['Weight=g, 8']", "Weight: g 8"),
        ("[{name: Weight, args: {group: g, weight: 8}}]", "Weight: g 8"),
        ("[{name: Weight, args: {weight.group: g, weight.weight: 8}}]", "Weight: g 8"),
        ("['XForwardedRemoteAddr=10.0.0.1, 10.1.0.0/16']", "XForwardedRemoteAddrs: [10.0.0.1, 10.1.0.0/16]"),
        (
            "[{name: XForwardedRemoteAddr, args: {sources: [10.0.0.1], max-trusted-index: 2}}]",
            "XForwardedRemoteAddrs: [10.0.0.1], max trusted index: 2",
        ),
        ("['CloudFoundryRouteService=']", "CloudFoundryRouteService"),
        (
            "[{any: ['Path=/a', {all: ['Host=b', {not: 'Method=GET'}]}]}, {not: {name: Query, args: {param: q}}}]",
            "((Paths: [/a], match trailing slash: false || (Hosts: [b] && !Methods: [GET])) && !Query: param=q regexp=null)",
        ),
    ] {
        assert_eq!(shown("", predicates), expected, "{predicates}");
    }
}

#[test]
fn a_route_keeps_its_definition() {
    let text = "routes: [{id: a, uri: 'echo:', predicates: ['Path=/a', {any: ['Host=a,b', {not: 'Method=GET'}]}]}]";
    let loaded = outcome(text).0.unwrap();
    assert_eq!(loaded.config.routes[0].definition.predicates, ["Path=/a", "any: [Host=a,b; not: Method=GET]"]);
}

#[test]
fn an_error_is_at_the_argument_that_it_is_about() {
    for (predicate, at, message) in [
        ("['Path=x,/{x}/{x}']", "1:53: error", "invalid path pattern `/{x}/{x}`"),
        ("['Method=GET,G T']", "1:57: error", "`G T` is not"),
        ("['Weight=x,x']", "1:55: error", "`weight` must be a whole number"),
    ] {
        let notes = complaint("", predicate);
        let (errors, warnings) = (notes.matches(" error: ").count(), notes.matches("warning: unknown method").count());
        assert!(notes.contains(at) && notes.contains(message), "{predicate}: {notes}");
        assert_eq!((errors, warnings), (1, 0), "{predicate}: {notes}");
    }
}

#[test]
fn the_base_path_is_prepended_to_every_pattern() {
    for (base, predicates, expected) in [
        ("base-path: /api\n", "['Path=/a,b']", "Paths: [/api/a, /api/b], match trailing slash: false"),
        ("base-path: api/v1/\n", "['Path=/**']", "Paths: [/api/v1/**], match trailing slash: false"),
        ("base-path: /\n", "['Path=/a']", "Paths: [/a], match trailing slash: false"),
        ("base-path: /api\n", "['Method=GET']", "(Methods: [GET] && Paths: [/api/**], match trailing slash: false)"),
    ] {
        assert_eq!(shown(base, predicates), expected, "{base} {predicates}");
    }
    for base in ["/a/../b", "/{a}", "/a%20b", "/a b", "/a*"] {
        let notes = complaint(&format!("base-path: '{base}'\n"), "['Path=/a']");
        assert!(notes.contains("1:12: error: `") && notes.contains("is not a valid base path"), "{base}: {notes}");
    }
    let notes = complaint("base-path: /api\n", "['Path=/a/{b']");
    assert!(notes.contains("invalid path pattern `/a/{b`: `{` at character 4"), "{notes}");
}

#[test]
fn settings_of_predicates_are_read_at_springs_paths() {
    let spring = "spring:\n  webflux:\n    base-path: /api\n    apiversion: {use: {header: X-Version, path-segment: 0}, default-version: 1.1, supported: [1.1, 1.3]}\n    \
                  format: {date: iso}\n  cloud.gateway.server.webflux:\n    predicate.host.include-port: false\n    \
                  routes: ['a=http://a,Path=/a/**,Host=b,Version=1.3+']\n";
    let (loaded, notes) = outcome(spring);
    let loaded = loaded.unwrap_or_else(|| panic!("{notes}"));
    assert!(notes.contains("skipped: spring.webflux"), "what else stands there is named: {notes}");
    assert!(!notes.contains("warning"), "{notes}");
    let shown = tollgate_routing::AllOf(&loaded.config.routes[0].predicates).to_string();
    assert_eq!(shown, "((Paths: [/api/a/**], match trailing slash: false && Hosts: [b]) && Version: 1.3+)");
}

#[test]
fn api_versions_are_checked() {
    let used = "api-version: {use: {header: X-Version}}\n";
    assert_eq!(shown(used, "['Version=1.3']"), "Version: 1.3");
    for (before, predicates, expected) in [
        ("", "['Version=1.3']", "1:45: error: `Version` never matches: `api-version` has no source"),
        (used, "['Version=new']", "error: `new` is not a version: write one such as 1.3, or 1.1+"),
        ("api-version: {use: {header: X-Version}, default: x}\n", "['Path=/a']", "1:50: error: `x` is not a version"),
        ("api-version: {use: {header: X-Version}, supported: [x]}\n", "['Path=/a']", "error: `x` is not a version"),
        ("api-version: {use: {header: 'X Version'}}\n", "['Path=/a']", "error: `X Version` is not a valid header name"),
        ("api-version: {default: 1}\n", "['Path=/a']", "error: `api-version` has no source of versions"),
        (
            "api-version: {use: {header: X-Version}, default: 1, required: true}\n",
            "['Path=/a']",
            "error: `default` and `required: true` exclude each other",
        ),
        ("api-version: {use: {head: X-Version}}\n", "['Path=/a']", "error: unknown key `head`"),
    ] {
        let notes = complaint(before, predicates);
        assert!(notes.contains(expected), "{before}{predicates}: {notes}");
    }
}

#[test]
fn lists_need_their_own_name_in_a_tollgate_file() {
    let notes = complaint("", "[{name: Path, args: {anything: /a}}]");
    assert!(notes.contains("error: `Path` has no argument `anything`"), "{notes}");
    let notes = complaint("", "[{name: Method, args: {methods: GET, flag: true}}]");
    assert!(notes.contains("error: `Method` has no argument `flag`"), "{notes}");
    let notes = complaint("", "[{name: Path, args: {matchTrailingSlash: true, patterns: /a}}]");
    assert!(notes.contains("error: Spring reads `matchTrailingSlash` as a pattern"), "{notes}");
}

#[test]
fn weight_groups_are_checked_as_a_whole() {
    let routes = |list: &[(&str, &str)]| {
        let lines: Vec<String> = list
            .iter()
            .map(|(id, predicates)| format!("- {{id: {id}, uri: 'echo:', predicates: [{predicates}]}}"))
            .collect();
        let (loaded, notes) = outcome(&format!("routes:\n{}\n", lines.join("\n")));
        assert!(loaded.is_some(), "{notes}");
        notes
    };
    assert_eq!(routes(&[("a", "Path=/x, 'Weight=g,1'"), ("b", "'Weight=g,2', Path=/x")]), "");
    let zero = routes(&[("a", "'Weight=g,0'"), ("b", "'Weight=g,0'")]);
    assert!(zero.contains("2:8: warning: every weight of group `g` is 0"), "{zero}");
    let alone = routes(&[("a", "'Weight=group1,8'"), ("b", "'Weight=groupl,2'")]);
    assert!(alone.contains("note: route `a` is alone in weight group `group1`"), "{alone}");
    assert!(alone.contains("did you mean group `groupl`?"), "{alone}");
    let apart = routes(&[("a", "Path=/x, 'Weight=g,1'"), ("b", "Path=/y, 'Weight=g,1'")]);
    assert!(
        apart.contains("3:8: warning: routes `a` and `b` of weight group `g` differ in other predicates"),
        "{apart}"
    );
    let off = "routes:\n- {id: a, uri: 'echo:', predicates: ['Weight=g,0']}\n- {id: b, uri: 'echo:', enabled: false, predicates: ['Weight=g,1']}\n";
    assert!(outcome(off).1.contains("every weight of group `g` is 0"), "a disabled route is in no group");
}

#[test]
fn remarks_of_a_row_stand_at_their_places() {
    let route = "- {id: a, uri: 'http://a', predicates: [{name: XForwardedRemoteAddr, args: {sources: ['::1'], maxTrustedIndex: 2}}]}\n";
    let (loaded, notes) = outcome(&format!("spring.cloud.gateway.server.webflux.routes:\n{route}"));
    assert!(loaded.is_some(), "{notes}");
    for expected in [
        "2:48: warning: `XForwardedRemoteAddr` without `trusted-proxies`",
        "2:87: warning: Spring reads `::1` as the network `::1/32`",
        "2:95: warning: Spring reads `maxTrustedIndex` as a source",
    ] {
        assert!(notes.contains(expected), "{expected}: {notes}");
    }
    let own = |predicate: &str| complaint("trusted-proxies: [10.0.0.1]\n", predicate);
    assert_eq!(own("[{name: RemoteAddr, args: {sources: ['::1']}}]"), "");
    let wrong = own("[{name: XForwardedRemoteAddr, args: {sources: [10.0.0.1], maxTrustedIndex: none}}]");
    assert!(wrong.contains("2:119: error: `maxTrustedIndex` must be a number from 1, found `none`"), "{wrong}");
}
