//! Spring defaults that a file leaves out: a file and its migrated file mean the same.

use crate::tests::*;
use crate::{Config, migrate, parse};

fn file(settings: &str, route: &str) -> String {
    format!("{settings}spring.cloud.gateway.server.webflux.routes: [{{id: a, uri: 'http://a', {route}}}]\n")
}

/// Returns both configurations, and the migrated file.
fn both(text: &str) -> ([Config; 2], String) {
    let yaml = migrate("application.yml", text, &no_env).unwrap_or_else(|report| panic!("{text}{report}")).yaml;
    let configs = [text, &yaml].map(|text| match parse("a.yaml", text, &no_env) {
        Ok(loaded) => loaded.config,
        Err(report) => panic!("{text}{report}"),
    });
    (configs, yaml)
}

#[test]
fn filters_and_predicates_are_those_of_the_migrated_file() {
    let limiter =
        |args: &str| format!("predicates: [Path=/**], filters: [{{name: RequestRateLimiter, args: {{{args}}}}}]");
    let rate = "redis-rate-limiter.replenishRate: 2";
    let bucket4j = "bucket4j-rate-limiter.capacity: 5, bucket4j-rate-limiter.refillPeriod: 1m, key-resolver: ip";
    let aligned =
        "bucket4j-rate-limiter: {refill-style: INTERVALLY_ALIGNED, time-of-first-refill: '2027-01-01T00:00:00Z'}";
    let redis = "spring.data.redis.host: a\n";
    let resolver = "tollgate.key-resolvers.default: 'header:X-Key'\n";
    for (settings, route) in [
        ("", limiter(rate)),
        (resolver, limiter(rate)),
        (redis, limiter(&format!("{rate}, key-resolver: ip, burst-capacity: 4"))),
        (redis, limiter(&format!("{rate}, key-resolver: ip, error-body: problem, on-store-failure: deny"))),
        (redis, limiter(bucket4j)),
        ("", limiter(&format!("{bucket4j}, bucket4j-rate-limiter.refill-style: intervally, rate-limiter: '#{{@mine}}'"))),
        ("", limiter(&format!("{bucket4j}, {aligned}, bucket: own, bucket4j-rate-limiter.refillTokens: 2"))),
        (redis, limiter("algorithm: quota, allowance: 5, key-resolver: ip")),
        (redis, limiter("key-resolver: ip, body: {text: a}, limits: [{replenish-rate: 1, key-resolver: 'header:X-A'}]")),
        ("tollgate.preflights: by-address\n", limiter(&format!("{rate}, key-resolver: 'header:X-A'"))),
        ("", "predicates: [Path=/**], filters: [{name: ConcurrencyLimiter, args: {limit: 1, key-resolver: 'header:X-A'}}]".to_owned()),
        ("", "predicates: [Path=/a, Host=**.a.org]".to_owned()),
        ("", "predicates: [Path=/a], filters: ['AddRequestHeader=A,b', LocalResponseCache=1m, Hystrix=c, 'SetPath=/a?b']".to_owned()),
        ("", "predicates: [Path=/a], filters: [{name: PrefixPath, args: {prefix: '/a#b'}}, {name: Hystrix, args: {name: c}}]".to_owned()),
        ("spring.cloud.gateway.server.webflux.filter.local-response-cache.enabled: true\n", "predicates: [Path=/a]".to_owned()),
        ("", "predicates: [{not: {any: [Path=/b, Host=**.a.org]}}]".to_owned()),
        ("", "predicates: [{name: Method, args: {one: GET, two: [POST, PUT]}}, {name: Path, args: {a: /a, matchTrailingSlash: true}}]".to_owned()),
    ] {
        let text = file(settings, &route);
        let (configs, yaml) = both(&text);
        let [old, new] = configs.map(|config| {
            let routes = config.routes.into_iter().map(|route| (route.predicates, route.filters));
            format!("{:#?}", routes.collect::<Vec<_>>())
        });
        assert_eq!(old, new, "{text}{yaml}");
    }
}

#[test]
fn routes_of_the_old_root_ignore_a_slash_at_the_end() {
    for (root, ignores) in [("gateway", true), ("gateway.server.webflux", false)] {
        let (configs, yaml) = both(&format!("spring.cloud.{root}.routes: ['a=http://a,Path=/a']\n"));
        let expected = format!("Paths: [/a], match trailing slash: {ignores}");
        assert_eq!(
            configs.map(|config| config.routes[0].predicates[0].to_string()),
            [&*expected, &*expected],
            "{yaml}"
        );
        assert_eq!(yaml.contains("match-trailing-slash: true"), ignores, "{yaml}");
    }
    let own = "predicate.path.match-trailing-slash: true\nroutes: ['a=http://a,Path=/a']\n";
    let config = parse("a.yaml", own, &no_env).unwrap().config;
    assert_eq!(config.routes[0].predicates[0].to_string(), "Paths: [/a], match trailing slash: true");
}

#[test]
fn host_patterns_keep_springs_port_rule() {
    for (settings, predicates, expected) in [
        ("", "Path=/a", None),
        ("", "Path=/a, Host=**.a.org", Some("include-port: true")),
        ("", "{name: Host, args: {patterns: '**.a.org'}}", Some("include-port: true")),
        ("predicate.host.include-port: false", "Host=**.a.org", Some("include-port: false")),
        ("predicate.path.enabled: true", "Host=**.a.org", Some("include-port: true")),
    ] {
        let settings = if settings.is_empty() {
            String::new()
        } else {
            format!("spring.cloud.gateway.server.webflux.{settings}\n")
        };
        let (_, migrated) = both(&file(&settings, &format!("predicates: [{predicates}]")));
        assert_eq!(migrated.matches("include-port").count(), usize::from(expected.is_some()), "{migrated}");
        assert!(expected.is_none_or(|expected| migrated.contains(expected)), "{migrated}");
    }
}

#[test]
fn a_comment_at_the_head_stays_above_a_section() {
    let text = "# Owned by the shop team.\nspring.cloud.gateway.routes: [\"a=http://a,Path=/**\"]\n";
    let yaml = crate::migrate("a.yml", text, &|_| None).unwrap().yaml;
    let lines: Vec<&str> = yaml.lines().collect();
    let at = lines.iter().position(|line| *line == "# Owned by the shop team.").expect("at the left margin");
    assert!(!lines[at + 1].starts_with([' ', '#']), "{yaml}");
}
