//! Spring Boot's endpoints on the port for traffic, in both forms.

use crate::tests::*;

const ROUTE: &str = "spring.cloud.gateway.routes: [{id: a, uri: 'http://a', predicates: [Path=/a/**]}]\n";
const OWN_ROUTE: &str = "routes: [{id: a, uri: 'http://a', predicates: [Path=/a/**]}]\n";

fn migrated(text: &str) -> (Loaded, Loaded, String) {
    let old = parse("application.yml", text, &no_env).unwrap_or_else(|problems| panic!("{problems}"));
    let yaml = migrate("application.yml", text, &no_env).unwrap().yaml;
    let new = parse("tollgate.yaml", &yaml, &no_env).unwrap_or_else(|problems| panic!("{problems}{yaml}"));
    (old, new, yaml)
}

#[test]
fn a_migrated_file_serves_the_endpoints_that_its_source_serves() {
    for (management, is_shared) in [
        ("management: {endpoints: {web: {exposure: {include: 'health,gateway'}}}}", true),
        ("management: {server: {port: 8080}}\nserver: {port: 8080}", true),
        (
            "management.server.port: ${server.port}\nserver.port: ${PORT:8088}\nmanagement.endpoints.web.exposure.include: '*'",
            true,
        ),
        ("management: {endpoint: {health: {probes: {enabled: true}}}, server: {address: 127.0.0.1}}", true),
        (
            "management:\n  endpoints.web: {base-path: /manage, exposure.include: prometheus}\nspring.webflux.base-path: /api",
            true,
        ),
        ("management: {server: {port: 9191}}", false),
        ("management: {server: {port: -1}}", false),
        ("server: {port: 8080}", false),
    ] {
        let (old, new, yaml) = migrated(&format!("{ROUTE}{management}\n"));
        let (old, new, notes) = (old.config.management, new.config.management, new.notes);
        assert_eq!(old.on_traffic.is_some(), is_shared, "{management}");
        assert_eq!(old.on_traffic, new.on_traffic, "{yaml}");
        assert_eq!((old.enabled, old.port, old.actuator), (new.enabled, new.port, new.actuator), "{yaml}");
        assert!(notes.list().iter().all(|note| note.severity == Severity::Note), "{notes}{yaml}");
        assert_eq!(yaml.contains("on-traffic-port: auto"), management.contains("management"), "{yaml}");
    }
}

#[test]
fn our_own_form_serves_endpoints_on_the_port_for_traffic_if_it_is_asked_to() {
    let served = |management: &str| {
        let management = loaded(&format!("{OWN_ROUTE}management: {management}\n")).config.management;
        (
            management.enabled,
            management.on_traffic.map(|endpoints| (endpoints.actuator.health, endpoints.actuator.prometheus)),
        )
    };
    let health = Some("/actuator/health".to_owned());
    assert_eq!(served("{enabled: true}"), (true, None));
    assert_eq!(served("{on-traffic-port: false}"), (true, None));
    assert_eq!(served("{on-traffic-port: true}"), (true, Some((health.clone(), None))));
    assert_eq!(served("{on-traffic-port: true, server.port: -1}"), (false, Some((health.clone(), None))));
    let exposure = "endpoints.web.exposure.include: 'health,prometheus'";
    let both = Some((health, Some("/actuator/prometheus".to_owned())));
    assert_eq!(served(&format!("{{on-traffic-port: true, {exposure}}}")), (true, both));
    let problems = refused(&format!("{OWN_ROUTE}management: {{on-traffic-port: true, enabled: false}}\n"));
    assert!(problems.contains("`on-traffic-port` has no effect"), "{problems}");
    let own_port = "server.port: 8080\nmanagement: {on-traffic-port: true, server.port: 8080}\n";
    assert!(refused(&format!("{OWN_ROUTE}{own_port}")).contains("8080 is the port for traffic"));
}

#[test]
fn a_spring_file_can_keep_its_endpoints_off_the_port_for_traffic() {
    let management = "management: {on-traffic-port: false, endpoints.web.exposure.include: health}\n";
    let (old, new, yaml) = migrated(&format!("{ROUTE}{management}"));
    assert_eq!((old.config.management.on_traffic, new.config.management.on_traffic), (None, None), "{yaml}");
}

#[test]
fn exposed_endpoints_that_do_not_exist_are_named_once() {
    let notes = |management: &str| {
        loaded(&format!("spring.cloud.gateway.routes: ['a=http://a,Path=/**']\nmanagement:\n{management}"))
            .notes
            .to_string()
    };
    let exposed =
        "  endpoints.web.exposure: {include: 'health,info,metrics,prometheus,gateway,mine,env', exclude: env}\n";
    for text in [exposed.to_owned(), format!("{exposed}  server.port: 9001\n")] {
        let notes = notes(&text);
        assert_eq!(notes.matches("do not exist here").count(), 1, "{notes}");
        assert!(
            notes.contains("note: `info`, `metrics` are endpoints that do not exist here: requests get 404"),
            "{notes}"
        );
    }
    for text in ["  endpoints.web.exposure.include: '*'\n", "  endpoints.web.exposure.include: health\n"] {
        assert!(!notes(text).contains("not exist"), "{}", notes(text));
    }
}

#[test]
fn a_path_of_an_endpoint_that_no_request_has_is_an_error() {
    let checked = |management: &str| parse("a.yaml", &format!("management: {{{management}}}\n{OWN_ROUTE}"), &no_env);
    for (base, path) in
        [("//", "/actuator"), ("/ops/", "/ops/actuator"), ("ops", "/ops/actuator"), ("/a//b", "/a/b/actuator")]
    {
        let loaded =
            checked(&format!("server: {{base-path: '{base}'}}")).unwrap_or_else(|problems| panic!("{problems}"));
        assert_eq!(loaded.config.management.actuator.base, path, "{base}");
    }
    let problems = checked("endpoints: {web: {base-path: ops}}").unwrap_err().to_string();
    assert!(problems.contains("`management.endpoints.web.base-path` must begin with `/`"), "{problems}");
    for wrong in ["/a b", "/%zz", "/a%20b", "/{a}", "/a/../b", "/a?b", "/a#b", "/é"] {
        for keys in [
            format!("server: {{base-path: '{wrong}'}}"),
            format!("endpoints: {{web: {{base-path: '{wrong}'}}}}"),
            format!("endpoints: {{web: {{path-mapping: {{health: '{wrong}'}}}}}}"),
        ] {
            let problems = checked(&keys).err().map(|problems| problems.to_string()).unwrap_or_default();
            assert!(problems.contains("is no path of a request"), "{keys}: {problems}");
        }
    }
}
