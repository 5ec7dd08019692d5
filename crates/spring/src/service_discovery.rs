//! Settings of Spring Cloud that name service instances: `spring.cloud.discovery`, `spring.cloud.loadbalancer` and the
//! registries.

use crate::source::imports::location::import_nodes;
use crate::tree::{add, find, is_empty, take};
use tollgate_document::diagnostics::Diagnostics;
use tollgate_document::yaml::Node;
use tollgate_document::yaml::key::canonical;

/// Sections of registries under `spring.cloud`, and their parts that concern no services.
const REGISTRIES: [(&str, &[&str]); 3] = [
    ("consul", &["config", "ribbon", "retry"]),
    ("nacos", &["config"]),
    ("kubernetes", &["config", "secrets", "reload", "leader", "ribbon", "loadbalancer", "discovery-server-url"]),
];

/// Section of a registry that is not supported.
const ZOOKEEPER: [&str; 3] = ["spring", "cloud", "zookeeper"];

/// Moves `spring.cloud.discovery`, `spring.cloud.loadbalancer` and the registries to the top level. Reports registries
/// that are not supported.
pub(super) fn move_to_top_level(whole: &mut Node, result: &mut Node, diagnostics: &mut Diagnostics) {
    for section in ["discovery", "loadbalancer"] {
        if let Some(node) = take(whole, &["spring", "cloud", section]) {
            add(result, &[section], node);
        }
    }
    for (name, others) in REGISTRIES {
        if find(whole, &["spring", "cloud", name]).is_none_or(|node| is_off(node)) {
            continue;
        }
        let Some(mut node) = take(whole, &["spring", "cloud", name]) else { continue };
        for other in others {
            if let Some(part) = take(&mut node, &[other])
                && *other == "config"
                && !is_off(&part)
            {
                diagnostics
                    .note(
                        part.span.key(),
                        format!("the configuration that `spring.cloud.{name}.config` names is not read"),
                    )
                    .help("if it has routes, export it to a file, and add that with `--config`");
            }
        }
        if !is_empty(&node) {
            add(result, &[name], node);
        }
    }
    if find(whole, &ZOOKEEPER).is_some_and(|node| !is_off(node))
        && let Some(node) = take(whole, &ZOOKEEPER)
    {
        diagnostics
            .note(node.span.key(), format!("`{}` is a registry that is not supported", ZOOKEEPER.join(".")))
            .help(
                "use DNS: `upstreams: {orders: {dns: {name: orders.internal, port: 8080}}}`, \
                 then `uri: lb://orders`; Kubernetes answers DNS itself",
            );
    }
}

/// Registration in a registry.
struct Switch {
    /// Key that switches it on.
    path: &'static [&'static str],
    /// Section of the instance.
    instance: &'static [&'static str],
    /// Keys of that section that only describe the instance, first the key of its name.
    keys: &'static [&'static str],
}

const REGISTRATIONS: [Switch; 3] = [
    Switch {
        path: &["consul", "discovery", "register"],
        instance: &["consul", "discovery"],
        keys: &[
            "service-name",
            "instance-id",
            "hostname",
            "ip-address",
            "port",
            "tags",
            "instance-zone",
            "instance-group",
            "metadata",
            "heartbeat",
        ],
    },
    Switch {
        path: &["eureka", "client", "register-with-eureka"],
        instance: &["eureka", "instance"],
        keys: &[
            "appname",
            "instance-id",
            "hostname",
            "ip-address",
            "prefer-ip-address",
            "non-secure-port",
            "home-page-url-path",
            "status-page-url-path",
            "health-check-url-path",
            "lease-renewal-interval-in-seconds",
            "lease-expiration-duration-in-seconds",
        ],
    },
    Switch {
        path: &["nacos", "discovery", "register-enabled"],
        instance: &["nacos", "discovery"],
        keys: &[
            "service",
            "ip",
            "port",
            "weight",
            "cluster-name",
            "metadata",
            "heart-beat-interval",
            "heart-beat-timeout",
        ],
    },
];

/// Sets the name under which the gateway registers, `spring.application.name`, in each registry with registration switched on.
/// In the others, the keys of the instance have no effect and are removed. If
/// `spring.cloud.service-registry.auto-registration.enabled` is false, registration is off everywhere. A name that is used is
/// removed, so that it is not reported as skipped.
pub(super) fn name_registrations(whole: &mut Node, result: &mut Node) {
    let auto = ["spring", "cloud", "service-registry", "auto-registration"];
    let is_auto = find(whole, &auto).is_none_or(|node| !is_off(node));
    let name = find(whole, &["spring", "application", "name"]).map(|node| node.clone());
    let mut is_used = false;
    for Switch { path, instance, keys } in REGISTRATIONS {
        let is_on = |node: &mut Node| node.scalar().is_some() && !node.is_text("false");
        if !is_auto || !find(result, path).is_some_and(is_on) {
            take(result, path);
            if let Some(section) = find(result, instance) {
                keys.iter().for_each(|key| drop(take(section, &[key])));
            }
            continue;
        }
        let key = [instance, &keys[..1]].concat();
        if let Some(name) = name.as_ref().filter(|_| find(result, &key).is_none()) {
            add(result, &key, name.clone());
            is_used = true;
        }
    }
    if is_used {
        take(whole, &["spring", "application", "name"]);
    }
}

/// Returns true if a section disables itself.
pub(super) fn is_off(node: &Node) -> bool {
    node.entries().unwrap_or_default().iter().any(|(key, value)| match canonical(key).as_str() {
        "enabled" => value.is_text("false"),
        "client" | "discovery" => is_off(value),
        _ => false,
    })
}

/// Registry with its section in a Spring file, the setting that suffices, and an example of its value.
struct Proposal {
    name: &'static str,
    key: &'static str,
    example: &'static str,
}

/// The most frequent one comes first.
const PROPOSALS: [Proposal; 4] = [
    Proposal { name: "eureka", key: "eureka.client.service-url.defaultZone", example: "http://localhost:8761/eureka/" },
    Proposal { name: "nacos", key: "spring.cloud.nacos.discovery.server-addr", example: "localhost:8848" },
    Proposal { name: "consul", key: "spring.cloud.consul.host", example: "localhost" },
    Proposal { name: "kubernetes", key: "spring.cloud.kubernetes.discovery.enabled", example: "\"true\"" },
];

/// Settings of Spring for services without a registry.
const WITHOUT: &str =
    "spring.cloud.discovery.client.simple.instances: {orders: [{uri: \"http://orders:8080\"}]} # without a registry";

/// Returns lines of an overlay: the settings of the registry that `properties` point to, or of the most frequent one, and those
/// of the others as comments.
pub fn proposal(properties: &Node) -> String {
    // Our own form has the section of the locator at the top.
    let is_own = properties.follow(&["discovery", "locator"]).is_some();
    let key = |key: &'static str| key.strip_prefix("spring.cloud.").filter(|_| is_own).unwrap_or(key);
    let likely = PROPOSALS.iter().position(|proposal| is_named(properties, proposal.name)).unwrap_or(0);
    let line = |proposal: &Proposal| format!("{}: {}", key(proposal.key), proposal.example);
    let mut lines = "# The registry that the application gets from elsewhere. Keep one of these lines:\n".to_owned();
    lines.push_str(&format!("{}\n", line(&PROPOSALS[likely])));
    for (_, other) in PROPOSALS.iter().enumerate().filter(|(at, _)| *at != likely) {
        lines.push_str(&format!("# {}\n", line(other)));
    }
    lines.push_str(&format!("# {}\n", key(WITHOUT)));
    lines
}

/// Returns true if `properties` switch a registry off.
pub fn is_switched_off(properties: &Node) -> bool {
    let sections = PROPOSALS.iter().filter_map(|proposal| section(properties, proposal.name));
    sections.into_iter().any(is_off)
}

fn section<'n>(properties: &'n Node, name: &str) -> Option<&'n Node> {
    if name == "eureka" { properties.step(name) } else { properties.follow(&["spring", "cloud", name]) }
}

/// Returns true if the application has settings of the registry for another purpose: `spring.cloud.nacos.config`.
fn is_named(properties: &Node, name: &str) -> bool {
    let prefix = format!("{name}:");
    let mut imports = import_nodes(properties).into_iter().flat_map(|(_, locations)| locations);
    section(properties, name).is_some() || imports.any(|location| location.contains(&prefix))
}
