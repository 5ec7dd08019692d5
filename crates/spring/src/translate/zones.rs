//! Zones: in Spring, services prefer a zone only if their `configurations` say so.

use crate::translate::Explicit;
use crate::tree::find;
use tollgate_document::diagnostics::Diagnostics;
use tollgate_document::yaml::{Node, NodeKind};

pub(super) fn translate(root: &mut Node, explicit: &mut Explicit, diagnostics: &mut Diagnostics) {
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
    let clients = section.step("clients").map(|clients| &clients.kind);
    is_zoned(section)
        || matches!(clients, Some(NodeKind::Map(clients)) if clients.iter().any(|(_, client)| is_zoned(client)))
}
