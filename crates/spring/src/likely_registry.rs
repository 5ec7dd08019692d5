//! Settings of a registry for a file that needs one and names none.

use crate::service_discovery::is_off;
use crate::source::imports::location::import_nodes;
use tollgate_document::yaml::Node;

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
