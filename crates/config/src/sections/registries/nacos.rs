//! `nacos`: Nacos as a registry.

use std::mem::take;

use crate::de::{Flag, Metadata, Number, OptionalText, Or, PositiveTime, Ranged, Spanned, Subtree, secs};
use crate::diagnostics::Diagnostics;
use crate::sections::Secret;
use crate::sections::registries::registration::{CheckedRegistry, RegisteredInstance};
use crate::sections::registries::server::{self, RegistryServer};
#[cfg(test)]
use crate::sections::tls::client::RawClientTls;
use crate::sections::tls::client::{self, Tls};
use crate::sections::upstreams::endpoints::Scheme;
use crate::yaml::Span;

/// Nacos as a registry of `lb://` names, by its HTTP API.
#[section(Clone, PartialEq)]
pub struct Nacos {
    /// Comma-separated addresses of servers, `host:port`. Default `localhost:8848`.
    server_addr: OptionalText,
    /// User name. Default: none, no login.
    username: OptionalText,
    /// Password of `username`.
    password: Secret,
    /// Lookup of services.
    pub discovery: NacosDiscovery,
    /// Servers, in the order of use.
    #[serde(skip)]
    pub servers: Vec<RegistryServer>,
    /// TLS to the servers, with the contents of its files.
    #[serde(skip)]
    pub tls: Tls,
}

/// Lookup of services in Nacos.
#[section(Clone, PartialEq)]
pub struct NacosDiscovery {
    /// Enables the registry. Default {} if there is a `nacos` section.
    enabled: Flag<true>,
    /// Addresses of servers, instead of `nacos.server-addr`. Default: none.
    server_addr: OptionalText,
    /// User name, instead of `nacos.username`. Default: none.
    username: OptionalText,
    /// Password of this `username`.
    password: Secret,
    /// Id of the namespace. Default: `public`.
    namespace: OptionalText,
    /// Group of the services. Default `DEFAULT_GROUP`.
    group: OptionalText,
    /// Comma-separated clusters whose instances are used. Default: all.
    pub clusters: OptionalText,
    /// Uses `https` for servers without a scheme.
    secure: Flag<false>,
    /// Start of the path of each request. Default `/nacos`.
    context_path: OptionalText,
    /// Interval of lookups of each service.
    pub poll_interval: Or<PositiveTime, { secs(5) }>,
    /// Registries of a lower number come first; equal ones in the order of the file.
    order: Or<i32, 0>,
    /// TLS to the servers, by files in PEM or stores in PKCS#12.
    #[cfg_attr(test, schemars(with = "Option<RawClientTls>"))]
    #[serde(rename = "tls")]
    tls_keys: Option<Subtree>,
    #[serde(rename = "$tollgate::SameMap")]
    #[cfg_attr(test, schemars(flatten))]
    instance: NacosInstance,
}

/// The gateway as an instance in Nacos.
#[section(Clone, PartialEq)]
struct NacosInstance {
    /// Registers the gateway itself, as an ephemeral instance. Default false.
    register_enabled: Option<Spanned<bool>>,
    /// Name under which the gateway registers. Default: `spring.application.name`, in a Spring file.
    service: OptionalText,
    /// Address of the gateway. Default: the local address of connections to the server.
    ip: OptionalText,
    /// Port of the gateway. Default: that of the listener for traffic.
    port: Option<u16>,
    /// Weight of the gateway's instance.
    weight: Or<Ranged<Number, 0, 10_000>, 1>,
    /// Cluster of the gateway's instance. Default `DEFAULT`.
    cluster_name: OptionalText,
    /// Metadata of the gateway's instance. Default: none.
    metadata: Metadata,
    /// Interval of heartbeats.
    heart_beat_interval: Or<PositiveTime, { secs(5) }>,
    /// Time without a heartbeat after which the gateway is unhealthy.
    heart_beat_timeout: Or<PositiveTime, { secs(15) }>,
}

impl Nacos {
    /// Returns the user name and the password.
    pub fn login(&self) -> Option<(&str, &str)> {
        Some((self.username.get()?, &*self.password.0))
    }
}

impl NacosDiscovery {
    /// Returns the id of the namespace, as the API has it: that of `public` is empty.
    pub fn namespace(&self) -> &str {
        self.namespace.as_str()
    }

    /// Returns the group of the services.
    pub fn group(&self) -> &str {
        self.group.as_str()
    }
}

/// Checks `nacos`. Returns `None` if it is off, or after an error.
pub(super) fn check(section: Spanned<Nacos>, diagnostics: &mut Diagnostics) -> Option<CheckedRegistry<Nacos>> {
    let Spanned { value: mut nacos, span } = section;
    if !nacos.discovery.enabled.get() {
        return None;
    }
    nacos.servers = servers(&mut nacos, span, diagnostics)?;
    let discovery = &mut nacos.discovery;
    nacos.tls = server::tls(discovery.tls_keys.take(), client::check, diagnostics)?;
    let (instance, login) =
        (take(&mut discovery.instance), (take(&mut discovery.username), take(&mut discovery.password)));
    if login.0.get().is_some() {
        (nacos.username, nacos.password) = login;
    }
    if discovery.namespace.as_str() == "public" {
        discovery.namespace = OptionalText::default();
    }
    discovery.group.fill("DEFAULT_GROUP");
    Some(CheckedRegistry {
        rank: (take(&mut discovery.order).get(), span.node),
        is_looked_up: true,
        instance: registered(instance, diagnostics),
        registry: nacos,
    })
}

/// Returns the gateway as an instance; `None` if the file does not register it, or after an error.
fn registered(section: NacosInstance, diagnostics: &mut Diagnostics) -> Option<RegisteredInstance> {
    let register = section.register_enabled.filter(|register| register.value)?;
    let mut instance = RegisteredInstance {
        name: section.service,
        host: section.ip,
        port: section.port,
        weight: section.weight.get().to_string(),
        heartbeat: section.heart_beat_interval.get(),
        lease: section.heart_beat_timeout.get(),
        ..RegisteredInstance::default()
    };
    if let Some(cluster) = section.cluster_name.get() {
        instance.cluster = cluster.to_owned();
    }
    instance.check("nacos.discovery.service", &section.metadata, register.span.key(), diagnostics)
}

fn servers(nacos: &mut Nacos, section: Span, diagnostics: &mut Diagnostics) -> Option<Vec<RegistryServer>> {
    let discovery = &mut nacos.discovery;
    let (own_addresses, addresses) = (take(&mut discovery.server_addr), take(&mut nacos.server_addr));
    let (context_path, is_secure) = (take(&mut discovery.context_path), take(&mut discovery.secure).get());
    let default = Spanned { value: "localhost:8848".to_owned(), span: section };
    let addresses = own_addresses.spanned().or(addresses.spanned()).unwrap_or(&default);
    let context = context_path.get().unwrap_or("nacos").trim_matches('/');
    let mut servers = Vec::new();
    for url in server::listed(addresses) {
        let mut server = server::check(&url, "nacos.discovery.server-addr", Some(8848), diagnostics)?;
        if is_secure && !url.value.contains("://") {
            server.scheme = Scheme::Https;
        }
        if server.path.is_empty() && !context.is_empty() {
            server.path = format!("/{context}");
        }
        servers.push(server);
    }
    Some(servers)
}
