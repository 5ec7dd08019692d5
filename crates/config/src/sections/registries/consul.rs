//! `consul`: Consul as a registry.

use std::collections::BTreeMap;
use std::mem::take;

use crate::de::{Flag, Metadata, OptionalText, Or, PositiveTime, Ranged, Spanned, Subtree, Time, secs};
use crate::diagnostics::Diagnostics;
use crate::sections::registries::registration::{CheckedRegistry, RegisteredInstance};
use crate::sections::registries::server::{self, RegistryServer, Token};
#[cfg(test)]
use crate::sections::tls::client::RawClientTls;
use crate::sections::tls::client::Tls;
use crate::yaml::Span;

/// Consul as a registry of `lb://` names.
#[section(Clone, PartialEq)]
pub struct Consul {
    /// Enables the registry. Default {} if there is a `consul` section.
    enabled: Flag<true>,
    /// Host of a Consul agent. Default `localhost`.
    host: OptionalText,
    /// Port of the agent's HTTP API.
    port: Or<u16, 8500>,
    /// `http` or `https`. Default `http`.
    scheme: OptionalText,
    /// Start of the path of each request to the agent. Default: none.
    path: OptionalText,
    /// ACL token. Default: none.
    token: Token,
    /// TLS to the agent, by files in PEM or stores in PKCS#12.
    #[cfg_attr(test, schemars(with = "Option<RawClientTls>"))]
    #[serde(rename = "tls")]
    tls_keys: Option<Subtree>,
    /// Lookup of services.
    pub discovery: ConsulDiscovery,
    /// The agent, from `host`, `port`, `scheme` and `path`.
    #[serde(skip)]
    pub server: RegistryServer,
    /// TLS to the agent, with the contents of its files.
    #[serde(skip)]
    pub tls: Tls,
}

/// Lookup of services in Consul.
#[section(Clone, PartialEq)]
pub struct ConsulDiscovery {
    /// Enables the lookup.
    enabled: Flag<true>,
    /// ACL token, instead of `consul.token`. Default: none.
    acl_token: Token,
    /// Asks for instances whose checks all pass; `false` includes those with a warning.
    pub query_passing: Flag<true>,
    /// Tag that instances must have. Default: none.
    default_query_tag: OptionalText,
    /// Tags that instances must have, by service. Default: none.
    server_list_query_tags: BTreeMap<String, Spanned<String>>,
    /// Data center. Default: that of the agent.
    pub datacenter: OptionalText,
    /// Data centers by service. Default: none.
    datacenters: BTreeMap<String, Spanned<String>>,
    /// Metadata key with the zone of an instance. Default `zone`.
    default_zone_metadata_name: OptionalText,
    /// Longest time that Consul may hold a query open.
    pub wait: Or<Ranged<Time, 1, { secs(600) }>, { secs(30) }>,
    /// Registries of a lower number come first; equal ones in the order of the file.
    order: Or<i32, 0>,
    #[serde(rename = "$tollgate::SameMap")]
    #[cfg_attr(test, schemars(flatten))]
    instance: ConsulInstance,
}

/// The gateway as an instance in Consul.
#[section(Clone, PartialEq)]
struct ConsulInstance {
    /// Registers the gateway itself, with a check by TTL. Default false.
    register: Option<Spanned<bool>>,
    /// Name under which the gateway registers. Default: `spring.application.name`, in a Spring file.
    service_name: OptionalText,
    /// Id of the gateway's instance. Default: its address, service and port.
    instance_id: OptionalText,
    /// Host of the gateway. Default: the address from which it reaches the agent.
    #[serde(alias = "ip-address")]
    hostname: OptionalText,
    /// Port of the gateway. Default: that of the listener for traffic.
    port: Option<u16>,
    /// Tags of the gateway's instance. Default: none.
    tags: Vec<Spanned<String>>,
    /// Zone of the gateway's instance, as metadata under `default-zone-metadata-name`. Default: none.
    instance_zone: OptionalText,
    /// Group of the gateway's instance, as metadata under `group`. Default: none.
    instance_group: OptionalText,
    /// Metadata of the gateway's instance. Default: none.
    metadata: Metadata,
    /// Heartbeats of the gateway's instance.
    heartbeat: ConsulHeartbeat,
}

/// Heartbeats of the gateway's instance.
#[section(Clone, PartialEq)]
struct ConsulHeartbeat {
    /// Time without a heartbeat after which the check is critical; heartbeats are sent three times as often.
    ttl: Or<PositiveTime, { secs(30) }>,
}

impl Consul {
    /// Returns the ACL token.
    pub fn token(&self) -> Option<&str> {
        self.token.get()
    }
}

impl ConsulDiscovery {
    /// Returns the tag that instances of `service` must have; `None`: all instances.
    pub fn tag(&self, service: &str) -> Option<&str> {
        of_service(&self.server_list_query_tags, service, &self.default_query_tag)
    }

    /// Returns the data center of `service`; `None`: that of the agent.
    pub fn datacenter_of(&self, service: &str) -> Option<&str> {
        of_service(&self.datacenters, service, &self.datacenter)
    }

    /// Returns the metadata key with the zone of an instance.
    pub fn zone_key(&self) -> &str {
        self.default_zone_metadata_name.as_str()
    }
}

/// Returns the text of `service`, or the one of all services; `None` if it is blank.
fn of_service<'a>(
    texts: &'a BTreeMap<String, Spanned<String>>,
    service: &str,
    of_all: &'a OptionalText,
) -> Option<&'a str> {
    let text = texts.get(service).map_or(of_all.as_str(), |text| text.value.trim());
    Some(text).filter(|text| !text.is_empty())
}

/// Checks `consul`. Returns `None` if it is off, or after an error.
pub(super) fn check(section: Spanned<Consul>, diagnostics: &mut Diagnostics) -> Option<CheckedRegistry<Consul>> {
    let Spanned { value: mut consul, span } = section;
    if !consul.enabled.get() || !consul.discovery.enabled.get() {
        return None;
    }
    consul.server = agent(&mut consul, span, diagnostics)?;
    consul.tls = server::tls(consul.tls_keys.take(), server::check_tls_of_consul, diagnostics)?;
    let (acl_token, instance) = (take(&mut consul.discovery.acl_token), take(&mut consul.discovery.instance));
    if acl_token.get().is_some() {
        consul.token = acl_token;
    }
    consul.token.check("an ACL token", diagnostics);
    consul.discovery.default_zone_metadata_name.fill("zone");
    Some(CheckedRegistry {
        rank: (take(&mut consul.discovery.order).get(), span.node),
        is_looked_up: true,
        instance: registered(instance, consul.discovery.zone_key(), diagnostics),
        registry: consul,
    })
}

/// Returns the gateway as an instance; `None` if the file does not register it, or after an error.
fn registered(section: ConsulInstance, zone_key: &str, diagnostics: &mut Diagnostics) -> Option<RegisteredInstance> {
    let register = section.register.filter(|register| register.value)?;
    let lease = section.heartbeat.ttl.get();
    let instance = RegisteredInstance {
        name: section.service_name,
        id: section.instance_id,
        host: section.hostname,
        port: section.port,
        tags: section.tags.into_iter().filter_map(|tag| OptionalText::from(tag).get().map(str::to_owned)).collect(),
        heartbeat: lease / 3,
        lease,
        ..RegisteredInstance::default()
    };
    let name_key = "consul.discovery.service-name";
    let mut instance = instance.check(name_key, &section.metadata, register.span.key(), diagnostics)?;
    for (key, text) in [(zone_key, section.instance_zone), ("group", section.instance_group)] {
        instance.metadata.extend(text.get().map(|text| (key.to_owned(), text.to_owned())));
    }
    Some(instance)
}

/// Returns the agent. Spring also takes `scheme://host` as `host`.
fn agent(consul: &mut Consul, section: Span, diagnostics: &mut Diagnostics) -> Option<RegistryServer> {
    let (configured_host, configured_scheme) = (take(&mut consul.host), take(&mut consul.scheme));
    let (port, path) = (take(&mut consul.port).get(), take(&mut consul.path));
    let host = configured_host.get().unwrap_or("localhost");
    let scheme = configured_scheme.get().unwrap_or("http");
    if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
        diagnostics
            .error(configured_scheme.span_or(section), format!("unknown scheme `{scheme}`"))
            .help("write `http` or `https`");
        return None;
    }
    let (scheme, host) = host.split_once("://").unwrap_or((scheme, host));
    let host = if host.contains(':') && !host.starts_with('[') { format!("[{host}]") } else { host.to_owned() };
    let path = path.get().map_or(String::new(), |path| format!("/{}", path.trim_start_matches('/')));
    let url = Spanned { value: format!("{scheme}://{host}:{port}{path}"), span: configured_host.span_or(section) };
    server::check(&url, "consul.host", None, diagnostics)
}
