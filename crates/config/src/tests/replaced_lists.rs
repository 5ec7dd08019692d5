//! Lists and values that a later source replaces as a whole, with a limiter among them.

use crate::tests::files::Folder;
use crate::tests::*;

const LIMITER: &str = "{name: RequestRateLimiter, args: {redis-rate-limiter.replenishRate: 1, redis-rate-limiter.burstCapacity: 1, key-resolver: '#{@ip}'}}";
const OTHER: &str = "{name: RequestRateLimiter, args: {redis-rate-limiter.replenishRate: 9, redis-rate-limiter.burstCapacity: 9, key-resolver: '#{@ip}'}}";
const SPRING: &str = "spring.cloud.gateway.default-filters";

/// A Spring file with a limiter for all routes, its list in line 2.
fn base() -> String {
    format!(
        "key-resolvers: {{ip: ip}}\n{SPRING}: [{LIMITER}, 'AddResponseHeader=X-A, 1']\nspring.cloud.gateway.routes: ['a=http://a,Path=/a']\n"
    )
}

fn own_base() -> String {
    "key-resolvers: {default: ip}\ndefault-filters: [{name: RequestRateLimiter, args: {replenish-rate: 1}}]\nroutes: [{id: a, uri: 'echo:', predicates: [Path=/a]}]\n".to_owned()
}

#[test]
fn default_filters_that_a_later_source_replaces_are_named_limiters_first() {
    let header = "['AddResponseHeader=X, 1']";
    let lost = "; no longer in effect: RequestRateLimiter at a.yml:2:";
    for over in [
        format!("{SPRING}: {header}\n"),
        format!("{SPRING}: PreserveHostHeader\n"),
        format!("{SPRING}[0]: 'AddResponseHeader=X, 1'\n"),
        format!("{SPRING}: []\n"),
        format!("{SPRING}:\n"),
        format!("spring.cloud.gateway.server.webflux.default-filters: {header}\n"),
        format!("tollgate: {{default-filters: {header}}}\n"),
    ] {
        let folder = Folder::of(&[("a.yml", &base()), ("b.yml", &over)]);
        let notes = folder.notes(&["a.yml", "b.yml"]);
        assert!(notes.contains("b.yml:1:") && notes.contains("warning: `"), "{over}{notes}");
        assert!(notes.contains(lost) && notes.contains(", AddResponseHeader at a.yml:2:"), "{over}{notes}");
        assert!(notes.contains("repeat the entries that must stay"), "{over}{notes}");
    }
    let own = Folder::of(&[("a.yaml", &own_base()), ("b.yaml", "tollgate.default-filters: [StripPrefix=1]\n")]);
    assert!(own.notes(&["a.yaml", "b.yaml"]).contains("warning: `default-filters` here replaces the list at a.yaml:2:1; no longer in effect: RequestRateLimiter at a.yaml:2:"));
}

#[test]
fn a_merge_key_whose_limiter_is_overridden_is_a_warning() {
    let file = |filters: &str| {
        format!(
            "x-limited: &limited\n  uri: http://a\n  filters: [{LIMITER}, 'AddResponseHeader=X-A, 1']\n\
             key-resolvers: {{ip: ip}}\nspring.cloud.gateway.routes:\n- <<: *limited\n  id: a\n  predicates: [Path=/a]\n{filters}"
        )
    };
    let notes = |filters: &str| Folder::of(&[("a.yml", &file(filters))]).notes(&["a.yml"]);
    let lost = notes("  filters: [StripPrefix=1]\n");
    assert!(lost.contains("a.yml:9:3: warning: `filters` here replaces the list at a.yml:3:3"), "{lost}");
    assert!(lost.contains("; no longer in effect: RequestRateLimiter at a.yml:3:"), "{lost}");
    for kept in [String::new(), format!("  filters: [{OTHER}, 'AddResponseHeader=X-A, 1']\n")] {
        let notes = notes(&kept);
        assert!(!notes.contains("replaces"), "{notes}");
    }
}

#[test]
fn a_document_of_a_profile_that_loses_a_limiter_is_a_warning_and_others_are_notes() {
    let of = |filters: &str| format!("{}---\nspring.config.activate.on-profile: prod\n{SPRING}: {filters}\n", base());
    let notes = |filters: &str| {
        Folder::of(&[("a.yml", &of(filters))]).load(&["a.yml"], Some("prod")).unwrap().notes.to_string()
    };
    assert!(notes("[StripPrefix=1]").contains("warning: `spring.cloud.gateway.default-filters` here replaces"));
    let kept = notes(&format!("[{OTHER}, StripPrefix=1]"));
    let expected = "note: `spring.cloud.gateway.default-filters` here replaces the list at ";
    assert!(
        kept.contains(expected) && kept.contains("AddResponseHeader at") && !kept.contains("RequestRateLimiter at"),
        "{kept}"
    );
    let folder = Folder::of(&[("a.yml", &base()), ("a-prod.yml", &format!("{SPRING}: [StripPrefix=1]\n"))]);
    let notes = folder.load(&["a.yml"], Some("prod")).unwrap().notes.to_string();
    assert!(notes.contains("no longer in effect: RequestRateLimiter at"), "{notes}");
}

#[test]
fn the_environment_and_the_command_line_name_what_they_replace() {
    for (variable, value) in [
        ("SPRING_CLOUD_GATEWAY_DEFAULT_FILTERS_0", None),
        ("SPRING_CLOUD_GATEWAY_DEFAULTFILTERS_0", Some("AddResponseHeader=X, 1")),
        ("SPRING_CLOUD_GATEWAY_DEFAULTFILTERS_0_NAME", Some("PreserveHostHeader")),
        ("TOLLGATE_DEFAULTFILTERS_0", Some("AddResponseHeader=X, 1")),
    ] {
        let env = |name: &str| value.filter(|_| name == variable).map(str::to_owned);
        let notes = parse("application.yml", &base(), &env).unwrap().notes.to_string();
        let expected = "application.yml:2:1: warning: the environment, `";
        let is_reported = notes.contains(expected)
            && notes.contains("; no longer in effect: RequestRateLimiter at application.yml:2:");
        assert_eq!(is_reported, value.is_some(), "{variable} {notes}");
        assert_eq!(notes.matches(variable).count(), usize::from(value.is_some()), "{notes}");
    }
    let folder = Folder::of(&[("a.yml", &base())]);
    let properties = vec![(format!("{SPRING}[0]"), "StripPrefix=1".to_owned())];
    let command_line = crate::CommandLine { profiles: None, properties };
    let notes = load(&[folder.path("a.yml")], &command_line).unwrap().notes.to_string();
    assert!(notes.contains("warning: `spring.cloud.gateway.default-filters` here replaces the list at"), "{notes}");
}

#[test]
fn the_last_list_of_a_row_counts() {
    let with = format!("{SPRING}: [StripPrefix=1, {LIMITER}, 'AddResponseHeader=X-A,1']\n");
    let without = format!("{SPRING}: [StripPrefix=1]\n");
    let folder = Folder::of(&[("a.yml", &base()), ("b.yml", &without), ("c.yml", &with), ("d.yml", &without)]);
    let notes = folder.notes(&["a.yml", "b.yml", "c.yml"]);
    assert!(!notes.contains("no longer in effect"), "the last list repeats all entries: {notes}");
    let notes = folder.notes(&["a.yml", "c.yml", "b.yml", "d.yml"]);
    assert_eq!(notes.matches("no longer in effect").count(), 1, "{notes}");
    assert!(notes.contains("d.yml:1:1: warning"), "{notes}");
}

#[test]
fn a_route_below_tollgate_that_takes_the_place_of_another_is_reported() {
    let route = |filters: &str| format!("{{id: a, uri: 'http://a', predicates: [Path=/a], filters: [{filters}]}}");
    let spring = format!("key-resolvers: {{ip: ip}}\nspring.cloud.gateway.routes: [{}]\n", route(LIMITER));
    for (filters, severity) in [("StripPrefix=1", "warning"), (OTHER, "note")] {
        let own = format!("tollgate: {{routes: [{}]}}\n", route(filters));
        let folder = Folder::of(&[("a.yml", &spring), ("b.yml", &own)]);
        let expected = format!(
            "b.yml:1:21: {severity}: the route `a` of `tollgate.routes` takes the place of the one at a.yml:2:31"
        );
        for files in [["a.yml", "b.yml"], ["b.yml", "a.yml"]] {
            let notes = folder.notes(&files);
            assert!(notes.contains(&expected) && notes.contains("added behind those of the files"), "{notes}");
            assert_eq!(notes.contains("; no longer in effect: RequestRateLimiter at a.yml:2:"), severity == "warning");
        }
    }
}

#[test]
fn routes_of_a_later_list_are_compared_by_id() {
    let route = |id: &str, filters: &str| {
        format!("{{id: {id}, uri: 'http://{id}', predicates: [Path=/{id}], filters: [{filters}]}}")
    };
    let list = |routes: &str| format!("spring.cloud.gateway.routes: [{routes}]\n");
    let of = |later: &str| {
        let earlier = list(&format!("{}, {}", route("a", LIMITER), route("b", "StripPrefix=1")));
        let folder =
            Folder::of(&[("a.yml", &format!("key-resolvers: {{ip: ip}}\n{earlier}")), ("b.yml", &list(later))]);
        folder.notes(&["a.yml", "b.yml"])
    };
    let kept = of(&format!("{}, {}", route("a", OTHER), route("b", "")));
    assert!(!kept.contains("no longer in effect"), "a list of the same routes is another version of it: {kept}");
    let notes = of(&format!("{}, {}", route("b", ""), route("a", "StripPrefix=1")));
    assert!(notes.contains("no longer in effect: RequestRateLimiter at a.yml:2:"), "{notes}");
    let notes = of(&route("c", ""));
    assert!(
        notes.contains("no longer in effect: route `a` with RequestRateLimiter at a.yml:2:31, route `b` at"),
        "{notes}"
    );
    assert!(notes.contains("`tollgate: {routes: […]}` adds routes"), "{notes}");
}

#[test]
fn every_list_but_those_of_addresses_is_compared() {
    let root = "routes: [{id: a, uri: 'echo:', predicates: [Path=/a]}]\n";
    for (earlier, later, is_reported) in [
        ("trusted-proxies: [10.0.0.0/8, 192.0.2.1]", "trusted-proxies: [10.0.0.0/8]", true),
        ("trusted-proxies: [10.0.0.0/8]", "trusted-proxies: [192.0.2.1, 10.0.0.0/8]", false),
        ("cors.allowed-origins: ['https://a.example']", "cors.allowed-origins: ['https://b.example']", true),
        ("cors.allowed-origins: ['https://a.example']", "cors.allowed-origins: 'https://b.example'", true),
        ("upstreams.u.endpoints: ['http://a']", "upstreams.u.endpoints: ['http://b']", false),
        ("redis.cluster.nodes: ['a:1']", "redis.cluster.nodes: ['b:1']", false),
        ("server.port: 8080", "server.port: 8081", false),
        ("trusted-proxies: 10.0.0.0/8", "trusted-proxies: 192.0.2.1", false),
    ] {
        let folder = Folder::of(&[("a.yaml", &format!("{earlier}\n{root}")), ("b.yaml", &format!("{later}\n"))]);
        let notes = folder.notes(&["a.yaml", "b.yaml"]);
        let expected = "replaces the ";
        assert_eq!(
            notes.contains(expected) && notes.contains("no longer in effect: an entry at a.yaml:1:"),
            is_reported,
            "{later} {notes}"
        );
    }
    let bean = |value: &str| format!("filter-beans.Mine.use: {value}\n");
    let limited = "filter-beans.Mine.args: {replenish-rate: 1, key-resolver: ip}\nspring.cloud.gateway.routes: [{id: a, uri: 'http://a', predicates: [Path=/a], filters: [Mine]}]\n";
    let folder = Folder::of(&[
        ("a.yml", &format!("{}{limited}", bean("RequestRateLimiter"))),
        ("b.yml", &bean("PreserveHostHeader")),
        ("c.yml", "my.list: [a]\n"),
        ("d.yml", "my.list: [b]\n"),
    ]);
    let text = folder.load(&["a.yml", "b.yml"], None).map_or_else(|error| error, |loaded| loaded.notes.to_string());
    assert!(
        text.contains("warning: `filter-beans.Mine.use` here replaces the value at")
            && text.contains("no longer in effect: RequestRateLimiter at"),
        "{text}"
    );
    let notes = folder.notes(&["a.yml", "c.yml", "d.yml"]);
    assert!(!notes.contains("replaces"), "a list of the application: {notes}");
}
