//! `eureka`: Eureka as a registry.

use std::collections::BTreeMap;
use std::mem::take;
use std::num::NonZeroU32;
use std::time::Duration;

use crate::de::{Flag, Metadata, OptionalText, Or, Spanned, Subtree};
use crate::diagnostics::Diagnostics;
use crate::sections::registries::registration::{CheckedRegistry, RegisteredInstance};
#[cfg(test)]
use crate::sections::registries::server::RawEurekaTls;
use crate::sections::registries::server::{self, RegistryServer};
use crate::sections::tls::client::Tls;
use crate::yaml::Span;

/// Eureka as a registry of `lb://` names.
#[section(Clone, PartialEq)]
pub struct Eureka {
    /// Servers, and the fetching of their data.
    pub client: EurekaClient,
    /// The gateway as an instance.
    instance: EurekaInstance,
    /// Servers, in the order of use.
    #[serde(skip)]
    pub servers: Vec<RegistryServer>,
    /// TLS to the servers, with the contents of its files.
    #[serde(skip)]
    pub tls: Tls,
}

/// Servers, and the fetching of their data.
#[section(Clone, PartialEq)]
pub struct EurekaClient {
    /// Enables the registry. Default {} if there is a `eureka` section.
    enabled: Flag<true>,
    /// Enables the lookup of services.
    fetch_registry: Flag<true>,
    /// Registers the gateway itself. Default false.
    register_with_eureka: Option<Spanned<bool>>,
    /// Comma-separated URLs of servers by zone, with user and password if needed. `defaultZone` is for zones without an entry. Default `http://localhost:8761/eureka/`.
    service_url: BTreeMap<String, Spanned<String>>,
    /// Seconds between two fetches.
    registry_fetch_interval_seconds: Or<NonZeroU32, 30>,
    /// Fetches the whole registry each time. Default {}: only changes.
    pub disable_delta: Flag<false>,
    /// Leaves out instances whose status is not `UP`.
    pub filter_only_up_instances: Flag<true>,
    /// Region whose `availability-zones` apply. Default `us-east-1`.
    region: OptionalText,
    /// Comma-separated zones by region, the gateway's own first. Default: `defaultZone`.
    availability_zones: BTreeMap<String, Spanned<String>>,
    /// Asks the servers of the own zone first.
    prefer_same_zone_eureka: Flag<true>,
    /// Seconds for a connection to a server.
    eureka_server_connect_timeout_seconds: Or<NonZeroU32, 5>,
    /// Seconds for a response of a server, besides the connection.
    eureka_server_read_timeout_seconds: Or<NonZeroU32, 8>,
    /// Registries of a lower number come first; equal ones in the order of the file.
    order: Or<i32, 0>,
    /// TLS to the servers, by files in PEM or stores in PKCS#12.
    #[cfg_attr(test, schemars(with = "Option<RawEurekaTls>"))]
    #[serde(rename = "tls")]
    tls_keys: Option<Subtree>,
}

/// The gateway as an instance.
#[section(Clone, PartialEq)]
struct EurekaInstance {
    /// Metadata; `zone` is the zone that Spring's `zone-preference` keeps requests in. Default: none.
    metadata_map: Metadata,
    /// Application as which the gateway registers. Default: `spring.application.name`, in a Spring file.
    appname: OptionalText,
    /// Id of the gateway's instance. Default: its address, application and port.
    instance_id: OptionalText,
    /// Host of the gateway. Default: the address from which it reaches the server.
    hostname: OptionalText,
    /// Registers the address instead of `hostname`.
    prefer_ip_address: Flag<false>,
    /// Address of the gateway, instead of `hostname`. Default: the local address of connections to the server.
    ip_address: OptionalText,
    /// Port of the gateway. Default: that of the listener for traffic.
    non_secure_port: Option<u16>,
    /// Path of the gateway's home page. Default `/`.
    home_page_url_path: OptionalText,
    /// Path of its status page, on the management port. Default `/actuator/info`.
    status_page_url_path: OptionalText,
    /// Path of its health check, on the management port. Default `/actuator/health`.
    health_check_url_path: OptionalText,
    /// Seconds between two heartbeats.
    lease_renewal_interval_in_seconds: Or<NonZeroU32, 30>,
    /// Seconds without a heartbeat after which the server removes the gateway.
    lease_expiration_duration_in_seconds: Or<NonZeroU32, 90>,
}

/// Zone of servers for zones without an entry.
const DEFAULT_ZONE: &str = "defaultZone";
/// Server without a setting.
const DEFAULT_URL: &str = "http://localhost:8761/eureka/";

impl EurekaClient {
    /// Returns the interval of fetches.
    pub fn interval(&self) -> Duration {
        seconds(self.registry_fetch_interval_seconds)
    }

    /// Returns the timeout of a request, with its connection.
    pub fn timeout(&self) -> Duration {
        seconds(self.eureka_server_connect_timeout_seconds) + seconds(self.eureka_server_read_timeout_seconds)
    }
}

fn seconds<const DEFAULT: u64>(number: Or<NonZeroU32, DEFAULT>) -> Duration {
    Duration::from_secs(number.get().get().into())
}

/// Checks `eureka`. Returns `None` if it is off, or after an error.
pub(super) fn check(section: Spanned<Eureka>, diagnostics: &mut Diagnostics) -> Option<CheckedRegistry<Eureka>> {
    let Spanned { value: mut eureka, span } = section;
    let is_looked_up = take(&mut eureka.client.fetch_registry).get();
    let register = take(&mut eureka.client.register_with_eureka).filter(|register| register.value);
    if !eureka.client.enabled.get() || !is_looked_up && register.is_none() {
        return None;
    }
    eureka.servers = servers(&mut eureka.client, span, diagnostics)?;
    eureka.tls = server::tls(eureka.client.tls_keys.take(), server::check_tls_of_eureka, diagnostics)?;
    let instance = take(&mut eureka.instance);
    Some(CheckedRegistry {
        rank: (take(&mut eureka.client.order).get(), span.node),
        is_looked_up,
        instance: register.and_then(|at| registered(instance, at.span.key(), diagnostics)),
        registry: eureka,
    })
}

/// Returns the gateway as an instance, which the key at `at` registers. Reports errors.
fn registered(section: EurekaInstance, at: Span, diagnostics: &mut Diagnostics) -> Option<RegisteredInstance> {
    let host = if section.prefer_ip_address.get() { OptionalText::default() } else { section.hostname };
    let mut instance = RegisteredInstance {
        name: section.appname,
        id: section.instance_id,
        host: if section.ip_address.get().is_some() { section.ip_address } else { host },
        port: section.non_secure_port,
        heartbeat: seconds(section.lease_renewal_interval_in_seconds),
        lease: seconds(section.lease_expiration_duration_in_seconds),
        ..RegisteredInstance::default()
    };
    let configured_paths = [section.home_page_url_path, section.status_page_url_path, section.health_check_url_path];
    for (path, configured) in instance.paths.iter_mut().zip(configured_paths) {
        if let Some(configured) = configured.get() {
            *path = format!("/{}", configured.trim_start_matches('/'));
        }
    }
    instance.check("eureka.instance.appname", &section.metadata_map, at, diagnostics)
}

/// Returns the servers of all zones, those of the own zone first.
fn servers(client: &mut EurekaClient, section: Span, diagnostics: &mut Diagnostics) -> Option<Vec<RegistryServer>> {
    let (urls_by_zone, zones_by_region) = (take(&mut client.service_url), take(&mut client.availability_zones));
    let (region, prefers_own_zone) = (take(&mut client.region), take(&mut client.prefer_same_zone_eureka).get());
    let zones = zones_by_region.get(region.get().unwrap_or("us-east-1")).map_or("", |zones| &zones.value);
    let mut zones: Vec<&str> = zones.split(',').map(str::trim).filter(|zone| !zone.is_empty()).collect();
    if zones.is_empty() {
        zones.push(DEFAULT_ZONE);
    }
    if !prefers_own_zone && zones.len() > 1 {
        zones.rotate_left(1);
    }
    let default = Spanned { value: DEFAULT_URL.to_owned(), span: section };
    // An environment variable has no capital letters.
    let urls_of = |zone: &str| urls_by_zone.iter().find(|(name, _)| name.eq_ignore_ascii_case(zone));
    let mut servers = Vec::new();
    for zone in zones {
        let urls = urls_of(zone).or_else(|| urls_of(DEFAULT_ZONE)).map(|(_, urls)| urls);
        let urls = urls.filter(|urls| !urls.value.trim().is_empty());
        for url in server::listed(urls.unwrap_or(&default)) {
            let server = server::check(&url, "eureka.client.service-url", None, diagnostics)?;
            if !servers.contains(&server) {
                servers.push(server);
            }
        }
    }
    Some(servers)
}
