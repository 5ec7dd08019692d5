//! Sections whose silence means something else in Spring: CORS, proxies, timeouts, Spring Boot's endpoints, Eureka and zones.

use crate::translate::{Explicit, ignore};
use crate::tree::find;
use tollgate_document::diagnostics::Diagnostics;
use tollgate_document::yaml::key::{canonical, same_name};
use tollgate_document::yaml::{Node, NodeKind};

/// Keys that mean something else if a file lacks them: the value that means the same here, and why.
const DEFAULTS: [(&[&str], &str, &str); 4] = [
    (
        &["server", "path", "encoded-slash"],
        "keep",
        "As in Spring, encoded slashes are part of their segment; Tollgate's default is `reject`.",
    ),
    (
        &["server", "error-format"],
        "http",
        "As in Spring, denied gRPC calls get HTTP 429, which clients retry at once; Tollgate's default is `auto`.",
    ),
    (&["httpclient", "response-timeout"], "-1", NO_TIMEOUT),
    (&["httpclient", "read-timeout"], "-1", NO_TIMEOUT),
];
const NO_TIMEOUT: &str = "As in Spring, there is no such timeout; Tollgate's default is 60s.";
const ENDPOINTS: &str = "As in Spring Boot, unless management has a port of its own; Tollgate's default is `false`.";

pub(super) fn translate(root: &mut Node, explicit: &mut Explicit, diagnostics: &mut Diagnostics) {
    cors(root, explicit, diagnostics);
    for (path, value, reason) in DEFAULTS {
        explicit.add_missing(root, path, value, reason);
    }
    if find(root, &["server", "ssl", "forward-client-cert"]).is_none() {
        let reason = "As in Spring, these fields of clients are forwarded; Tollgate's default is `remove`.";
        explicit.add_missing(root, &["headers", "client-cert"], "keep", reason);
    }
    proxies(root, explicit, diagnostics);
    if root.get("management").is_some() {
        explicit.add_missing(root, &["management", "on-traffic-port"], "auto", ENDPOINTS);
    }
    eureka(root, diagnostics);
    zones(root, explicit, diagnostics);
}

/// Keys of `metadata.cors` with lists of names, in the only spelling that Spring reads.
const CORS_LISTS: [&str; 3] = ["allowedMethods", "allowedHeaders", "exposedHeaders"];
const CORS_REASON: &str =
    "As in Spring, CORS fields of upstreams stay behind those of the policy; by default the policy's replace them.";

/// CORS: Spring keeps the fields of upstreams, and reads a text of `metadata.cors` as one name.
fn cors(root: &mut Node, explicit: &mut Explicit, diagnostics: &mut Diagnostics) {
    let mut has_policy = ["globalcors", "cors"].iter().any(|section| find(root, &[section]).is_some());
    if let Some(NodeKind::Map(policies)) =
        find(root, &["globalcors", "cors-configurations"]).map(|policies| &mut policies.kind)
    {
        policies.iter_mut().for_each(|(_, policy)| credentials(policy, explicit, diagnostics));
    }
    if let Some(NodeKind::Seq(routes)) = find(root, &["routes"]).map(|routes| &mut routes.kind) {
        for route in routes {
            has_policy |= find(route, &["cors"]).is_some();
            if let Some(policy) = find(route, &["metadata", "cors"]) {
                has_policy = true;
                report_lists(policy, diagnostics);
                credentials(policy, explicit, diagnostics);
            }
        }
    }
    if has_policy {
        explicit.add_missing(root, &["globalcors", "keep-upstream-headers"], "true", CORS_REASON);
    }
}

/// Reports texts with commas: a list here, one name in Spring.
fn report_lists(policy: &Node, diagnostics: &mut Diagnostics) {
    for (_, value) in policy.entries().unwrap_or_default().iter().filter(|(key, _)| CORS_LISTS.contains(&key.as_str()))
    {
        if let Some(text) = value.scalar().filter(|text| text.contains(',')) {
            diagnostics
                .warn(value.span, format!("Spring reads `{text}` as one name; here it is a list"))
                .help("write a list: `[a, b]`");
        }
    }
}

const NO_ORIGIN: &str = "Was `*`, which excludes credentials: Spring answers 500 since Spring Boot 2.4.";

/// Takes `*` from the origins of a policy with credentials. Spring Boot up to 2.3 lets every site read responses with the
/// cookies of its visitors; later ones answer each request of these paths with 500, so no file in use relies on that.
fn credentials(policy: &mut Node, explicit: &mut Explicit, diagnostics: &mut Diagnostics) {
    let allows_credentials = policy.step("allowCredentials").is_some_and(|node| node.is_text("true"));
    let NodeKind::Map(entries) = &mut policy.kind else { return };
    let origins = entries.iter_mut().find(|(key, _)| allows_credentials && same_name(key, "allowedOrigins"));
    let Some((_, origins)) = origins.filter(|(_, origins)| has_star(origins)) else { return };
    diagnostics
        .warn(origins.span, "`*` with credentials allows no origin: since Spring Boot 2.4, Spring answers 500 to all requests of these paths; here cross-origin ones get 403")
        .help("list the origins, such as `https://example.com`; `allowedOriginPatterns: \"*\"` lets every site read responses with the cookies of its visitors");
    explicit.explain(origins.span, NO_ORIGIN);
    let is_listed = |text: &str| text != "*";
    match &mut origins.kind {
        NodeKind::Seq(items) => items.retain(|item| item.scalar().is_none_or(|text| is_listed(text.trim()))),
        NodeKind::Scalar(text) => {
            let span = origins.span;
            let listed = text.split(',').map(str::trim).filter(|origin| is_listed(origin));
            let listed = listed.map(|origin| Node { span, kind: NodeKind::Scalar(origin.to_owned()) });
            origins.kind = NodeKind::Seq(listed.collect());
        }
        _ => {}
    }
}

/// Returns true for a list, or a text with commas, that has `*`.
fn has_star(origins: &Node) -> bool {
    let is_star = |text: &str| text.split(',').any(|origin| origin.trim() == "*");
    match &origins.kind {
        NodeKind::Seq(items) => items.iter().filter_map(Node::scalar).any(is_star),
        _ => origins.scalar().is_some_and(is_star),
    }
}

const PROXIES_REASON: &str = "As in Spring, untrusted addresses are not forwarded, including those of clients.";

/// Forwarded addresses: behind trusted proxies, Spring forwards only theirs.
fn proxies(root: &mut Node, explicit: &mut Explicit, diagnostics: &mut Diagnostics) {
    let Some(proxies) = find(root, &["trusted-proxies"]).map(|proxies| proxies.span) else { return };
    let is_added = explicit.add_missing(root, &["x-forwarded", "trusted-only"], "true", PROXIES_REASON);
    let mut is_on = |path: &[&str]| find(root, path).and_then(|node| node.scalar()) != Some("false");
    let appends = ["enabled", "for-enabled", "for-append"].iter().all(|key| is_on(&["x-forwarded", key]));
    if is_added && (appends || is_on(&["forwarded", "enabled"])) {
        diagnostics
            .note(proxies.key(), "as in Spring, untrusted addresses are not forwarded, including those of clients")
            .help("`x-forwarded.trusted-only: false` forwards all addresses from a trusted proxy");
    }
}

/// TLS to Eureka, which Spring enables only if the file says so.
fn eureka(root: &mut Node, diagnostics: &mut Diagnostics) {
    let Some(client) = find(root, &["eureka", "client"]) else { return };
    if client.step("tls").is_some_and(has_only_stores) {
        let message = "the stores have no effect without `enabled: true`, as in Spring".to_owned();
        ignore(client, "tls", message, "add `enabled: true` here", diagnostics);
    }
}

/// Returns true for a section with the keys of Spring Cloud alone, at least one, and without `enabled`.
fn has_only_stores(tls: &Node) -> bool {
    let entries = tls.entries().unwrap_or_default();
    let is_of_store = |key: &str| {
        let key = canonical(key);
        key.starts_with("keystore") || key.starts_with("truststore") || key == "keypassword"
    };
    !entries.is_empty() && entries.iter().all(|(key, _)| is_of_store(key))
}

/// Zones: in Spring, services prefer a zone only if their `configurations` say so.
fn zones(root: &mut Node, explicit: &mut Explicit, diagnostics: &mut Diagnostics) {
    if find(root, &["loadbalancer", "zone-scope"]).is_some() {
        return;
    }
    if find(root, &["loadbalancer"]).is_some_and(|section| selects_zones(section)) {
        let own_zone = find(root, &["eureka", "instance", "metadata-map", "zone"]).and_then(|zone| zone.scalar());
        if let Some(zone) = own_zone.map(str::to_owned) {
            let reason = "As in Spring, the zone of `eureka.instance.metadata-map`.";
            explicit.add_missing(root, &["loadbalancer", "zone"], &zone, reason);
        }
        let reason = "As in Spring; Tollgate's default is `all`.";
        explicit.add_missing(root, &["loadbalancer", "zone-scope"], "configured", reason);
    } else if let Some(zone) = find(root, &["loadbalancer", "zone"]).filter(|zone| zone.scalar().is_some()) {
        diagnostics
            .note(
                zone.span.key(),
                "`loadbalancer.zone` has no effect without `configurations: zone-preference`, as in Spring",
            )
            .ineffective()
            .help("add `spring.cloud.loadbalancer.configurations: zone-preference`");
        zone.kind = NodeKind::Null;
    }
}

/// Returns true if the services of `section`, or one of its clients, prefer a zone.
fn selects_zones(section: &Node) -> bool {
    let is_zoned =
        |node: &Node| node.step("configurations").and_then(Node::scalar).map(str::trim) == Some("zone-preference");
    let clients = section.step("clients").and_then(Node::entries).unwrap_or_default();
    is_zoned(section) || clients.iter().any(|(_, client)| is_zoned(client))
}
