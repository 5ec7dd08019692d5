//! `discovery.locator` in a file that has no registry, or that disables the locator.

use crate::de::canonical;
use crate::de::nodes::Nodes;
use crate::diagnostics::{Diagnostics, Missing, Section};
use crate::sections::upstreams::spring::RawDiscovery;
use crate::spring::likely_registry;
use crate::yaml::{Node, NodeKind};

/// Facts about the file that the check of the locator needs.
pub(crate) struct Located<'l> {
    /// True if a registry is in use.
    pub(crate) has_registry: bool,
    /// All properties of the file.
    pub(crate) properties: &'l Node,
}

/// Reports `discovery.locator` without a registry, or if it is disabled. Returns true if a registry is missing.
pub(crate) fn check(
    discovery: &RawDiscovery,
    located: &Located<'_>,
    nodes: &Nodes<'_>,
    diagnostics: &mut Diagnostics,
) -> bool {
    let Some(node) = discovery.locator.and_then(|node| nodes.get(node)) else { return false };
    let NodeKind::Map(entries) = &node.kind else { return false };
    let enabled = entries.iter().find(|(key, _)| canonical(key) == "enabled").map(|(_, value)| value);
    let is_on = |value: &&Node| value.scalar().is_some_and(|text| text.trim().eq_ignore_ascii_case("true"));
    let is_off = discovery.enabled.as_ref().is_some_and(|enabled| !enabled.value);
    match enabled.filter(is_on) {
        None if enabled.is_some() && located.has_registry => false,
        None => {
            diagnostics
                .note(node.span.key(), "`discovery.locator` is disabled and has no effect")
                .ineffective()
                .help("remove it");
            false
        }
        Some(enabled) if is_off || !located.has_registry && likely_registry::is_switched_off(located.properties) => {
            diagnostics
                .warn(enabled.span, "`discovery.locator` makes no routes: the registries of the file are switched off")
                .help("switch one of them on, or set `enabled: false` here");
            false
        }
        Some(_) if located.has_registry || !discovery.client.simple.instances.is_empty() => false,
        Some(enabled) => {
            let value = likely_registry::proposal(located.properties);
            let missing =
                Missing { section: Section::Registry, name: "registry".to_owned(), value, comment: String::new() };
            diagnostics
                .error(enabled.span, "`discovery.locator` needs a registry, which the file does not name")
                .missing(missing)
                .help(
                    "the application gets it from elsewhere: `bootstrap.yml`, a config server, the environment or Java; add its \
                     address, such as `eureka.client.service-url.defaultZone`, `spring.cloud.nacos.discovery.server-addr` or \
                     `spring.cloud.consul.host`",
                );
            true
        }
    }
}
