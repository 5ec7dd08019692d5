#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::{Path, PathBuf};
use std::time::Duration;

use tollgate_limiter::store::redis::Servers;

use crate::*;

mod profiles;

fn no_env(_: &str) -> Option<String> {
    None
}

fn loaded(text: &str) -> Loaded {
    parse("test.yaml", text, &no_env).unwrap_or_else(|problems| panic!("{problems}"))
}

fn refused(text: &str) -> String {
    match parse("test.yaml", text, &no_env) {
        Ok(loaded) => panic!("accepted: {:#?}", loaded.config),
        Err(problems) => problems.to_string(),
    }
}

fn yaml_files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join(folder);
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "yaml"))
        .collect();
    files.sort();
    files
}

#[test]
fn every_broken_file_is_refused_with_the_problems_on_its_first_lines() {
    let files = yaml_files("tests/data");
    assert!(files.len() >= 25, "only {} broken files", files.len());
    let mut missing = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        if name.starts_with("jwt-") && !cfg!(feature = "jwt") {
            continue;
        }
        let rendered = match parse(&name, &text, &no_env) {
            // A file that only earns warnings says so with its name.
            Ok(loaded) if name.starts_with("warn-") => loaded.notes.to_string(),
            Ok(_) => panic!("{name} was accepted"),
            Err(problems) => problems.to_string(),
        };
        let expected: Vec<&str> = text.lines().map_while(|line| line.strip_prefix("# expect: ")).collect();
        assert!(!expected.is_empty(), "{name} expects nothing");
        missing.extend(
            expected
                .into_iter()
                .filter(|text| !rendered.contains(text))
                .map(|text| format!("{name}: no `{text}` in\n{rendered}")),
        );
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

#[test]
fn every_file_in_config_loads_without_errors_and_warnings() {
    let files = yaml_files("config");
    assert!(files.len() >= 7, "only {} files", files.len());
    for file in files {
        if file.ends_with("redis-tls.yaml") && !cfg!(feature = "redis-tls") {
            continue;
        }
        let text = std::fs::read_to_string(&file).unwrap();
        let loaded = parse(&file.display().to_string(), &text, &no_env).unwrap_or_else(|problems| panic!("{problems}"));
        let worst = loaded.notes.list().iter().filter(|p| p.severity != Severity::Info).count();
        assert_eq!(worst, 0, "{}", loaded.notes);
        assert!(!loaded.config.routes.is_empty(), "{} has no routes", file.display());
    }
}

#[test]
#[cfg(not(feature = "jwt"))]
fn a_build_without_tokens_refuses_them_by_name() {
    let rendered = refused("jwt: {jwks: a.json}\nkey-resolvers: {user: 'jwt:sub'}\nroutes: []");
    assert!(rendered.contains("1:1: error: `jwt` needs a build with the feature `jwt`"), "{rendered}");
    assert!(rendered.contains("key resolver `jwt:sub` needs a build with the feature `jwt`"), "{rendered}");
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
fn spring_roots_dots_and_spellings_all_mean_the_same() {
    let route = "[{id: a, uri: 'http://a:81', predicates: [Path=/a/**], filters: [StripPrefix=1]}]";
    for text in [
        format!("routes: {route}\n"),
        format!("spring: {{cloud: {{gateway: {{routes: {route}}}}}}}\n"),
        format!("spring: {{cloud: {{gateway: {{server: {{webflux: {{routes: {route}}}}}}}}}}}\n"),
        format!("spring.cloud:\n  gateway.server.webflux:\n    routes: {route}\n"),
        "spring.cloud.gateway:\n  routes[0].id: a\n  routes[0].uri: http://a:81\n  routes[0].predicates[0]: Path=/a/**\n  routes[0].filters[0].name: StripPrefix\n  routes[0].filters[0].args.parts: 1\n".to_owned(),
        "routes:\n  - a=http://a:81,Path=/a/**\ndefaultFilters: [StripPrefix=1]\n".to_owned(),
        "routes:\n  - a=http://a:81,Path=/a/**\ndefault_filters: [StripPrefix=1]\n".to_owned(),
    ] {
        let config = loaded(&text).config;
        assert_eq!(config.routes.len(), 1, "{text}");
        let route = &config.routes[0];
        assert_eq!((&*route.id, route.predicates.len(), route.filters.len()), ("a", 1, 1), "{text}");
        assert!(matches!(&route.uri, Target::Http { host, port: 81, .. } if host == "a"), "{text}");
    }
}

#[test]
fn the_newer_spring_root_wins_with_a_warning() {
    let text = "spring:\n  cloud:\n    gateway:\n      httpclient: {connect-timeout: 1000}\n      routes: [\"old=http://a,Path=/a\"]\n      server.webflux:\n        routes: [\"new=http://b,Path=/b\"]\n";
    let loaded = loaded(text);
    assert_eq!(&*loaded.config.routes[0].id, "new");
    assert_eq!(loaded.config.http_client.connect_timeout, Duration::from_secs(1));
    assert!(loaded.notes.to_string().contains("warning: settings stand under both"), "{}", loaded.notes);
}

#[test]
fn default_filters_and_route_filters_are_merged_by_position() {
    let text =
        "default-filters: [AddRequestHeader=D1, AddRequestHeader=D2]\n".replace("D1", "D1,x").replace("D2", "D2,x");
    let text = text.replace("[Add", "['Add").replace(",x, Add", ",x', 'Add").replace(",x]", ",x']");
    let text = format!(
        "{text}routes: [{{id: a, uri: 'echo:', predicates: [Path=/**], filters: [StripPrefix=1, StripPrefix=2, StripPrefix=3]}}]\n"
    );
    let filters = &loaded(&text).config.routes[0].definition.filters;
    assert_eq!(
        filters.join(" "),
        "AddRequestHeader=D1,x StripPrefix=1 AddRequestHeader=D2,x StripPrefix=2 StripPrefix=3"
    );
}

#[test]
fn predicates_and_filters_in_one_text_are_split_at_commas() {
    let text = "default-filters: SecureHeaders,PreserveHostHeader\nroutes:\n- id: a\n  uri: 'echo:'\n  predicates: Path=/a/**, Method=GET\n  filters: StripPrefix=1,AddRequestHeader=X\n";
    let problems = parse("test.yaml", text, &no_env).unwrap_err();
    assert!(problems.to_string().contains("test.yaml:6:12: error: `AddRequestHeader` needs"), "{problems}");
    let spring =
        text.replace("default", "spring.cloud.gateway.default").replace("routes:", "spring.cloud.gateway.routes:");
    for text in [text, &spring] {
        let route = &loaded(&text.replace(",AddRequestHeader=X", ",PrefixPath=/b")).config.routes[0].definition;
        assert_eq!(route.predicates, ["Path=/a/**", "Method=GET"]);
        assert_eq!(route.filters, ["SecureHeaders", "StripPrefix=1", "PreserveHostHeader", "PrefixPath=/b"]);
    }
}

#[test]
fn a_group_of_a_regular_expression_is_no_placeholder() {
    let text = "routes:\n- {id: a, uri: 'echo:', predicates: [Path=/**], filters: [{name: RewritePath, args: {regexp: '/a/(?<rest>.*)', replacement: '/${rest}'}}]}\n";
    let filters = |env: &dyn Fn(&str) -> Option<String>| {
        let loaded = parse("test.yaml", text, env).unwrap_or_else(|problems| panic!("{problems}"));
        loaded.config.routes[0].definition.filters.join(" ")
    };
    assert!(filters(&no_env).contains("replacement=/${rest}"), "{}", filters(&no_env));
    let env = |name: &str| (name == "rest").then(|| "b".to_owned());
    assert!(filters(&env).contains("replacement=/b"), "a variable wins, as in Spring");
    assert!(refused(&text.replace("${rest}", "${else}")).contains("`${else}` is not set"));
}

#[test]
fn routes_are_sorted_by_order_and_disabled_ones_dropped() {
    let text = "routes:\n- {id: b, uri: 'echo:', predicates: [Path=/b], order: 1}\n- {id: off, uri: 'echo:', predicates: [Path=/b], enabled: false}\n- {id: c, uri: 'echo:', predicates: [Path=/c], order: 1}\n- {id: a, uri: 'echo:', predicates: [Path=/a], order: -1}\n";
    let ids: Vec<String> = loaded(text).config.routes.iter().map(|route| route.id.to_string()).collect();
    assert_eq!(ids, ["a", "b", "c"]);
}

#[test]
fn limiter_arguments_work_with_and_without_springs_prefix() {
    for args in [
        "redis-rate-limiter.replenishRate: 10\n        redis-rate-limiter.burstCapacity: 20\n        redis-rate-limiter.requestedTokens: 2",
        "redis-rate-limiter: {replenish-rate: 10, burst_capacity: 20, REQUESTEDTOKENS: 2}",
        "\"[redis-rate-limiter.replenishRate]\": 10\n        burst-capacity: 20\n        requestedTokens: \"2\"",
        "replenish-rate: ${RATE:10}\n        burst-capacity: 20\n        requested-tokens: 2\n        key-resolver: [ip, \"header:X\"]",
    ] {
        let text = format!(
            "routes:\n- id: a\n  uri: 'echo:'\n  predicates: [Path=/**]\n  filters:\n    - name: RequestRateLimiter\n      args:\n        {args}\n"
        );
        let config = loaded(&text).config;
        let Filter::RequestRateLimiter(limiter) = &config.routes[0].filters[0] else { panic!("no limiter: {text}") };
        let Some(Limit { rule, cost, .. }) = limiter.limits().next() else { panic!("no rule: {text}") };
        assert_eq!((rule.rate(), rule.capacity(), cost.tokens), (10, 20, 2), "{text}");
    }
}

#[test]
fn the_environment_sets_ports_and_placeholders() {
    let env = |name: &str| match name {
        "SERVER_PORT" => Some("8081".to_owned()),
        "MANAGEMENT_SERVER_PORT" => Some("9091".to_owned()),
        "UPSTREAM_PORT" => Some("9000".to_owned()),
        "MAX" => Some("7".to_owned()),
        _ => None,
    };
    let text = "server: {port: 1}\nmemory: {max-keys: \"${MAX}\"}\nname: &n x\nroutes: [\"a=http://h:${UPSTREAM_PORT},Path=/${PREFIX:api}/**\"]\n".replace("name: &n x\n", "");
    let config = parse("test.yaml", &text, &env).unwrap().config;
    assert_eq!((config.server.port, config.management.port, config.memory.max_keys.get()), (8081, 9091, 7));
    assert!(matches!(config.routes[0].uri, Target::Http { port: 9000, .. }));
    assert_eq!(config.routes[0].definition.predicates, ["Path=/api/**"]);
    let problems =
        parse("test.yaml", "routes: []\n", &|name| (name == "SERVER_PORT").then(|| "many".to_owned())).unwrap_err();
    assert!(problems.to_string().contains("test.yaml: error: the environment variable SERVER_PORT"), "{problems}");
}

#[test]
fn documents_of_inactive_profiles_are_skipped_and_later_ones_override() {
    let text = "server: {port: 1, max-headers: 50}\nroutes: [\"a=http://a,Path=/**\"]\n---\nserver: {port: 2}\n---\nspring.config.activate.on-profile: prod\nserver: {port: 3}\n";
    let config = loaded(text).config;
    assert_eq!((config.server.port, config.server.max_headers), (2, 50));
    assert!(!config.is_spring, "profiles alone make no Spring file");
    let config = parse("test.yaml", text, &|name| (name == "SPRING_PROFILES_ACTIVE").then(|| "dev,prod".to_owned()))
        .unwrap()
        .config;
    assert_eq!(config.server.port, 3);
}

#[test]
fn spring_redis_parts_are_one_server_with_a_hidden_password() {
    let text = "spring:\n  data.redis: {host: cache, port: 6380, password: \"p@ss/word\", database: 3, timeout: 250ms}\n  cloud.gateway.routes: [\"a=http://a,Path=/**\"]\n";
    let config = loaded(text).config;
    let redis = config.redis.as_ref().unwrap();
    assert_eq!(redis.settings.servers, Servers::One("redis://cache:6380".into()));
    assert_eq!((redis.settings.login.password.as_deref(), redis.settings.database), (Some("p@ss/word"), Some(3)));
    assert_eq!(redis.settings.timeout, Duration::from_millis(250));
    assert!(!format!("{config:?}").contains("word"));
}

#[test]
fn anchors_and_merge_keys_are_applied() {
    let text = "routes:\n- &base\n  id: a\n  uri: http://a\n  predicates: [Path=/a]\n- <<: *base\n  id: b\n";
    let ids: Vec<String> = loaded(text).config.routes.iter().map(|route| route.id.to_string()).collect();
    assert_eq!(ids, ["a", "b"]);
}

#[test]
fn foreign_sections_of_an_application_yml_are_skipped_with_one_message() {
    let text = "spring: {application: {name: gw}, cloud: {gateway: {routes: [\"a=http://a,Path=/**\"]}}}\neureka: {client: {enabled: false}}\nlogging: {level: {root: info}}\nmanagement: {endpoints: {web: {exposure: {include: \"*\"}}}}\n";
    let loaded = loaded(text);
    let rendered = loaded.notes.to_string();
    assert!(
        rendered.contains("info: settings that are not Tollgate's are skipped: spring.application, eureka, logging"),
        "{rendered}"
    );
    assert!(loaded.notes.list().iter().all(|problem| problem.severity == Severity::Info), "{rendered}");
    assert!(loaded.config.is_spring);
}

#[test]
fn extra_arguments_are_an_error_but_a_warning_in_a_spring_file() {
    let own = "routes: [{id: a, uri: 'echo:', predicates: [Path=/**], filters: ['StripPrefix=1,2']}]";
    assert!(refused(own).contains("error: `StripPrefix` takes 1 argument; `2` is one too many"));
    let spring = format!("spring: {{cloud: {{gateway: {{{own}}}}}}}");
    assert!(loaded(&spring).notes.to_string().contains("warning: `StripPrefix` takes 1 argument"));
}

#[test]
fn one_run_reports_every_problem_sorted_by_position() {
    let text = "server:\n  port: lots\n  worker: 2\nmemory: {max-keys: 0}\nroutes:\n- id: a\n  uri: localhost:80\n  predicates: [Pth=/**]\n  filters: [StripPrefix=x]\n";
    let problems = parse("test.yaml", text, &no_env).unwrap_err();
    let places: Vec<(usize, usize)> = problems.list().iter().map(|p| (p.line, p.column)).collect();
    assert_eq!(places, [(2, 9), (3, 3), (4, 20), (7, 8), (8, 16), (9, 25)], "{problems}");
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
    for text in ["", "---", "# nothing\n", "---\n---\n", "routes:\n", "spring:\n"] {
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
fn a_spring_file_without_redis_reports_limits_in_memory() {
    let text = "spring.cloud.gateway.routes:\n- id: a\n  uri: http://a\n  predicates: [Path=/**]\n  filters: [{name: RequestRateLimiter, args: {redis-rate-limiter.replenishRate: 1, key-resolver: ip}}]\n";
    assert!(loaded(text).notes.to_string().contains("limits are kept in memory"));
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
