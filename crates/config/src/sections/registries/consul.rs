//! `consul`: Consul as a registry.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::de::{Flag, Metadata, Or, PositiveTime, Ranged, Spanned, Subtree, Time, secs};
use crate::diagnostics::Diagnostics;
use crate::sections::non_blank_text;
use crate::sections::registries::registration::{CheckedRegistry, InstanceKeys, RegisteredInstance, instance};
use crate::sections::registries::server::{self, RegistryServer, Secret};
#[cfg(test)]
use crate::sections::tls::client::RawClientTls;
use crate::sections::tls::client::Tls;

/// Consul as a registry of `lb://` names.
#[section]
pub(crate) struct RawConsul {
    /// Enables the registry. Default true if there is a `consul` section.
    enabled: Option<bool>,
    /// Host of a Consul agent. Default `localhost`.
    host: Option<Spanned<String>>,
    /// Port of the agent's HTTP API.
    port: Option<Spanned<Or<u16, 8500>>>,
    /// `http` or `https`. Default `http`.
    scheme: Option<Spanned<String>>,
    /// Start of the path of each request to the agent. Default: none.
    path: Option<Spanned<String>>,
    /// ACL token. Default: none.
    token: Option<Spanned<String>>,
    /// TLS to the agent, by files in PEM or stores in PKCS#12.
    #[cfg_attr(test, schemars(with = "Option<RawClientTls>"))]
    tls: Option<Subtree>,
    /// Lookup of services.
    discovery: RawConsulDiscovery,
}

/// Lookup of services in Consul.
#[section]
pub(crate) struct RawConsulDiscovery {
    /// Enables the lookup.
    enabled: Flag<true>,
    /// ACL token, instead of `consul.token`. Default: none.
    acl_token: Option<Spanned<String>>,
    /// Asks for instances whose checks all pass; `false` includes those with a warning.
    query_passing: Flag<true>,
    /// Tag that instances must have. Default: none.
    default_query_tag: Option<Spanned<String>>,
    /// Tags that instances must have, by service. Default: none.
    server_list_query_tags: BTreeMap<String, Spanned<String>>,
    /// Data center. Default: that of the agent.
    datacenter: Option<Spanned<String>>,
    /// Data centers by service. Default: none.
    datacenters: BTreeMap<String, Spanned<String>>,
    /// Metadata key with the zone of an instance. Default `zone`.
    default_zone_metadata_name: Option<String>,
    /// Longest time that Consul may hold a query open.
    wait: Or<Ranged<Time, 1, { secs(600) }>, { secs(30) }>,
    /// Registries of a lower number come first; equal ones in the order of the file.
    order: Or<i32, 0>,
    /// Registers the gateway itself, with a check by TTL. Default false.
    register: Option<Spanned<bool>>,
    /// Name under which the gateway registers. Default: `spring.application.name`, in a Spring file.
    service_name: Option<Spanned<String>>,
    /// Id of the gateway's instance. Default: its address, service and port.
    instance_id: Option<Spanned<String>>,
    /// Host of the gateway. Default: the address from which it reaches the agent.
    #[serde(alias = "ip-address")]
    hostname: Option<Spanned<String>>,
    /// Port of the gateway. Default: that of the listener for traffic.
    #[serde(rename = "port")]
    own_port: Option<u16>,
    /// Tags of the gateway's instance. Default: none.
    tags: Vec<Spanned<String>>,
    /// Zone of the gateway's instance, as metadata under `default-zone-metadata-name`. Default: none.
    instance_zone: Option<Spanned<String>>,
    /// Group of the gateway's instance, as metadata under `group`. Default: none.
    instance_group: Option<Spanned<String>>,
    /// Metadata of the gateway's instance. Default: none.
    metadata: Metadata,
    /// Heartbeats of the gateway's instance.
    heartbeat: RawConsulHeartbeat,
}

/// Heartbeats of the gateway's instance.
#[section]
pub(crate) struct RawConsulHeartbeat {
    /// Time without a heartbeat after which the check is critical; heartbeats are sent three times as often.
    ttl: Or<PositiveTime, { secs(30) }>,
}

/// Consul as a registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Consul {
    /// The agent.
    pub server: RegistryServer,
    /// TLS to the agent.
    pub tls: Tls,
    /// ACL token.
    pub token: Option<Secret>,
    /// True to ask only for instances whose checks all pass.
    pub passing: bool,
    /// Tag that instances must have.
    pub tag: Option<String>,
    /// The same by service.
    pub tags: BTreeMap<String, String>,
    /// Data center; `None`: that of the agent.
    pub datacenter: Option<String>,
    /// The same by service.
    pub datacenters: BTreeMap<String, String>,
    /// Metadata key with the zone of an instance.
    pub zone_key: String,
    /// Longest time that Consul may hold a query open.
    pub wait: Duration,
}

impl RawConsulDiscovery {
    fn zone_key(&self) -> &str {
        self.default_zone_metadata_name.as_deref().unwrap_or("zone")
    }
}

/// Returns the gateway as an instance; `None` if the file does not register it, or after an error.
fn registered(discovery: &RawConsulDiscovery, diagnostics: &mut Diagnostics) -> Option<RegisteredInstance> {
    let register = discovery.register.filter(|register| register.value)?;
    let lease = discovery.heartbeat.ttl.get();
    let keys = InstanceKeys {
        name_key: "consul.discovery.service-name",
        name: discovery.service_name.as_ref(),
        id: discovery.instance_id.as_ref(),
        host: discovery.hostname.as_ref(),
        port: discovery.own_port,
        metadata: &discovery.metadata,
        heartbeat: lease / 3,
        lease,
        at: register.span.key(),
    };
    let mut instance = instance(keys, diagnostics)?;
    let zone = (discovery.zone_key(), &discovery.instance_zone);
    for (key, text) in [zone, ("group", &discovery.instance_group)] {
        if let Some(text) = non_blank_text(text.as_ref()) {
            instance.metadata.insert(key.to_owned(), text.to_owned());
        }
    }
    instance.tags = discovery.tags.iter().map(|tag| tag.value.trim().to_owned()).collect();
    Some(instance)
}

/// Checks `consul`. Returns `None` if it is off, or after an error.
pub(super) fn check(section: &Spanned<RawConsul>, diagnostics: &mut Diagnostics) -> Option<CheckedRegistry<Consul>> {
    let (raw, discovery) = (&section.value, &section.value.discovery);
    if raw.enabled == Some(false) || !discovery.enabled.get() {
        return None;
    }
    let server = agent(section, diagnostics)?;
    let tls = server::tls_of_consul(raw.tls.as_ref(), diagnostics)?;
    let token = server::token(&[&discovery.acl_token, &raw.token], "an ACL token", diagnostics);
    let text = |text: &Option<Spanned<String>>| non_blank_text(text.as_ref()).map(str::to_owned);
    let by_service = |map: &BTreeMap<String, Spanned<String>>| {
        map.iter().map(|(name, text)| (name.clone(), text.value.trim().to_owned())).collect()
    };
    let consul = Consul {
        server,
        tls,
        token,
        passing: discovery.query_passing.get(),
        tag: text(&discovery.default_query_tag),
        tags: by_service(&discovery.server_list_query_tags),
        datacenter: text(&discovery.datacenter),
        datacenters: by_service(&discovery.datacenters),
        zone_key: discovery.zone_key().to_owned(),
        wait: discovery.wait.get(),
    };
    Some(CheckedRegistry {
        rank: (discovery.order.get(), section.span.node),
        registry: consul,
        is_looked_up: true,
        instance: registered(discovery, diagnostics),
    })
}

/// Returns the agent. Spring also takes `scheme://host` as `host`.
fn agent(section: &Spanned<RawConsul>, diagnostics: &mut Diagnostics) -> Option<RegistryServer> {
    let raw = &section.value;
    let host = non_blank_text(raw.host.as_ref()).unwrap_or("localhost");
    let at = raw.host.as_ref().map_or(section.span, |host| host.span);
    let scheme = non_blank_text(raw.scheme.as_ref()).unwrap_or("http");
    if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
        let at = raw.scheme.as_ref().map_or(section.span, |scheme| scheme.span);
        diagnostics.error(at, format!("unknown scheme `{scheme}`")).help("write `http` or `https`");
        return None;
    }
    let (scheme, host) = host.split_once("://").unwrap_or((scheme, host));
    let host = if host.contains(':') && !host.starts_with('[') { format!("[{host}]") } else { host.to_owned() };
    let port = raw.port.map(|port| port.value).unwrap_or_default().get();
    let path =
        non_blank_text(raw.path.as_ref()).map_or(String::new(), |path| format!("/{}", path.trim_start_matches('/')));
    let url = Spanned { value: format!("{scheme}://{host}:{port}{path}"), span: at };
    server::check(&url, "consul.host", None, diagnostics)
}
