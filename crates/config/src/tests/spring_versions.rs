//! Names, numbers and roots that only some versions of Spring have.

use crate::tests::files::Folder;
use crate::tests::*;

#[test]
fn routes_of_the_servlet_gateway_are_read() {
    let settings = "
  http-client: {connect-timeout: 2s, read-timeout: 3s}
  trusted-proxies: 10\\..*
  x-forwarded-request-headers-filter.prefix-enabled: false
  routes:
  - id: a
    uri: http://a
    predicates: [Path=/a/**, method=GET]
    filters:
    - stripPrefix=1
    - PreserveHost
    - RouteId=a
    - {name: CircuitBreaker, args: {id: calm, fallbackPath: /f}}
  - {id: f, uri: 'no://op', predicates: [Path=/f], filters: [SetStatus=418]}
  routes-map:
    mapped: {uri: 'http://m', predicates: [Path=/m]}
";
    for root in ["spring.cloud.gateway.server.webmvc", "spring.cloud.gateway.mvc"] {
        let Loaded { config, notes } = loaded(&format!("{root}:{settings}"));
        let route = &config.routes[0];
        assert_eq!(config.routes.iter().map(|route| &*route.id).collect::<Vec<_>>(), ["a", "f", "mapped"]);
        assert_eq!(route.definition.filters.len(), 3, "{:?}", route.definition.filters);
        assert!(route.definition.filters[1].starts_with("PreserveHostHeader"), "{:?}", route.definition.filters);
        let Filter::CircuitBreaker(breaker) = &route.filters[2] else { panic!("{:?}", route.filters) };
        let fallback = breaker.fallback.as_ref().and_then(|fallback| fallback.fixed_path.as_deref());
        assert_eq!((breaker.name.as_deref(), fallback), (Some("calm"), Some("/f")));
        assert_eq!(route.predicates[0].to_string(), "Paths: [/a/**], match trailing slash: false");
        assert_eq!(config.http_client.connect_timeout.get(), Duration::from_secs(2));
        assert_eq!(config.http_client.response_timeout.get(), Some(Duration::from_secs(3)));
        let text = format!("{root}:{settings}");
        let migrated = loaded(&crate::migrate("application.yml", &text, &no_env).unwrap().yaml).config;
        assert_eq!(migrated.routes[0].definition.filters.len(), 3);
        assert_eq!(migrated.http_client.connect_timeout.get(), config.http_client.connect_timeout.get());
        let notes = notes.to_string();
        assert!(notes.contains(&format!("note: settings of the servlet gateway, `{root}`, are read")), "{notes}");
        assert!(notes.contains("warning: `RouteId` is left out") && !notes.contains("unknown key"), "{notes}");
    }
    let route = |uri: &str, filter: &str| {
        refused(&format!(
            "spring.cloud.gateway.server.webmvc.routes: [{{id: a, uri: '{uri}', predicates: [Path=/**], filters: [{filter}]}}]\n"
        ))
    };
    for (uri, filter, error) in [
        ("http://a", "RateLimit=1", "`RateLimit`"),
        ("http://a", "'Uri=http://b'", "`Uri`"),
        ("http://a", "lb=orders", "`Lb`"),
        ("fn:upper", "StripPrefix=1", "`fn:` is a function of the application, in Java"),
        ("stream://out", "StripPrefix=1", "`stream:` is a function"),
        ("http://a", "sign=1", "unknown filter `Sign`"),
    ] {
        assert!(route(uri, filter).contains(error), "{uri} {filter}: {}", route(uri, filter));
    }
    let both = "spring.cloud.gateway: {routes: ['a=http://a,Path=/a'], mvc.routes: ['b=http://b,Path=/b']}\n";
    let Loaded { config, notes } = loaded(both);
    assert_eq!((config.routes.len(), &*config.routes[0].id), (1, "a"));
    assert!(notes.to_string().contains("warning: routes stand both here"), "{notes}");
}

#[test]
fn the_name_of_a_file_tells_its_profile() {
    let text = "spring.config.activate.on-profile: prod\nspring.cloud.gateway.routes: ['a=http://a,Path=/**']\n\
                ---\nspring.config.activate.on-profile: dev\nserver.port: 99\n";
    for (name, routes) in [("application-prod.yml", 1), ("application.yml", 0), ("application-dev.yml", 0)] {
        let folder = Folder::of(&[(name, text)]);
        let config = folder.load(&[name], None).unwrap().config;
        assert_eq!((config.routes.len(), config.server.port.get() == 99), (routes, name.contains("dev")), "{name}");
    }
}

#[test]
fn numbers_are_those_of_yaml_1_1_in_a_spring_file_only() {
    let limiter = "filters: [{name: RequestRateLimiter, args: {key-resolver: ip, replenish-rate: 1_000, burst-capacity: 1_0_000}}]";
    let text = format!(
        "server.port: 1_080\nspring.cloud.gateway.routes:\n\
         - {{id: 010, uri: 'http://a', predicates: [Path=/**], order: 010, {limiter}, metadata: {{response-timeout: '010'}}}}\n"
    );
    let config = loaded(&text).config;
    let route = &config.routes[0];
    assert_eq!((config.server.port.get(), &*route.id, route.order), (1080, "8", 8));
    let Filter::RequestRateLimiter(limiter) = &route.filters[0] else { panic!("no limiter") };
    let Some(Limit { rule, .. }) = limiter.limits().next() else { panic!("no rule") };
    assert_eq!((rule.rate(), rule.capacity()), (1000, 10_000));
    assert_eq!(
        route.response_timeout.and_then(|timeout| timeout.get()),
        Some(Duration::from_millis(10)),
        "with quotes"
    );
    let own = "routes: [{id: 010, uri: 'http://a', predicates: [Path=/**]}]\n";
    assert_eq!(&*loaded(own).config.routes[0].id, "010");
}

#[test]
fn names_of_spring_boot_4_name_the_collector_of_traces() {
    let route = "spring.cloud.gateway.routes: ['a=http://a,Path=/**']\n";
    let of = |management: &str| loaded(&format!("{route}management: {management}\n"));
    let otlp = "opentelemetry.tracing.export.otlp: {endpoint: 'http://c:4318/v1/traces', headers: {x: y}}";
    let traces = |more: &str| of(&format!("{{{otlp}{more}}}")).config.management.traces;
    assert_eq!(traces("").unwrap().endpoint.to_string(), "http://c:4318/v1/traces");
    assert!(traces(", tracing.export.enabled: true").is_some());
    for off in
        ["tracing.export.enabled: false", "tracing.export.otlp.enabled: false", "otlp.tracing.export.enabled: false"]
    {
        assert!(traces(&format!(", {off}")).is_none(), "{off}");
    }
    assert!(traces(", tracing.export: {enabled: false, otlp.enabled: true}").is_some(), "the narrower one wins");
    let notes = of(&format!("{{{otlp}}}")).notes.to_string();
    assert!(!notes.contains("opentelemetry") && !notes.contains("tracing"), "{notes}");
}

#[test]
fn formats_of_traces_without_a_collector_have_a_note() {
    let routes = "spring.cloud.gateway.routes: ['a=http://a,Path=/**']\n";
    let notes =
        |more: &str| loaded(&format!("{routes}management.tracing.propagation.type: B3\n{more}")).notes.to_string();
    let note = "note: `propagation` has no effect without a collector: upstreams get the fields of traces as clients send them";
    assert!(notes("").contains(note), "{}", notes(""));
    assert!(!notes("management.otlp.tracing.endpoint: http://c:4318/v1/traces\n").contains("collector:"));
    assert!(!notes("management.tracing.enabled: false\n").contains("collector:"));
}
