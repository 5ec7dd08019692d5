//! Files that Spring runs, with the answers of Spring: nothing in them keeps the gateway from starting.

use tollgate_filters::cors::Settings;

use crate::tests::*;

const LB: &str = "spring.cloud.gateway.routes: [{id: a, uri: 'lb://orders', predicates: [Path=/a/**]}]\n";

/// Returns the number of endpoints of each upstream, and the diagnostics.
fn endpoints(text: &str) -> (Vec<usize>, Loaded) {
    let loaded = loaded(text);
    let count = |upstream: &std::sync::Arc<Upstream>| match &upstream.endpoints {
        EndpointSource::Listed(list) => list.len(),
        other => panic!("{text}: {other:?}"),
    };
    (loaded.config.upstreams.iter().map(count).collect(), loaded)
}

#[test]
fn a_name_without_a_registry_is_an_upstream_without_endpoints() {
    for more in [
        "",
        "eureka.client.enabled: false\n",
        "eureka.client: {fetch-registry: false, register-with-eureka: true}\nspring.application.name: gw\n",
        "spring.cloud.discovery.enabled: false\neureka.client.service-url.defaultZone: http://eureka:8761/eureka/\n",
        "spring.cloud.consul: {host: consul, enabled: false}\n",
        "eureka.client.enabled: false\nspring.cloud.gateway.discovery.locator.enabled: true\n",
    ] {
        let (counts, Loaded { notes, .. }) = endpoints(&format!("{LB}{more}"));
        assert_eq!(counts, [0], "{more}");
        let text = notes.to_string();
        let warning =
            "test.yaml:1:44: warning: unknown upstream `orders` and no registry: its requests get 503, as in Spring";
        assert!(text.contains(warning) && text.contains("name the registry that knows it"), "{more}: {text}");
        let overlay = notes.overlay(&["a.yml"], None).unwrap();
        assert!(overlay.contains("upstreams:\n  orders: {endpoints: "), "{more}: {overlay}");
    }
    let own = "routes: [{id: a, uri: 'lb://orders', predicates: [Path=/a/**]}]\n";
    let own = parse("test.yaml", own, &no_env).unwrap_err();
    assert!(own.to_string().contains("error: unknown upstream `orders`\n"), "{own}");
    assert!(!own.has_other_errors(), "the overlay corrects it");
}

#[test]
fn a_locator_without_a_registry_makes_no_routes() {
    let locator = "spring.cloud.gateway.discovery.locator.enabled: true\n";
    let (counts, Loaded { config, notes }) = endpoints(&format!("{LB}{locator}"));
    assert_eq!((counts, config.routes.len(), config.locator.is_some()), (vec![0], 1, false));
    let text = notes.to_string();
    assert!(text.contains("warning: `discovery.locator` needs a registry") && text.contains("no routes"), "{text}");
    assert!(!text.contains("unknown upstream"), "one registry is missing: {text}");
    let overlay = notes.overlay(&["a.yml"], None).unwrap();
    assert!(
        overlay.contains("\neureka.client.service-url.defaultZone: ") && !overlay.contains("upstreams"),
        "{overlay}"
    );
}

#[test]
fn a_migrated_file_without_a_registry_runs() {
    let migrated = crate::migrate("application.yml", LB, &no_env).unwrap().yaml;
    assert_eq!(endpoints(&migrated).0, [0], "{migrated}");
}

#[test]
fn the_overlay_keeps_a_registry_that_is_only_unset() {
    let overlay = |more: &str| {
        let report = parse("test.yaml", &format!("{LB}{more}\n"), &no_env).unwrap_err();
        report.overlay(&["a.yml"], None).unwrap_or_default()
    };
    for (more, line) in [
        ("eureka.client.service-url.defaultZone: ${REGISTRY_URL}", "REGISTRY_URL: http://registry:8761/eureka/ #"),
        ("eureka.client.service-url.defaultZone: 'http://u:${P_PASSWORD}@${R_HOST}:8761/eureka/'", "R_HOST: r #"),
        ("spring.cloud.nacos.discovery.server-addr: ${NACOS_ADDR}", "NACOS_ADDR: \"nacos:8848\" #"),
        ("spring.cloud.nacos.discovery.server-addr: '@nacos.addr@'", "nacos.addr: \"nacos:8848\" #"),
        (
            "spring.cloud.consul: {host: '${C_HOST}', port: '${C_PORT}'}",
            "C_HOST: c # an example; C_HOST in the environment wins\nC_PORT: 8500 #",
        ),
    ] {
        let text = overlay(more);
        assert!(text.contains(line) && !text.contains("upstreams"), "{more}: {text}");
    }
    let redis = "spring.data.redis.url: ${CACHE_URL}";
    assert!(overlay(redis).contains("CACHE_URL: \"redis://cache:6379\" #"), "{}", overlay(redis));
    assert!(overlay(redis).contains("upstreams:\n  orders: "), "no registry is named");
    for (more, line) in [
        (
            "server.ssl: {key-store: 'classpath:tls/a.p12', key-store-password: x}",
            "server.ssl.key-store: \"file:/etc/tollgate/a.p12\" # copy it out",
        ),
        (
            "server.ssl.bundle: w\nspring.ssl.bundle.jks.w.keystore.location: classpath:a.p12",
            "spring.ssl.bundle.jks.w.keystore.location: \"file:/etc/tollgate/a.p12\" #",
        ),
    ] {
        let text = overlay(more);
        assert!(text.contains(line), "{more}: {text}");
    }
}

#[test]
fn routes_of_one_id_all_run_under_names_of_their_own() {
    let text = "spring.cloud.gateway.routes:\n\
                - {id: a, uri: 'http://a', predicates: [Path=/a/**]}\n\
                - 'a=http://b,Path=/b/**'\n\
                - {id: a, uri: 'http://c', predicates: [Path=/c/**], enabled: false}\n\
                - {id: b, uri: 'http://d', predicates: [Path=/d/**]}\n\
                - {id: a, uri: 'http://e', predicates: [Path=/e/**]}\n";
    let ids = |config: &Config| config.routes.iter().map(|route| route.id.to_string()).collect::<Vec<_>>();
    let Loaded { config, notes } = loaded(text);
    assert_eq!(ids(&config), ["a", "a@1", "b", "a@4"]);
    let notes = notes.to_string();
    for warning in [
        "test.yaml:3:3: warning: duplicate route id `a`: both routes run, as in Spring; limits and metrics call this one `a@1`, the other is at test.yaml:2:8",
        "test.yaml:6:8: warning: duplicate route id `a`",
    ] {
        assert!(notes.contains(warning), "{notes}");
    }
    let migrated = crate::migrate("application.yml", text, &no_env).unwrap().yaml;
    assert_eq!(ids(&loaded(&migrated).config), ["a", "a@1", "b", "a@4"], "{migrated}");
}

#[test]
fn credentials_for_every_origin_allow_no_origin() {
    let of = |text: &str| -> (Settings, String) {
        let Loaded { config, notes } = loaded(text);
        let [(_, policy)] = config.cors.by_path.as_slice() else { panic!("{text}") };
        (policy.settings().clone(), notes.to_string())
    };
    let route = "routes: [{id: a, uri: 'http://a', predicates: [Path=/**]";
    for (origins, credentials, listed) in [
        ("allowedOrigins: '*'", "allowCredentials: true", &[][..]),
        ("allowedOrigins: '*, https://a.example'", "allowCredentials: true", &["https://a.example"]),
        ("allowed-origins: ['https://a.example', '*']", "allow-credentials: 'true'", &["https://a.example"]),
        ("allowedOriginPatterns: 'https://*.example', allowedOrigins: '*'", "allowCredentials: true", &[]),
    ] {
        let global = format!("globalcors.cors-configurations: {{'[/**]': {{{origins}, {credentials}}}}}");
        let global = format!("spring.cloud.gateway: {{{global}, {route}}}]}}\n");
        let local = format!("spring.cloud.gateway: {{{route}, metadata: {{cors: {{{origins}, {credentials}}}}}}}]}}\n");
        let texts = if origins.contains('-') { vec![global] } else { vec![global, local] };
        for text in texts {
            let (settings, notes) = of(&text);
            assert!(settings.allow_credentials && settings.allowed_origins == listed, "{text}: {settings:?}");
            assert!(!settings.allowed_origin_patterns.iter().any(|pattern| pattern == "*"), "{text}: {settings:?}");
            assert!(notes.contains("warning: `*` with credentials allows no origin"), "{notes}");
            assert!(!notes.contains("no origin is allowed"), "{notes}");
            let migrated = crate::migrate("application.yml", &text, &no_env).unwrap().yaml;
            assert_eq!(of(&migrated).0, settings, "{migrated}");
        }
    }
    let own = refused(
        "routes: []\nglobalcors.cors-configurations: {'[/**]': {allowed-origins: '*', allow-credentials: true}}\n",
    );
    assert!(own.contains("error: credentials cannot be allowed for every origin"), "{own}");
}

#[test]
fn what_differs_from_the_intention_is_a_warning() {
    let route = |more: &str| format!("spring.cloud.gateway.routes: [{{id: a, predicates: [Path=/a/**], {more}}}]\n");
    let path = |name: &str| (name == "PATH").then(|| "/usr/bin".to_owned());
    for (more, warning) in [
        (
            "uri: 'http://a', filters: ['RewritePath=/a/(?<path>.*), /${path}']",
            "`${path}` is a property or a variable of the environment",
        ),
        (
            "uri: 'http://a', filters: [{name: RewritePath, args: {regexp: '/a/(?<path>.*)', replacement: '/${path}'}}]",
            "`${path}` is a property",
        ),
        ("uri: 'grayLb://orders'", "`grayLb` is a load balancer of the application, in Java; it is read as `lb`"),
        (
            "uri: 'http://a', filters: [{name: CircuitBreaker, args: {name: c, fallbackUri: 'forward:/a/f'}}]",
            "`/a/f` is a path of route `a`, whose own fallback it is",
        ),
    ] {
        let notes = parse("test.yaml", &route(more), &path).unwrap().notes.to_string();
        assert!(notes.contains(&format!("warning: {warning}")) && !notes.contains("/usr/bin"), "{more}: {notes}");
    }
    let group = parse(
        "test.yaml",
        &route(
            "uri: 'http://a', filters: ['RewritePath=/a/(?<rest>.*), /${rest}', 'RewritePath=/b/(?<path>.*), /$\\{path}']",
        ),
        &path,
    );
    assert!(!group.unwrap().notes.to_string().contains("goes upstream"));
    let fallback = "{id: f, uri: 'http://f', predicates: [Path=/a/f]}, ";
    let other =
        route("uri: 'http://a', filters: [{name: CircuitBreaker, args: {name: c, fallbackUri: 'forward:/a/f'}}]")
            .replace("routes: [", &format!("routes: [{fallback}"));
    assert!(!loaded(&other).notes.to_string().contains("own fallback"));
    let maven = refused(&format!("{LB}spring.data.redis: {{host: a, password: '@nacos.password@'}}\n"));
    assert!(maven.contains("error: `@nacos.password@` is a placeholder of the application's build"), "{maven}");
    let plain = loaded("server: {port: 99}\nlogging: {level: {root: info}}\n");
    assert!(
        plain.notes.list().iter().all(|note| note.severity != Severity::Error) && has_springs_timeouts(&plain.config)
    );
    assert!(refused("logging.level.root: info\nroutes: ['a=http://a,Path=/**']\n").contains("unknown key `logging`"));
}

#[test]
fn a_value_that_a_document_has_in_two_forms_is_reported_with_both_places() {
    for (text, name, places) in [
        ("server: {port: 1}\nserver.port: 2\n", "port", ["2:14", "1:16"]),
        ("server.port: 1\nserver:\n  address: '::1'\n  port: 2\n", "port", ["4:9", "1:14"]),
        ("server: {http2.enabled: true, http2: {enabled: false}}\n", "enabled", ["1:48", "1:25"]),
        (
            "upstreams: {a: {endpoints: ['http://a']}}\nupstreams.a.endpoints: ['http://b']\n",
            "endpoints",
            ["2:24", "1:28"],
        ),
    ] {
        let [second, first] = places;
        let message = format!("`{name}` has two values here, of which this one counts; the first is at t.yml:{first}");
        let own = parse("t.yml", &format!("{text}routes: []\n"), &no_env).unwrap_err().to_string();
        assert!(own.contains(&format!("t.yml:{second}: error: {message}")), "{own}");
        let spring =
            parse("t.yml", &format!("{text}spring.cloud.gateway.routes: []\n"), &no_env).unwrap().notes.to_string();
        assert!(spring.contains(&format!("t.yml:{second}: warning: {message}")), "{spring}");
    }
    let apart = "server: {port: 1}\nserver.address: '::1'\n---\nserver.port: 2\nroutes: []\n";
    assert!(!loaded(apart).notes.to_string().contains("two values"), "{}", loaded(apart).notes);
}
