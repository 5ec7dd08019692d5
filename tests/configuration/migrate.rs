use std::path::{Path, PathBuf};

use http::Request;

use tollgate::explain::model::Explanation;
use tollgate::explain::{DryRunRequest, explain};
use tollgate_config::{Config, Migrated, SecretValues, Severity, TrustedProxies, migrate, parse};

fn env(name: &str) -> Option<String> {
    ["REDIS_HOST"].contains(&name).then(|| "redis".to_owned())
}

/// Migrates `text` to our own form and checks both files. The new file must be valid without a warning.
fn both(name: &str, text: &str) -> (Migrated, Config, Config) {
    let old = parse(name, text, &env).unwrap_or_else(|problems| panic!("{problems}"));
    let migrated = migrate(name, text, &env).unwrap_or_else(|problems| panic!("{problems}"));
    let new = parse(&format!("migrated-{name}"), &migrated.yaml, &env);
    let new = new.unwrap_or_else(|problems| panic!("{problems}{}", migrated.yaml));
    let warnings = new.notes.list().iter().filter(|note| note.severity == Severity::Warning).count();
    assert_eq!(warnings, 0, "{}{}", new.notes, migrated.yaml);
    let is_springs = |line: &str| line.starts_with("spring") || line.starts_with("tollgate");
    assert!(!migrated.yaml.lines().any(is_springs), "{}", migrated.yaml);
    (migrated, old.config, new.config)
}

fn files(folder: &str, is_one: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = paths.filter(|path| is_one(path.file_name().unwrap().to_str().unwrap())).collect();
    files.sort();
    files
}

/// Returns the behaviour of `config`, without the author's spelling.
fn explained(config: &Config, method: &str, host: &str, path: &str) -> Explanation {
    let request = Request::builder().method(method).uri(path).header("host", host).header("x-id", "7");
    let request = request.header("x-user", "ada").header("x-api-key", "k").header("cookie", "session=s; group=a");
    let head = request.body(()).unwrap().into_parts().0;
    let request = DryRunRequest { head, peer: [10, 0, 0, 7].into(), certificate: None, chance: 4 };
    let mut explanation = explain(config, &SecretValues::NONE, request).unwrap();
    for passed in &mut explanation.passed_over {
        passed.predicate.clear();
        // The time goes on.
        if passed.seen.starts_with("the time is ") {
            passed.seen.clear();
        }
    }
    if let Some(route) = &mut explanation.route {
        route.uri.clear();
        route.predicates.clear();
        // One that has no effect may have been left out.
        route.filters.retain(|trace| !trace.counted.is_empty());
        for trace in &mut route.filters {
            trace.filter.clear();
            trace.arguments.clear();
        }
    }
    explanation
}

/// A path that `pattern` matches, if it is not too clever.
fn path(pattern: &str) -> String {
    let mut path = pattern.replace("/**", "/a/b").replace('*', "a").replace('?', "q");
    while let Some((before, rest)) = path.split_once('{') {
        let after = rest.split_once('}').map_or("", |(_, after)| after);
        path = format!("{before}7{after}");
    }
    path.trim().to_owned()
}

#[test]
fn every_spring_file_keeps_its_meaning_when_migrated() {
    let mut spring = files("tests/data/spring", |name| name.ends_with(".yml"));
    spring.extend(files("tests/data", |name| name.starts_with("warn-spring-")));
    spring.extend(files("config", |name| name == "spring.yaml"));
    assert!(spring.len() >= 7, "{spring:?}");
    for file in spring {
        let text = std::fs::read_to_string(&file).unwrap();
        let name = file.file_name().unwrap().to_str().unwrap();
        let (migrated, old, new) = both(name, &text);
        assert_eq!(format!("{:#?}", old.server), format!("{:#?}", new.server), "{name}");
        assert_eq!(format!("{:#?}", old.redis), format!("{:#?}", new.redis), "{name}");
        if !matches!(old.forwarding.trusted_proxies, TrustedProxies::None) {
            assert_eq!(format!("{:#?}", old.forwarding), format!("{:#?}", new.forwarding), "{name}");
        }
        let timeouts = |config: &Config| -> Vec<_> {
            let (response, read) = (config.http_client.response_timeout.get(), config.http_client.read_timeout.get());
            let of_route = |route: &tollgate_config::Route| {
                let response = route.response_timeout.map_or(response, |timeout| timeout.0);
                (route.connect_timeout, response, route.read_timeout.map_or(read, |timeout| timeout.0))
            };
            config.routes.iter().map(of_route).collect()
        };
        assert_eq!(timeouts(&old), timeouts(&new), "{name}");
        assert_eq!(old.management.on_traffic, new.management.on_traffic, "{name}");
        assert_eq!(old.cors.keeps_upstream_headers, new.cors.keeps_upstream_headers, "{name}");

        let patterns = old.routes.iter().flat_map(|route| &route.definition.predicates);
        let patterns = patterns.filter_map(|text| text.strip_prefix("Path=")).flat_map(|list| list.split(','));
        let mut taken = 0;
        // One of the files has a base path.
        let paths = patterns.map(path).flat_map(|path| [format!("/old{path}"), format!("{path}/"), path]);
        let paths = paths.filter(|path| path.parse::<http::Uri>().is_ok());
        for path in paths.chain(["/".to_owned(), "/unrouted".to_owned()]) {
            for (method, host) in
                [("GET", "acme.example.org"), ("GET", "acme.saas.example"), ("POST", "acme.example.org")]
            {
                let [before, after] = [&old, &new].map(|config| explained(config, method, host, &path));
                taken += usize::from(before.route.is_some());
                assert_eq!(before, after, "{name}: {method} {path}\n{}", migrated.yaml);
            }
        }
        assert!(taken > 0 || name.starts_with("warn-"), "no probe of {name} finds a route");
    }
}

#[test]
fn tollgate_files_migrate_to_valid_files() {
    for file in files("config", |name| name.ends_with(".yaml") && name != "redis-tls.yaml") {
        let text = std::fs::read_to_string(&file).unwrap();
        let _ = both("own.yaml", &text);
    }
}

#[test]
fn every_spring_notation_becomes_the_plain_one() {
    let text =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/spring/everything-once.yml"));
    let yaml = both("everything-once.yml", &text.unwrap()).0.yaml;
    for expected in [
        "# - line 29: warning: `StripPrefix` takes 1 argument; `2` is one too many\n",
        "\n# Time to connect.\nhttpclient:\n  connect-timeout: 1500\n",
        "  - AddRequestHeader=X-Gateway, ${spring.application.name:gateway}\n",
        "  # The shop.\n  # shared by all\n  - id: shop\n    uri: ${SHOP_URL:http://shop:8080}\n",
        "      # Read and write only\n      - Method=GET,POST\n",
        "      # Changed: `StripPrefix` takes 1 argument; `2` is one too many.\n      - StripPrefix=1\n",
        "          # A burst of two seconds.\n          replenish-rate: 10\n          burst-capacity: ${BURST:20}\n",
        "    # Left out: `/ignored/path`: it is ignored.\n    uri: http://limits\n",
        "  # Was written on one line.\n  - id: line\n    uri: http://line:81\n",
        "  - id: route-3\n    uri: http://nameless\n",
        "\n  response-timeout: -1\n",
        "          patterns:\n            - /limits/**\n            - /limit\n          matchTrailingSlash: true\n",
        "\nkey-resolvers:\n  userKeyResolver: header:X-User\n",
    ] {
        assert!(yaml.contains(expected), "no `{expected}` in\n{yaml}");
    }
    assert!(!yaml.contains("\nspring:"), "{yaml}");
}

#[test]
fn properties_of_the_file_become_defaults_and_the_environment_still_wins() {
    let text =
        "app: {host: \"${SHOP:shop}\"}\nspring.cloud.gateway.routes: [\"a=http://${app.host:none}:80,Path=/**\"]\n";
    let migrated = migrate("a.yml", text, &env).unwrap();
    assert!(migrated.yaml.contains("uri: http://${app.host:${SHOP:shop}}:80"), "{}", migrated.yaml);
}

#[test]
fn unknown_java_beans_are_refused() {
    let bean = "spring.cloud.gateway.routes:\n- {id: a, uri: 'http://a', predicates: [Path=/**], filters: [{name: RequestRateLimiter, args: {redis-rate-limiter.replenishRate: 1, key-resolver: '#{@mine}'}}]}\n";
    let problems = migrate("a.yml", bean, &env).unwrap_err();
    assert!(problems.to_string().contains("key resolver `mine` is a Java bean"), "{problems}");
}

#[test]
fn only_active_profiles_are_migrated() {
    let text = "spring.cloud.gateway.routes: [\"a=http://a,Path=/**\"]\n---\nspring.config.activate.on-profile: prod\nserver.port: 80\n";
    let env = |name: &str| (name == "SPRING_PROFILES_ACTIVE").then(|| "prod".to_owned());
    assert!(migrate("a.yml", text, &env).unwrap().yaml.contains("\nserver:\n  port: 80\n"));
    let without = migrate("a.yml", text, &|_| None).unwrap().yaml;
    assert!(without.contains("line 3: documents for other profiles are skipped: prod"), "{without}");
}

#[test]
fn warnings_of_the_source_are_accepted_by_comments() {
    let warned = files("tests/data", |name| name.starts_with("warn-"));
    assert!(warned.len() > 30, "{}", warned.len());
    for file in warned {
        let text = std::fs::read_to_string(&file).unwrap();
        let _ = both(file.file_name().unwrap().to_str().unwrap(), &text);
    }
}

#[test]
fn settings_without_effect_are_left_out() {
    let text = "spring.cloud.gateway:\n  routes: [\"a=http://a,Path=/**\"]\n  httpclient:\n    wiretap: true\n    compression: true\n    max-initial-line-length: 4096\n    connect-timeout: 1000\n    websocket.max-frame-payload-length: 1048576\n    pool: {metrics: true, name: p, eviction-interval: 5s}\n    ssl.close-notify-flush-timeout: 3s\n  x-forwarded.order: 1\n  discovery.locator.enabled: false\nresilience4j:\n  circuitbreaker.instances.none: {sliding-window-size: 3, register-health-indicator: true}\n  retry.instances.none.max-attempts: 3\n";
    let (migrated, _, _) = both("a.yml", text);
    let new = parse("new.yaml", &migrated.yaml, &env).unwrap_or_else(|problems| panic!("{problems}{}", migrated.yaml));
    assert!(new.notes.is_empty(), "{}{}", new.notes, migrated.yaml);
    for (kept, gone) in [("connect-timeout: 1000", "wiretap: true"), ("# Left out: `compression`", "metrics: true")] {
        assert!(migrated.yaml.contains(kept) && !migrated.yaml.contains(gone), "{}", migrated.yaml);
    }
}

#[test]
fn settings_that_spring_reads_differently_become_explicit() {
    let instances = "spring.cloud.discovery.client.simple.instances.a: [{uri: 'http://a:1', metadata.zone: eu}, {uri: 'http://b:1', metadata.zone: us}]\n";
    for (settings, expected, gone) in [
        (
            "spring.data.redis: {url: 'redis://s3cret@cache', password: other, database: 3}",
            "url: redis://:s3cret@cache",
            "other",
        ),
        ("spring.data.redis: {url: 'redis://cache:1', ssl.enabled: true}", "url: rediss://cache:1", "ssl:"),
        ("spring.data.redis: {url: 'redis://cache:1', tls: true}", "url: rediss://cache:1", "ssl:"),
        ("spring.data.redis: {host: other, cluster.nodes: 'a:1'}", "nodes: a:1", "other"),
        ("eureka.client.tls.trust-store: /other", "eureka:", "/other"),
        (
            "spring.cloud.loadbalancer: {zone: eu, configurations: zone-preference}",
            "zone-scope: configured",
            "zone-scope: all",
        ),
        (
            "spring.cloud.loadbalancer: {zone: eu, clients.b.configurations: zone-preference}",
            "zone: eu",
            "zone-scope: all",
        ),
        (
            "spring.cloud.loadbalancer.configurations: zone-preference\neureka: {client.enabled: true, instance.metadata-map.zone: eu}",
            "\n  zone: eu\n",
            "zone-scope: all",
        ),
        ("spring.cloud.loadbalancer.zone: eu", "# Left out: `zone`", "\n  zone: eu\n"),
        ("tollgate.loadbalancer: {zone: eu, zone-scope: all}", "\n  zone: eu\n  zone-scope: all\n", "Left out"),
        (
            "spring.cloud.gateway.globalcors.cors-configurations: {'[/**]': {allowed-origins: '*'}}",
            "keep-upstream-headers: true",
            "spring.cloud",
        ),
        ("management.server.port: 9191", "on-traffic-port: auto", "on-traffic-port: true"),
    ] {
        let text = format!("spring.cloud.gateway.routes: ['a=http://a,Path=/**']\n{instances}{settings}\n");
        let (migrated, old, new) = both("a.yml", &text);
        let settings: Vec<&str> = migrated.yaml.lines().filter(|line| !line.starts_with("# -")).collect();
        let settings = settings.join("\n");
        assert!(settings.contains(expected) && !settings.contains(gone), "{expected}, {gone}:\n{settings}");
        let meaning = |config: &Config| {
            format!(
                "{:?} {:?} {:?} {:?} {:?}",
                config.redis, config.registries, config.upstreams, config.cors, config.management.on_traffic
            )
        };
        assert_eq!(meaning(&old), meaning(&new), "{settings}");
    }
}

#[test]
fn a_registry_with_defaults_alone_stays() {
    for section in ["eureka:\n  client:\n", "eureka.instance.status-page-url-path: /x\n"] {
        let text = format!("{section}spring.cloud.gateway.routes: ['a=lb://a,Path=/**']\n");
        let (migrated, old, new) = both("a.yml", &text);
        assert_eq!(old.registries.len(), 1, "{text}");
        assert_eq!(old.registries, new.registries, "{}", migrated.yaml);
    }
}

#[test]
fn settings_that_our_own_form_refuses_are_accepted_by_comments() {
    let text = "spring.cloud.gateway.routes:\n- {id: a, uri: 'http://a', predicates: [Path=/**, Version=1], filters: ['SetRequestHostHeader={nothing}']}\nserver.max-http-request-header-size: 1KB\n";
    let (migrated, old, new) = both("a.yml", text);
    for expected in [
        "# accepted: `Version` never matches",
        "# accepted: must be from 8KB to 16MB",
        "# accepted: no `Path` or `Host`",
    ] {
        assert!(migrated.yaml.contains(expected), "no `{expected}` in\n{}", migrated.yaml);
    }
    assert_eq!(format!("{:?}", old.server), format!("{:?}", new.server));
    // Without the comments it is refused, and a comment accepts nothing but its own line.
    let without: String =
        migrated.yaml.lines().filter(|line| !line.contains("accepted:")).map(|line| format!("{line}\n")).collect();
    let errors = |yaml: &str| {
        parse("new.yaml", yaml, &env)
            .map_or_else(|problems| problems.list().iter().filter(|one| one.severity == Severity::Error).count(), |_| 0)
    };
    assert_eq!(errors(&without), 3, "{without}");
    assert_eq!(errors(&migrated.yaml.replacen("accepted: must", "accepted: it must", 1)), 1);
}

#[test]
fn metadata_without_values_stay_and_empty_sections_go() {
    let text = "spring:\n  application.name: gw\n  cloud:\n    gateway:\n      discovery.locator.enabled: false\n      routes: [{id: a, uri: 'lb://a', predicates: [Path=/a/**], metadata: {team: }}]\neureka:\n  client.fetch-registry: true\n  instance:\n    prefer-ip-address: true\n    metadata-map: {canary: }\n";
    let (migrated, old, new) = both("a.yml", text);
    assert_eq!(format!("{:?}", old.registrations), format!("{:?}", new.registrations));
    for kept in ["      team:\n", "      canary:\n"] {
        assert!(migrated.yaml.contains(kept), "no `{kept}` in\n{}", migrated.yaml);
    }
    assert!(!migrated.yaml.contains("{}"), "{}", migrated.yaml);
    let only = "eureka.instance.metadata-map: {canary: }\nspring.cloud.gateway.routes: ['a=lb://a,Path=/**']\n";
    assert!(both("a.yml", only).0.yaml.contains("    canary:\n"));
}

#[test]
fn placeholders_with_the_name_of_a_setting_do_not_name_the_setting_itself() {
    let text = "spring:\n  redis: {host: \"${redis.host:localhost}\", port: \"${redis.port:7000}\"}\n  cloud.gateway.routes: [\"a=http://${server.name}:${server.port},Path=/**\"]\nserver: {name: shop, port: 81}\n";
    let (migrated, old, new) = both("a.yml", text);
    assert_eq!(format!("{:?}", old.redis), format!("{:?}", new.redis), "{}", migrated.yaml);
    assert_eq!(new.routes[0].definition.uri, "http://shop:81");
    assert!(migrated.yaml.contains("host: ${REDIS_HOST:localhost}\n"), "{}", migrated.yaml);
}
