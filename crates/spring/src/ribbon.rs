//! `NAME.ribbon.listOfServers`: fixed servers of a service in Spring Cloud up to Hoxton, as instances of the simple client.

use crate::comma_lists::items;
use crate::tree::{Additions, find, is_empty, take};
use tollgate_document::yaml::key::same_name;
use tollgate_document::yaml::{Node, NodeKind};

/// Registries. If the file uses one, lists of servers count only for services that name [`FIXED`].
const REGISTRIES: [&str; 4] = ["consul", "eureka", "kubernetes", "nacos"];
/// End of the class that reads the servers from the file.
const FIXED: &str = "ConfigurationBasedServerList";
/// Section of the instances.
const INSTANCES: [&str; 4] = ["discovery", "client", "simple", "instances"];

/// Moves the lists of servers to `result`. Other settings of Ribbon stay.
pub(super) fn move_servers(whole: &mut Node, result: &mut Node) {
    let has_registry = REGISTRIES.iter().any(|name| find(result, &[name]).is_some());
    let NodeKind::Map(sections) = &mut whole.kind else { return };
    let mut result = Additions::to(result);
    for (name, section) in sections.iter_mut() {
        let class = find(section, &["ribbon", "NIWSServerListClassName"]);
        let is_fixed = class.and_then(|node| node.scalar()).is_some_and(|name| name.trim().ends_with(FIXED));
        let is_secure = find(section, &["ribbon", "IsSecure"]).is_some_and(|node| node.is_text("true"));
        let instances_path = [&INSTANCES[..], &[name.as_str()]].concat();
        if has_registry && !is_fixed || result.has(&instances_path) {
            continue;
        }
        let Some(list) = take(section, &["ribbon", "listOfServers"]) else { continue };
        let Some(servers) = list.scalar() else { continue };
        let scheme = if is_secure { "https" } else { "http" };
        let instances = items(servers).into_iter().filter(|server| !server.is_empty()).map(|server| {
            let uri = if server.contains("://") { server.to_owned() } else { format!("{scheme}://{server}") };
            let uri = Node { span: list.span.again(), kind: NodeKind::Scalar(uri) };
            Node { span: list.span.again(), kind: NodeKind::Map(vec![("uri".to_owned(), uri)]) }
        });
        let kind = NodeKind::Seq(instances.collect());
        result.add(&instances_path, Node { kind, span: list.span });
    }
    let is_ribbon = |section: &Node| section.step("ribbon").is_some();
    sections.retain(|(name, section)| same_name(name, "spring") || !is_ribbon(section) || !is_empty(section));
}
