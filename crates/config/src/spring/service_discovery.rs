//! Settings of Spring Cloud that name service instances: `spring.cloud.discovery` and `spring.cloud.loadbalancer`.

use crate::diagnostics::Diagnostics;
use crate::source::dotted;
use crate::spring::tree::{find, take};
use crate::yaml::key::canonical;
use crate::yaml::{Node, NodeKind};

/// Moves `spring.cloud.discovery` and `spring.cloud.loadbalancer` to the top level. Reports registries, which are not
/// supported.
pub(super) fn move_to_top_level(whole: &mut Node, result: &mut Node, diagnostics: &mut Diagnostics) {
    for section in ["discovery", "loadbalancer"] {
        if let Some(node) = take(whole, &["spring", "cloud", section]) {
            let at = node.span;
            dotted::merge(result, Node { span: at, kind: NodeKind::Map(vec![(section.to_owned(), node)]) });
        }
    }
    for path in REGISTRIES {
        let name = path.join(".");
        if find(whole, path).is_some_and(|node| !is_off(node))
            && let Some(node) = take(whole, path)
        {
            diagnostics.note(node.span.key(), format!("`{name}` is a registry, which the gateway does not use")).help(
                "use DNS: `upstreams: {orders: {dns: {name: orders.internal, port: 8080}}}`, \
                 then `uri: lb://orders`; Consul and Kubernetes answer DNS themselves",
            );
        }
    }
}

/// Sections of service registries.
const REGISTRIES: &[&[&str]] = &[
    &["eureka"],
    &["spring", "cloud", "consul"],
    &["spring", "cloud", "kubernetes"],
    &["spring", "cloud", "zookeeper"],
    &["spring", "cloud", "nacos"],
];

/// Returns true if a section disables itself.
fn is_off(node: &Node) -> bool {
    let is_false = |node: &Node| node.scalar().is_some_and(|text| text.eq_ignore_ascii_case("false"));
    match &node.kind {
        NodeKind::Map(entries) => entries.iter().any(|(key, value)| match canonical(key).as_str() {
            "enabled" => is_false(value),
            "client" | "discovery" => is_off(value),
            _ => false,
        }),
        _ => false,
    }
}
