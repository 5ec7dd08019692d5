//! `discovery.locator`: its routes, and the registry that a file lacks.

use crate::tests::files::Folder;
use crate::tests::*;
use crate::{Metadata, Services, load_with_services};

const LOCATOR: &str = "spring.cloud.gateway.discovery.locator: {enabled: true, lower-case-service-id: true}\n";

/// Metadata of an instance.
type Pairs<'p> = &'p [(&'p str, &'p str)];

fn services(list: &[(&str, &[Pairs<'_>])]) -> Services {
    let metadata = |pairs: &Pairs<'_>| -> Metadata {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    };
    list.iter().map(|(name, instances)| ((*name).to_owned(), instances.iter().map(metadata).collect())).collect()
}

/// Returns the routes of `settings` of a locator: id, URI and first predicate.
fn routes(settings: &str, services: &Services) -> Vec<String> {
    let text = format!(
        "spring.cloud: {{consul.host: consul, gateway.discovery.locator: {{enabled: true, lower-case-service-id: true, {settings}}}}}\n"
    );
    let locator = loaded(&text).config.locator.unwrap();
    assert_eq!(locator.uses_metadata(), settings.contains("metadata"), "{settings}");
    let config = load_with_services(&locator, services, &crate::CommandLine::default()).unwrap().config;
    let id = |id: &str| id.trim_start_matches("ReactiveCompositeDiscoveryClient_").to_owned();
    let line = |route: &crate::Route| {
        format!("{} {} {}", id(&route.id), route.definition.uri, route.definition.predicates.join(" "))
    };
    config.routes.iter().map(line).collect()
}

#[test]
fn the_name_is_in_lower_case_in_predicates_only() {
    let known = services(&[("Orders", &[]), ("a/b", &[]), ("users", &[])]);
    assert_eq!(
        routes("", &known),
        ["Orders lb://Orders Path{pattern=/orders/**}", "users lb://users Path{pattern=/users/**}"]
    );
    assert_eq!(routes("include-expression: \"serviceId == 'orders'\"", &known), [""; 0], "as in Spring");
    assert_eq!(routes("include-expression: \"!serviceId.startsWith('us')\", route-id-prefix: ''", &known).len(), 1);
}

#[test]
fn metadata_select_services_and_make_paths() {
    let known = services(&[
        ("orders", &[&[("edge", "true"), ("path", "/o")]]),
        ("users", &[&[], &[("edge", "true"), ("path", "/u")]]),
        ("internal", &[&[("edge", "false")]]),
        ("none", &[]),
    ]);
    assert_eq!(
        routes("include-expression: \"metadata['edge'] == 'true'\"", &known),
        ["orders lb://orders Path{pattern=/orders/**}", "users lb://users Path{pattern=/users/**}"]
    );
    let path = "predicates: [{name: Path, args: {pattern: \"metadata['path'].trim() + '/**'\"}}]";
    assert_eq!(
        routes(path, &known),
        ["orders lb://orders Path{pattern=/o/**}", "users lb://users Path{pattern=/u/**}"],
        "a service without the value has no route"
    );
}

#[test]
fn nested_arguments_have_dotted_names() {
    let limiter = "filters: [{name: RequestRateLimiter, args: {redis-rate-limiter.replenishRate: '10', \
                   redis-rate-limiter: {burstCapacity: 10 + 10}, key-resolver: \"'#{@ipKeyResolver}'\"}}]";
    let text = format!(
        "spring.cloud: {{consul.host: consul, gateway.discovery.locator: {{enabled: true, {limiter}}}}}\nkey-resolvers.ipKeyResolver: ip\n"
    );
    let locator = loaded(&text).config.locator.unwrap();
    let known = services(&[("orders", &[])]);
    let config = load_with_services(&locator, &known, &crate::CommandLine::default()).unwrap().config;
    let filters = &config.routes[0].definition.filters;
    assert!(filters[0].contains("replenishRate=10") && filters[0].contains("burstCapacity=20"), "{filters:?}");
}

#[test]
fn errors_of_its_routes_are_found_without_a_service() {
    for (settings, error) in [
        ("filters: [{name: StripPrefx, args: {parts: 1}}]", "unknown filter `StripPrefx`"),
        ("predicates: [\"Paths='/a'\"]", "unknown predicate `Paths`"),
        ("url-expression: \"'nowhere'\"", "nowhere"),
    ] {
        let text = format!(
            "spring.cloud: {{consul.host: consul, gateway.discovery.locator: {{enabled: true, {settings}}}}}\n"
        );
        let report = parse("test.yaml", &text, &no_env).unwrap_err().to_string();
        assert!(report.contains(error), "{settings}:\n{report}");
    }
}

#[test]
fn services_that_the_file_lists_have_routes() {
    let text = format!(
        "{LOCATOR}spring.cloud.discovery.client.simple.instances:\n  orders: [{{uri: 'http://a:1', metadata: {{edge: true}}}}]\n"
    );
    let config = loaded(&text).config;
    assert_eq!(config.routes.len(), 1);
    assert!(config.locator.is_none(), "no registry can add routes");
    let selected = text.replace("enabled: true", "enabled: true, include-expression: \"metadata['edge'] != 'true'\"");
    assert_eq!(loaded(&selected).config.routes.len(), 0);
}

#[test]
fn one_overlay_names_the_registry_that_a_locator_lacks() {
    for (more, first) in [
        ("", "eureka.client.service-url.defaultZone: http://localhost:8761/eureka/"),
        (
            "spring.config.import: 'optional:nacos:gateway.yml'\n",
            "spring.cloud.nacos.discovery.server-addr: localhost:8848",
        ),
        ("spring.cloud.consul.config.format: yaml\n", "spring.cloud.consul.host: localhost"),
    ] {
        let text = format!("{LOCATOR}spring.cloud.gateway.routes: ['a=lb://ORDERS,Path=/a/**']\n{more}");
        let folder = Folder::of(&[("application.yml", &text)]);
        let file = folder.path("application.yml");
        let report = load(&[file], &crate::CommandLine::default()).unwrap().notes;
        let text = report.to_string();
        assert!(!report.has_other_errors() && text.contains("`bootstrap.yml`, a config server"), "{text}");
        assert!(!text.contains("unknown upstream"), "the registry knows the name:\n{text}");
        let overlay = report.overlay(&["application.yml"], None).unwrap();
        let lines: Vec<&str> = overlay.lines().skip(3).collect();
        assert_eq!(lines[1], first, "{overlay}");
        assert!(lines.len() == 6 && lines[2..].iter().all(|line| line.starts_with("# ")), "{overlay}");
        for (number, choice) in lines.iter().enumerate().skip(1) {
            let choice = choice.trim_start_matches("# ");
            folder.write("overlay.yaml", &format!("{choice}\n"));
            let loaded = folder.load(&["application.yml", "overlay.yaml"], None);
            let problem = loaded.err().map(|error| error.to_string()).unwrap_or_default();
            let needs_cluster = choice.contains("kubernetes");
            let needs_endpoints = number == 5;
            assert!(problem.is_empty() || needs_cluster || needs_endpoints, "{choice}:\n{problem}");
        }
    }
}

#[test]
fn a_locator_without_effect_is_a_warning() {
    for more in ["eureka.client.enabled: false\n", "spring.cloud.discovery.enabled: false\n"] {
        let loaded = loaded(&format!("{LOCATOR}spring.cloud.gateway.routes: ['a=http://a,Path=/a/**']\n{more}"));
        let text = loaded.notes.to_string();
        assert!(text.contains("warning: `discovery.locator` makes no routes"), "{text}");
    }
}
