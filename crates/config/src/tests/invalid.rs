//! Invalid files, and the positions of their problems.

use crate::tests::*;

#[test]
fn a_wrong_argument_hides_no_later_check_of_its_filter() {
    for (filter, expected, absent) in [
        (
            "{name: Retry, args: {retries: many, methods: []}}",
            ["number of retries from 1 to 1000, found `many`", "`methods` is empty"],
            "needs",
        ),
        (
            "{name: ConcurrencyLimiter, args: {limit: many, key-resolver: nowhere}}",
            ["found `many`", "`nowhere`"],
            "needs `limit`",
        ),
        (
            "{name: Retry, args: {backoff: soon, retries: 0, jitter: {randomFactor: 0.5}}}",
            ["found `soon`", "found `0`"],
            "`jitter` needs `backoff`",
        ),
        (
            "{name: ConcurrencyLimiter, args: {limit: 1, lease: soon, renew-every: 40s, key-resolver: {}}}",
            ["found `soon`", "found a map"],
            "needs `key-resolver`",
        ),
        (
            "{name: ConcurrencyLimiter, args: {limit: 1, lease: soon, renew-every: 40s, store: disk}}",
            ["found `soon`", "found `disk`"],
            "shorter than `lease`",
        ),
        (
            "{name: RequestCounter, args: {period: weekly, ttl: 2h, key-resolver: nowhere}}",
            ["`weekly`", "`nowhere`"],
            "`ttl`",
        ),
        ("{name: Retry, args: {methods: [null, [GET]]}}", ["found nothing", "found a list"], "`methods` is empty"),
        (
            "{name: RequestCounter, args: {bucket: b}}, {name: RequestCounter, args: {bucket: b, dimensions: [rout, methd]}}",
            ["found `rout`", "found `methd`"],
            "other dimensions",
        ),
    ] {
        let text = format!("routes: [{{id: a, uri: 'echo:', predicates: [Path=/**], filters: [{filter}]}}]\n");
        let report = parse("test.yaml", &text, &|_| None).unwrap_err().to_string();
        for part in expected {
            assert!(report.contains(part), "{filter}: no {part} in\n{report}");
        }
        assert!(!report.contains(absent), "{report}");
    }
}

#[test]
fn a_problem_of_a_shortcut_has_the_position_of_the_argument() {
    let route = |filters: &str| {
        format!("routes:\n- id: a\n  uri: http://a\n  predicates: [Path=/**]\n  filters:\n    - {filters}\n")
    };
    for (filter, column) in [
        ("StripPrefix=one", 19),
        ("\"StripPrefix= one\"", 21),
        ("RewritePath=/a(, /b", 19),
        ("RedirectTo=302, not a url", 23),
        ("RedirectTo=,302, not a url", 24),
        ("StripPrefix", 0),
        ("AddRequestHeader=X-A", 7),
    ] {
        let text = route(filter);
        match parse("test.yaml", &text, &no_env) {
            Ok(_) => assert_eq!(column, 0, "{filter}"),
            Err(problems) => {
                assert_eq!((problems.list()[0].line, problems.list()[0].column), (6, column), "{problems}")
            }
        }
    }
}

#[test]
fn one_run_reports_every_problem_sorted_by_position() {
    let text = "server:\n  port: lots\n  worker: 2\nmemory: {max-keys: 0}\nroutes:\n- id: a\n  uri: localhost:80\n  predicates: [Pth=/**]\n  filters: [StripPrefix=x]\n";
    let problems = parse("test.yaml", text, &no_env).unwrap_err();
    let places: Vec<(usize, usize)> = problems.list().iter().map(|p| (p.line, p.column)).collect();
    assert_eq!(places, [(2, 9), (3, 3), (4, 20), (7, 8), (8, 16), (9, 25)], "{problems}");
}

#[test]
fn errors_at_many_empty_lists_have_their_places() {
    let text = format!("routes:\n{}", "- []\n".repeat(130));
    let problems = parse("test.yaml", &text, &no_env).unwrap_err();
    assert!(problems.list().len() >= 130, "{problems}");
    assert!(problems.list().iter().all(|problem| problem.line > 0 && problem.column == 3), "{problems}");
}

#[test]
fn a_problem_shows_its_line_with_a_caret_below() {
    let rendered = refused("server:\n  prot: 80\n");
    assert!(
        rendered.starts_with(
            "test.yaml:2:3: error: unknown key `prot`\n  2 |   prot: 80\n    |   ^\n  help: did you mean `port`?\n"
        ),
        "{rendered}"
    );
}

#[test]
fn invalid_texts_are_reported_without_a_panic() {
    for text in ["", "---", "# nothing\n", "---\n---\n", "routes:\n", "routes: ' '\n", "spring:\n"] {
        assert!(loaded(text).notes.to_string().contains("no routes"), "{text:?}");
    }
    for text in [
        "x",
        "[]",
        "1",
        "\u{0}",
        "a: [",
        "a: *b",
        "? [a]\n: b",
        "routes: {}",
        "routes: 5",
        "routes: [[]]",
        "routes: [null]",
        "routes: [{predicates: {}}]",
        "server: []",
        "via: []",
        "key-resolvers: []",
        "&a [*a]",
        "!x y",
        "a: !x {b: c}",
    ] {
        assert!(refused(text).contains("error: "), "{text:?}");
    }
}

#[test]
fn positions_are_found_before_a_syntax_error() {
    let rendered = refused("a: 1\na: 2\nb:\n  - c\n    - d: e\n");
    assert!(rendered.contains("2:1: error: duplicate key `a`") && rendered.contains("not valid YAML"), "{rendered}");
}

#[test]
fn an_unset_placeholder_is_reported_once() {
    let text = "server: {port: \"${PORT}\"}\nroutes: [{id: a, uri: \"${URI}\", predicates: [Path=/**]}]\n";
    let problems = parse("test.yaml", text, &no_env).unwrap_err();
    assert_eq!(problems.list().len(), 2, "{problems}");
}

#[test]
fn truncated_files_and_missing_lines_cause_no_panic() {
    for name in ["spring.yaml", "several-services.yaml"] {
        let text =
            std::fs::read_to_string(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("config").join(name))
                .unwrap();
        let cuts = text.char_indices().map(|(at, _)| text[..at].to_owned());
        let lines: Vec<&str> = text.lines().collect();
        let holes = (0..lines.len()).map(|hole| {
            let kept: Vec<&str> =
                lines.iter().enumerate().filter(|(at, _)| *at != hole).map(|(_, line)| *line).collect();
            kept.join("\n")
        });
        for text in cuts.chain(holes) {
            let notes = match parse("cut.yaml", &text, &no_env) {
                Ok(loaded) => loaded.notes,
                Err(problems) => problems,
            };
            let height = text.lines().count() + 1;
            assert!(notes.list().iter().all(|problem| problem.line <= height), "{notes}");
        }
    }
}

#[test]
fn a_list_whose_items_are_all_wrong_is_not_empty() {
    for sections in [
        "redis: {cluster: {nodes: [[]]}}",
        "redis: {sentinel: {master: main, nodes: [[]]}}",
        "jwt: {jwks: 'https://a/keys', algorithms: [[]]}",
    ] {
        let text = refused(&format!("{sections}\nroutes: [{{id: a, uri: 'echo:', predicates: [Path=/**]}}]\n"));
        assert_eq!(text.matches("error: ").count(), 1, "{text}");
    }
}

#[test]
fn a_redis_timeout_of_zero_is_reported_once() {
    for time in ["0", "0s", "PT0S"] {
        let text = refused(&format!("redis: {{host: localhost, timeout: {time}}}\nroutes: ['a=http://a,Path=/**']\n"));
        assert_eq!(text.matches("error: ").count(), 1, "{text}");
        assert!(text.contains("test.yaml:1:35: error: `timeout` must be longer than 0"), "{text}");
    }
}

#[test]
fn the_value_of_a_misspelled_argument_is_masked() {
    let route = "routes: [{id: a, uri: http://a, predicates: [Path=/**], filters: [{name: AddRequestHeader, args: {nam: X-Token, valu: hunter2}}]}]";
    for text in [route, "redis: {key-store-paswrod: hunter2, url: \"redis://a\"}", "redis: {password:hunter2}"] {
        let shown = parse("test.yaml", text, &no_env).unwrap_err().to_string();
        assert!(shown.contains("help: ") && !shown.contains("hunter2"), "{shown}");
    }
}

#[test]
fn tokens_of_registries_have_visible_ascii_characters_only() {
    let text = |consul: &str, kubernetes: &str| {
        format!(
            "consul:\n  token: '{consul}'\n  discovery: {{acl-token: ' '}}\nkubernetes:\n  client:\n    \
             master-url: 'http://k'\n    oauth-token: '{kubernetes}'\n\
             routes: [{{id: a, uri: 'lb://a', predicates: [Path=/a]}}]\n"
        )
    };
    let problems = refused(&text("a b", "\u{e4}"));
    for expected in ["an ACL token has visible", "a bearer token has visible", "test.yaml:2:", "test.yaml:7:"] {
        assert!(problems.contains(expected), "{problems}");
    }
    let registries = loaded(&text(" a ", "b")).config.registries;
    let Registry::Consul(consul) = &registries[0] else { panic!("{registries:?}") };
    assert_eq!(consul.token(), Some("a"), "a blank `acl-token` counts as absent");
}
