//! `nacos`: Nacos as a registry.

use std::time::Duration;

use crate::de::{Metadata, Number, Or, PositiveTime, Ranged, Spanned, Subtree, secs};
use crate::diagnostics::Diagnostics;
use crate::sections::non_blank_text;
use crate::sections::registries::registration::{CheckedRegistry, InstanceKeys, RegisteredInstance, instance};
use crate::sections::registries::server::{self, RegistryServer, Secret};
#[cfg(test)]
use crate::sections::tls::client::RawClientTls;
use crate::sections::tls::client::Tls;
use crate::sections::upstreams::endpoints::Scheme;

/// Nacos as a registry of `lb://` names, by its HTTP API.
#[section]
pub(crate) struct RawNacos {
    /// Comma-separated addresses of servers, `host:port`. Default `localhost:8848`.
    server_addr: Option<Spanned<String>>,
    /// User name. Default: none, no login.
    username: Option<Spanned<String>>,
    /// Password of `username`.
    password: Option<Spanned<String>>,
    /// Lookup of services.
    discovery: RawNacosDiscovery,
}

/// Lookup of services in Nacos.
#[section]
pub(crate) struct RawNacosDiscovery {
    /// Enables the registry. Default true if there is a `nacos` section.
    enabled: Option<bool>,
    /// Addresses of servers, instead of `nacos.server-addr`. Default: none.
    server_addr: Option<Spanned<String>>,
    /// User name, instead of `nacos.username`. Default: none.
    username: Option<Spanned<String>>,
    /// Password of this `username`.
    password: Option<Spanned<String>>,
    /// Id of the namespace. Default: `public`.
    namespace: Option<Spanned<String>>,
    /// Group of the services. Default `DEFAULT_GROUP`.
    group: Option<Spanned<String>>,
    /// Comma-separated clusters whose instances are used. Default: all.
    clusters: Option<Spanned<String>>,
    /// Uses `https` for servers without a scheme. Default false.
    secure: Option<bool>,
    /// Start of the path of each request. Default `/nacos`.
    context_path: Option<Spanned<String>>,
    /// Interval of lookups of each service.
    poll_interval: Or<PositiveTime, { secs(5) }>,
    /// Registries of a lower number come first; equal ones in the order of the file.
    order: Or<i32, 0>,
    /// TLS to the servers, by files in PEM or stores in PKCS#12.
    #[cfg_attr(test, schemars(with = "Option<RawClientTls>"))]
    tls: Option<Subtree>,
    /// Registers the gateway itself, as an ephemeral instance. Default false.
    register_enabled: Option<Spanned<bool>>,
    /// Name under which the gateway registers. Default: `spring.application.name`, in a Spring file.
    service: Option<Spanned<String>>,
    /// Address of the gateway. Default: the local address of connections to the server.
    ip: Option<Spanned<String>>,
    /// Port of the gateway. Default: that of the listener for traffic.
    port: Option<u16>,
    /// Weight of the gateway's instance. Default 1.
    weight: Option<Ranged<Number, 0, 10_000>>,
    /// Cluster of the gateway's instance. Default `DEFAULT`.
    cluster_name: Option<Spanned<String>>,
    /// Metadata of the gateway's instance. Default: none.
    metadata: Metadata,
    /// Interval of heartbeats.
    heart_beat_interval: Or<PositiveTime, { secs(5) }>,
    /// Time without a heartbeat after which the gateway is unhealthy.
    heart_beat_timeout: Or<PositiveTime, { secs(15) }>,
}

/// Nacos as a registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nacos {
    /// Servers, in the order of use.
    pub servers: Vec<RegistryServer>,
    /// TLS to the servers.
    pub tls: Tls,
    /// User name and password.
    pub login: Option<(String, Secret)>,
    /// Id of the namespace; empty: `public`.
    pub namespace: String,
    /// Group of the services.
    pub group: String,
    /// Comma-separated clusters; empty: all.
    pub clusters: String,
    /// Interval of lookups.
    pub interval: Duration,
}

/// Checks `nacos`. Returns `None` if it is off, or after an error.
pub(super) fn check(section: &Spanned<RawNacos>, diagnostics: &mut Diagnostics) -> Option<CheckedRegistry<Nacos>> {
    let (raw, discovery) = (&section.value, &section.value.discovery);
    if discovery.enabled == Some(false) {
        return None;
    }
    let (username, password) = match non_blank_text(discovery.username.as_ref()) {
        Some(username) => (Some(username), &discovery.password),
        None => (non_blank_text(raw.username.as_ref()), &raw.password),
    };
    let password = password.as_ref().map(|password| password.value.clone()).unwrap_or_default();
    let text = |text: &Option<Spanned<String>>| non_blank_text(text.as_ref()).unwrap_or_default().to_owned();
    let namespace = text(&discovery.namespace);
    let group = text(&discovery.group);
    let nacos = Nacos {
        servers: servers(section, diagnostics)?,
        tls: server::tls(discovery.tls.as_ref(), diagnostics)?,
        login: username.map(|username| (username.to_owned(), Secret(password))),
        namespace: if namespace == "public" { String::new() } else { namespace },
        group: if group.is_empty() { "DEFAULT_GROUP".to_owned() } else { group },
        clusters: text(&discovery.clusters),
        interval: discovery.poll_interval.get(),
    };
    Some(CheckedRegistry {
        rank: (discovery.order.get(), section.span.node),
        registry: nacos,
        is_looked_up: true,
        instance: registered(discovery, diagnostics),
    })
}

/// Returns the gateway as an instance; `None` if the file does not register it, or after an error.
fn registered(discovery: &RawNacosDiscovery, diagnostics: &mut Diagnostics) -> Option<RegisteredInstance> {
    let register = discovery.register_enabled.filter(|register| register.value)?;
    let keys = InstanceKeys {
        name_key: "nacos.discovery.service",
        name: discovery.service.as_ref(),
        id: None,
        host: discovery.ip.as_ref(),
        port: discovery.port,
        metadata: &discovery.metadata,
        heartbeat: discovery.heart_beat_interval.get(),
        lease: discovery.heart_beat_timeout.get(),
        at: register.span.key(),
    };
    let mut instance = instance(keys, diagnostics)?;
    if let Some(weight) = &discovery.weight {
        instance.weight = weight.get().to_string();
    }
    if let Some(cluster) = non_blank_text(discovery.cluster_name.as_ref()) {
        instance.cluster = cluster.to_owned();
    }
    Some(instance)
}

fn servers(section: &Spanned<RawNacos>, diagnostics: &mut Diagnostics) -> Option<Vec<RegistryServer>> {
    let (raw, discovery) = (&section.value, &section.value.discovery);
    let server_list = [&discovery.server_addr, &raw.server_addr]
        .into_iter()
        .flatten()
        .find(|list| non_blank_text(Some(list)).is_some());
    let default = Spanned { value: "localhost:8848".to_owned(), span: section.span };
    let context = non_blank_text(discovery.context_path.as_ref()).unwrap_or("nacos").trim_matches('/');
    let mut servers = Vec::new();
    for url in server::listed(server_list.unwrap_or(&default)) {
        let mut server = server::check(&url, "nacos.discovery.server-addr", Some(8848), diagnostics)?;
        if discovery.secure == Some(true) && !url.value.contains("://") {
            server.scheme = Scheme::Https;
        }
        if server.path.is_empty() && !context.is_empty() {
            server.path = format!("/{context}");
        }
        servers.push(server);
    }
    Some(servers)
}
