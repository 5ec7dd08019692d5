#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::{Path, PathBuf};
use std::time::Duration;

use tollgate_limiter::store::redis::Servers;

use crate::*;

mod added_routes;
mod command_line;
mod files;
mod folders;
mod growth;
mod growth_of_shapes;
mod hostile;
mod imports;
mod invalid;
mod locator;
mod migrated_tls;
mod patterns;
mod profiles;
mod registries;
mod replaced_lists;
mod secret_forms;
mod secret_names;
mod secret_sources;
mod secrets;
mod spring;
mod spring_runs;
mod spring_versions;
mod stand_ins;
mod tls_sites;
mod traffic_endpoints;
mod translated;

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

/// Returns true for a Spring file that sets no timeouts: Spring has none by default.
fn has_springs_timeouts(config: &Config) -> bool {
    config.http_client.response_timeout.get().is_none()
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
fn sections_for_anchors_are_no_settings() {
    let text = "x-limit: &limit {key-resolver: ip, replenish-rate: 1}\nroutes: [{id: a, uri: 'echo:', predicates: [Path=/**], filters: [{name: RequestRateLimiter, args: {<<: *limit, burst-capacity: 2}}]}]\n";
    let notes = loaded(text).notes.to_string();
    assert!(!notes.contains("x-limit"), "{notes}");
    assert!(refused(&text.replace("x-limit:", "x-forwardd:")).contains("unknown key `x-forwardd`"));
    assert!(refused(&text.replace("x-limit:", "limit:")).contains("unknown key `limit`"));
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
        let worst = loaded.notes.list().iter().filter(|p| p.severity != Severity::Note).count();
        assert_eq!(worst, 0, "{}", loaded.notes);
        assert!(!loaded.config.routes.is_empty(), "{} has no routes", file.display());
    }
}

#[test]
#[cfg(not(feature = "jwt"))]
fn a_build_without_tokens_refuses_them_by_name() {
    let rendered = refused("jwt: {jwks: a.json}\nkey-resolvers: {user: 'jwt:sub'}\nroutes: []");
    assert!(rendered.contains("1:1: error: `jwt` needs a build with the feature `jwt`"), "{rendered}");
    assert!(rendered.contains("key resolver `jwt:sub` needs the feature `jwt`"), "{rendered}");
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
    assert_eq!((config.server.port.get(), config.management.port, config.memory.max_keys().get()), (8081, 9091, 7));
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
    assert_eq!((config.server.port.get(), config.server.max_headers.get()), (2, 50));
    assert!(!has_springs_timeouts(&config), "profiles alone make no Spring file");
    let config = parse("test.yaml", text, &|name| (name == "SPRING_PROFILES_ACTIVE").then(|| "dev,prod".to_owned()))
        .unwrap()
        .config;
    assert_eq!(config.server.port.get(), 3);
}

#[test]
fn anchors_and_merge_keys_are_applied() {
    let text = "routes:\n- &base\n  id: a\n  uri: http://a\n  predicates: [Path=/a]\n- <<: *base\n  id: b\n";
    let ids: Vec<String> = loaded(text).config.routes.iter().map(|route| route.id.to_string()).collect();
    assert_eq!(ids, ["a", "b"]);
}
