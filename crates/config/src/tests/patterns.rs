//! Patterns of real Spring files: old names, placeholders of builds, properties beside their parts.

use super::*;
use crate::Filter;

const ROUTE: &str = "spring.cloud.gateway.routes: [{id: a, uri: 'http://a', predicates: [Path=/**]}]\n";

/// Returns the time limits of the circuit breakers of `text`, in milliseconds.
fn time_limits(text: &str) -> Vec<Option<u128>> {
    let filters = loaded(text).config.routes[0].filters.clone();
    let limit = |filter: &Filter| match filter {
        Filter::CircuitBreaker(breaker) => Some(breaker.settings.time_limit.map(|limit| limit.as_millis())),
        _ => None,
    };
    filters.iter().filter_map(limit).collect()
}

#[test]
fn hystrix_is_a_circuit_breaker_with_its_timeouts() {
    let text = |commands: &str| {
        format!(
            "spring.cloud.gateway.routes:\n- id: a\n  uri: http://a\n  predicates: [Path=/**]\n  filters:\n  - Hystrix=one\n  \
             - {{name: Hystrix, args: {{name: two, fallbackUri: 'forward:/x'}}}}\n{commands}"
        )
    };
    let timeout = "execution.isolation.thread.timeoutInMilliseconds";
    assert_eq!(time_limits(&text("")), [Some(1000), Some(1000)], "Hystrix has this default too");
    let given = format!("hystrix.command.default.{timeout}: 3000\nhystrix.command.two.{timeout}: 5000\n");
    assert_eq!(time_limits(&text(&given)), [Some(3000), Some(5000)]);
    let short = loaded(&text(&format!("hystrix.command.default.{timeout}: 50\n")));
    assert!(!short.notes.to_string().contains("milliseconds"), "{}", short.notes);
    let given = text(&format!("hystrix.command.two.{timeout}: ${{T:50}}\n"));
    assert_eq!(time_limits(&given), [Some(1000), Some(50)]);
    let migrated = crate::migrate("application.yml", &given, &|_| None).unwrap().yaml;
    assert!(
        migrated.contains("timeout-duration: ${T:50}ms\n") && !migrated.contains("accepted: `timeout"),
        "{migrated}"
    );
    let nested = "hystrix:\n  command:\n    two:\n      execution:\n        timeout:\n          enabled: false\n      circuitBreaker:\n        \
                  requestVolumeThreshold: 7\n    one: {threadPool: x}\n";
    assert_eq!(time_limits(&text(nested)), [Some(1000), None]);
    let notes = loaded(&text(nested)).notes.to_string();
    assert!(notes.contains("`Hystrix` runs as `CircuitBreaker` (also in line 7)"), "{notes}");
    assert!(notes.contains("skipped: hystrix"), "{notes}");
}

#[test]
fn placeholders_of_a_build_are_texts_and_errors_only_where_they_are_used() {
    let text = format!(
        "spring:\n  application: {{name: @project.artifactId@}}\n  profiles.active: @profile@\ninfo.version: @project.version@\n{}",
        ROUTE.replace("predicates", "metadata: {version: @v@, team: '${TEAM}'}, predicates")
    );
    let loaded = loaded(&text);
    assert_eq!(loaded.config.routes[0].definition.metadata["version"], "@v@");
    let used = format!("{ROUTE}server:\n  port: @port@\n");
    let problems = refused(&used);
    assert!(
        problems.contains("test.yaml:3:9: error: `@port@` is a placeholder of the application's build"),
        "{problems}"
    );
    assert!(!problems.contains("expected"), "{problems}");
    for uri in ["lb://@shop.name@", "http://shop.@zone@:80", "http://shop:@shop.port@/", "http://@a@-@b@", "@shop.url@"]
    {
        let problems =
            refused(&format!("spring.cloud.gateway.routes: [{{id: a, uri: '{uri}', predicates: [Path=/**]}}]\n"));
        assert_eq!(problems.matches("error: ").count(), 1, "{uri}: {problems}");
        assert!(problems.contains("is a placeholder of the application's build"), "{uri}: {problems}");
        assert!(problems.contains("help: Maven's resource filtering was not done: take the file"), "{uri}: {problems}");
    }
    let given =
        "a.b: shop\nspring.cloud.gateway.routes: [{id: a, uri: 'http://@a.b@-@a.b@:81', predicates: [Path=/**]}]\n";
    assert_eq!(crate::tests::loaded(given).config.routes[0].definition.uri, "http://shop-shop:81");
    let password = "spring.cloud.gateway.routes: [{id: a, uri: 'http://me:p@ss@shop', predicates: [Path=/**]}]\n";
    assert!(!refused(password).contains("placeholder"), "a password is no placeholder");
}

#[test]
fn properties_that_placeholders_need_are_not_reported_as_skipped() {
    let text = "spring.cloud.gateway.routes: [{id: a, uri: 'http://${shop.host}:@shop.port@', predicates: [Path=/**]}]\n\
                shop: {host: '${HOST_NAME:a}', port: 81, colour: red}\nHOST_NAME: a\nroutes: x\nrest: 1\n";
    let notes = loaded(text).notes.to_string();
    assert!(notes.contains("skipped: shop, rest\n"), "{notes}");
    let list = "spring.cloud.gateway.routes: ['a=${hosts[1]},Path=/**']\nhosts: ['http://a', 'http://b']\nrest: 1\n";
    assert!(loaded(list).notes.to_string().contains("skipped: rest\n"));
    assert!(!loaded(&text.replace(", colour: red", "")).notes.to_string().contains("shop,"), "{notes}");
}

#[test]
fn placeholders_matter_only_in_keys_with_an_effect() {
    let unused = "my.key: '${UNSET}'\neureka: {instance: {hostname: '${HOST}', lease: {x: ['${A}']}}, client.enabled: true}\n\
                  management.info.env.enabled: '${X}'\nserver.tomcat.threads.max: '${Y}'\n";
    let notes = loaded(&format!("{ROUTE}{unused}")).notes.to_string();
    assert!(!notes.contains("is not set"), "{notes}");
    let problems = refused(&format!("{ROUTE}eureka: {{client: {{service-url: {{defaultZone: '${{URL}}'}}}}}}\n"));
    assert_eq!(problems.matches("`${URL}` is not set").count(), 1, "{problems}");
}

#[test]
fn a_property_stands_beside_its_parts() {
    for text in ["my.a: 1\nmy.a.b: 2\n", "my.a.b: 2\nmy.a: 1\n", "my: {a: 1}\nmy.a: {b: 2}\n", "my.a.b: 2\nmy.a:\n"] {
        loaded(&format!("{ROUTE}{text}"));
    }
    let port = |text: &str| loaded(&format!("{ROUTE}{text}")).config.server.port.get();
    assert_eq!(port("server.port: 81\nserver: x\n"), 81, "the parts count");
    assert!(refused(&format!("{ROUTE}my: 1\nMY: 2\n")).contains("same key"));
    assert!(refused("a: 1\na.b: 2\nroutes: []\n").contains("same key"), "in our own form nothing has changed");
}

#[test]
fn placeholders_name_a_property_and_its_parts() {
    let resolved = |text: &str| {
        let routes = "spring.cloud.gateway.routes: ['${my.a}=http://${my.a.b}:81,Path=/**']\n";
        let loaded = loaded(&format!("{routes}{text}"));
        assert!(!loaded.notes.to_string().contains("replaces"), "{text}: {}", loaded.notes);
        let route = &loaded.config.routes[0];
        format!("{} {}", route.id, route.definition.uri)
    };
    for text in [
        "my.a: one\nmy.a.b: two\n",
        "my.a.b: two\nmy.a: one\n",
        "my: {a: one}\nmy.a: {b: two}\n",
        "my.a: one\n---\nmy.a.b: two\n",
        "my.a: none\nmy.a.b: two\n---\nmy.a: one\n",
        "my.a: none\n---\nmy: {a.b: two}\nmy.a: one\n",
    ] {
        assert_eq!(resolved(text), "one http://two:81", "{text}");
    }
}

#[test]
fn old_names_and_java_parts_are_known() {
    let text = "spring.cloud:\n  loadbalancer: {nacos.enabled: true, ribbon.enabled: false}\n  sentinel: {transport.dashboard: 'a:1'}\n  \
                gateway:\n    httpclient.ssl: {handshake-timeout-millis: 3000, close-notify-flush-timeout-millis: 1, \
                close-notify-read-timeout-millis: 0, default-configuration-type: TCP}\n    \
                routes: [{id: a, uri: 'http://a', predicates: [Path=/**]}]\n";
    let loaded = loaded(text);
    assert_eq!(loaded.config.http_client.handshake_timeout.get(), Duration::from_secs(3));
    let notes = loaded.notes.to_string();
    assert!(notes.contains("warning: `spring.cloud.sentinel` is not read"), "{notes}");
    assert_eq!(notes.matches("warning").count(), 1, "{notes}");
    let off = format!("{ROUTE}spring.cloud.sentinel.enabled: false\n");
    assert!(!super::loaded(&off).notes.to_string().contains("flow rules"));
}

#[test]
fn a_spring_file_without_routes_says_where_they_may_be() {
    let notes = loaded("spring.application.name: a\n").notes.to_string();
    for place in ["--profile", "config server", "Nacos", "RouteLocator"] {
        assert!(notes.contains(place), "{notes}");
    }
}

#[test]
fn the_smallest_routes_of_the_help_make_a_file_that_loads() {
    for (name, text) in [
        ("application.yml", "server: {port: 80}\nlogging: {level: {root: INFO}}\n"),
        ("application.yml", "logging.level.root: INFO\n"),
        ("a.yaml", "server: {port: 80}\nlog: {level: debug}\n"),
        ("a.yaml", "server.port: 80\n"),
    ] {
        let help = crate::parse(name, text, &no_env).unwrap().notes.to_string();
        let smallest = help.split("the smallest one: `").nth(1).and_then(|help| help.split('`').next()).unwrap();
        let Loaded { config, notes } = crate::parse(name, &format!("{text}{smallest}\n"), &no_env).unwrap();
        assert_eq!((config.routes.len(), notes.to_string().contains("warning")), (1, false), "{smallest}\n{notes}");
    }
}

#[test]
fn an_unknown_filter_gets_few_suggestions_and_the_case_of_java() {
    let with = |name: &str| refused(&ROUTE.replace("predicates", &format!("filters: [{name}], predicates")));
    let problems = with("AddRequestSomethingHeader");
    let similar = problems.split("similar: ").nth(1).unwrap().split(';').next().unwrap();
    assert!((1..=5).contains(&similar.split(", ").count()) && similar.contains("AddRequestHeader"), "{problems}");
    let problems = with("JwtAuth");
    assert!(problems.contains("`JwtAuthGatewayFilterFactory`") && !problems.contains("similar"), "{problems}");
    assert!(problems.len() < 450, "{problems}");
}

#[test]
fn equal_notes_are_shown_once_with_their_lines() {
    let route = |id: &str| format!("- {{id: {id}, uri: 'http://a', predicates: [Path=/{id}], filters: [Hystrix=x]}}\n");
    let routes: String = ["a", "b", "c", "d", "e", "f", "g", "h"].map(route).concat();
    let notes = loaded(&format!("spring.cloud.gateway.routes:\n{routes}")).notes;
    let shown: Vec<_> = notes.list().iter().filter(|note| note.message.contains("runs as")).collect();
    assert_eq!(shown.len(), 1, "{notes}");
    assert_eq!(
        (shown[0].line, shown[0].text().contains("(also in lines 3, 4, 5, 6, 7 and 2 more)")),
        (2, true),
        "{notes}"
    );
}

#[test]
fn servers_of_ribbon_are_endpoints() {
    let text = "spring.cloud.gateway.routes: ['a=lb://orders,Path=/**']\norders:\n  ribbon:\n    \
                listOfServers: http://a:1, b:2\n    NIWSServerListClassName: com.netflix.loadbalancer.ConfigurationBasedServerList\n";
    let endpoints = |text: &str| format!("{:?}", loaded(text).config.upstreams);
    let same = "spring.cloud.gateway.routes: ['a=lb://orders,Path=/**']\nspring.cloud.discovery.client.simple.instances.orders: [{uri: 'http://a:1'}, {uri: 'http://b:2'}]\n";
    assert_eq!(endpoints(text), endpoints(same));
    let without_class = text.split("    NIWS").next().unwrap();
    assert_eq!(endpoints(without_class), endpoints(same));
    let secure = endpoints(&format!("{without_class}    IsSecure: true\n"));
    assert!(secure.contains("Https") && secure != endpoints(same), "{secure}");
    let eureka = "eureka.client.service-url.defaultZone: http://localhost:8761/eureka/\n";
    assert!(endpoints(&format!("{text}{eureka}")).contains("host: \"b\""), "the class names the file");
    let notes = loaded(&format!("{without_class}{eureka}")).notes.to_string();
    assert!(notes.contains("skipped: orders"), "with a registry, Ribbon asks it: {notes}");
}
