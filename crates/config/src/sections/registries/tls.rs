//! `tls` of a registry, by our names and those of Spring's clients.

use crate::de::nodes::Nodes;
use crate::de::spanned::NodeRef;
use crate::diagnostics::Diagnostics;
use crate::sections::tls::client;
#[cfg(test)]
use crate::sections::tls::client::RawClientTls;
use crate::sections::tls::model::Tls;
use crate::yaml::key::canonical;
use crate::yaml::{Node, NodeKind};

/// TLS to a Eureka server.
#[cfg(test)]
#[derive(schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[expect(dead_code, reason = "describes a section in the schema of which one key is read by hand")]
pub(crate) struct RawEurekaTls {
    /// Enables these settings. Default true; in a Spring file, stores need `enabled: true`.
    enabled: Option<bool>,
    #[serde(flatten)]
    tls: RawClientTls,
}

/// Keys of `spring.cloud.consul.tls`, each with its name here. Consul's `key-store-path` is the store of trusted certificates.
const OF_CONSUL: [(&str, &str); 5] = [
    ("certificatepath", "key-store"),
    ("certificatepassword", "key-store-password"),
    ("keystoreinstancetype", "key-store-type"),
    ("keystorepath", "trust-store"),
    ("keystorepassword", "trust-store-password"),
];

/// Checks `tls` of a registry. Without it, certificates are verified with the system's trust store.
pub(super) fn check(node: Option<NodeRef>, nodes: &Nodes<'_>, diagnostics: &mut Diagnostics) -> Option<Tls> {
    match node.and_then(|node| nodes.get(node)) {
        Some(node) => client::check(node, diagnostics),
        None => Some(Tls::default()),
    }
}

/// Checks `consul.tls`, which may have the names of Spring Cloud Consul.
pub(super) fn of_consul(node: Option<NodeRef>, nodes: &Nodes<'_>, diagnostics: &mut Diagnostics) -> Option<Tls> {
    let Some(mut node) = node.and_then(|node| nodes.get(node)).cloned() else { return Some(Tls::default()) };
    if let NodeKind::Map(entries) = &mut node.kind
        && entries.iter().any(|(key, _)| matches!(canonical(key).as_str(), "keystorepath" | "certificatepath"))
    {
        for (key, _) in entries {
            if let Some((_, name)) = OF_CONSUL.iter().find(|(of_consul, _)| *of_consul == canonical(key)) {
                (*name).clone_into(key);
            }
        }
    }
    client::check(&node, diagnostics)
}

/// Checks `eureka.client.tls`, which `enabled` switches.
pub(super) fn of_eureka(node: Option<NodeRef>, nodes: &Nodes<'_>, diagnostics: &mut Diagnostics) -> Option<Tls> {
    let Some(mut node) = node.and_then(|node| nodes.get(node)).cloned() else { return Some(Tls::default()) };
    let enabled = take_enabled(&mut node);
    match enabled.as_ref().map(|enabled| (enabled.scalar().map(|text| text.trim().to_ascii_lowercase()), enabled.span))
    {
        Some((Some(text), _)) if matches!(text.as_str(), "false" | "no" | "off") => return Some(Tls::default()),
        Some((Some(text), _)) if matches!(text.as_str(), "true" | "yes" | "on") => {}
        Some((_, span)) => {
            diagnostics.error(span, "`enabled` must be true or false");
            return None;
        }
        None => {}
    }
    client::check(&node, diagnostics)
}

fn take_enabled(node: &mut Node) -> Option<Node> {
    let NodeKind::Map(entries) = &mut node.kind else { return None };
    let at = entries.iter().position(|(key, _)| canonical(key) == "enabled")?;
    Some(entries.remove(at).1)
}
