//! `NAME.ribbon.listOfServers`: fixed servers of a service in Spring Cloud up to Hoxton, as instances of the simple client.

use crate::source::dotted;
use crate::tree::{find, is_empty, take};
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
    for (name, section) in sections.iter_mut() {
        let text = |node: Option<&mut Node>| node.and_then(|node| node.scalar().map(str::to_owned)).unwrap_or_default();
        let is_fixed = text(find(section, &["ribbon", "NIWSServerListClassName"])).trim().ends_with(FIXED);
        let is_secure = text(find(section, &["ribbon", "IsSecure"])).trim().eq_ignore_ascii_case("true");
        let known = [&INSTANCES[..], &[name.as_str()]].concat();
        if has_registry && !is_fixed || find(result, &known).is_some() {
            continue;
        }
        let Some(list) = take(section, &["ribbon", "listOfServers"]) else { continue };
        let Some(servers) = list.scalar() else { continue };
        let scheme = if is_secure { "https" } else { "http" };
        let instances = split_list(servers).map(str::trim).filter(|server| !server.is_empty()).map(|server| {
            let uri = if server.contains("://") { server.to_owned() } else { format!("{scheme}://{server}") };
            let uri = Node { span: list.span.again(), kind: NodeKind::Scalar(uri) };
            Node { span: list.span.again(), kind: NodeKind::Map(vec![("uri".to_owned(), uri)]) }
        });
        let mut node = Node { kind: NodeKind::Seq(instances.collect()), span: list.span };
        for step in known.iter().rev() {
            node = Node { span: list.span.again(), kind: NodeKind::Map(vec![((*step).to_owned(), node)]) };
        }
        dotted::merge(result, node);
    }
    let is_ribbon = |section: &Node| section.step("ribbon").is_some();
    sections.retain(|(name, section)| same_name(name, "spring") || !is_ribbon(section) || !is_empty(section));
}

/// Splits a list at its commas, but not at those within a placeholder: `a:1,${HOSTS:b:1,c:1}`.
fn split_list(list: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_usize;
    list.split(move |letter| {
        match letter {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        letter == ',' && depth == 0
    })
}

#[cfg(test)]
mod tests {
    use super::split_list;

    #[test]
    fn commas_of_placeholders_separate_no_servers() {
        let servers: Vec<&str> = split_list("a:1,${HOSTS:b:1,${MORE:c:1,d:1}},e:1").collect();
        assert_eq!(servers, ["a:1", "${HOSTS:b:1,${MORE:c:1,d:1}}", "e:1"]);
        assert_eq!(split_list("a:1},b:2").count(), 2);
    }
}
