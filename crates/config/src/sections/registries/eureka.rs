//! `eureka`: Eureka as a registry.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use crate::de::{Flag, Metadata, Or, Spanned, Subtree};
use crate::diagnostics::Diagnostics;
use crate::sections::non_blank_text;
use crate::sections::registries::registration::{CheckedRegistry, InstanceKeys, RegisteredInstance, instance};
#[cfg(test)]
use crate::sections::registries::server::RawEurekaTls;
use crate::sections::registries::server::{self, RegistryServer};
use crate::sections::tls::client::Tls;
use crate::yaml::Span;

/// Eureka as a registry of `lb://` names.
#[section]
pub(crate) struct RawEureka {
    /// Servers, and the fetching of their data.
    client: RawEurekaClient,
    /// The gateway as an instance.
    instance: RawEurekaInstance,
}

/// Servers, and the fetching of their data.
#[section]
pub(crate) struct RawEurekaClient {
    /// Enables the registry. Default true if there is a `eureka` section.
    enabled: Option<bool>,
    /// Enables the lookup of services.
    fetch_registry: Flag<true>,
    /// Registers the gateway itself. Default false.
    register_with_eureka: Option<Spanned<bool>>,
    /// Comma-separated URLs of servers by zone, with user and password if needed. `defaultZone` is for zones without an entry. Default `http://localhost:8761/eureka/`.
    service_url: BTreeMap<String, Spanned<String>>,
    /// Seconds between two fetches.
    registry_fetch_interval_seconds: Or<NonZeroU32, 30>,
    /// Fetches the whole registry each time. Default {}: only changes.
    disable_delta: Flag<false>,
    /// Leaves out instances whose status is not `UP`.
    filter_only_up_instances: Flag<true>,
    /// Region whose `availability-zones` apply. Default `us-east-1`.
    region: Option<Spanned<String>>,
    /// Comma-separated zones by region, the gateway's own first. Default: `defaultZone`.
    availability_zones: BTreeMap<String, Spanned<String>>,
    /// Asks the servers of the own zone first. Default true.
    prefer_same_zone_eureka: Option<bool>,
    /// Seconds for a connection to a server.
    eureka_server_connect_timeout_seconds: Or<NonZeroU32, 5>,
    /// Seconds for a response of a server, besides the connection.
    eureka_server_read_timeout_seconds: Or<NonZeroU32, 8>,
    /// Registries of a lower number come first; equal ones in the order of the file.
    order: Or<i32, 0>,
    /// TLS to the servers, by files in PEM or stores in PKCS#12.
    #[cfg_attr(test, schemars(with = "Option<RawEurekaTls>"))]
    tls: Option<Subtree>,
}

/// The gateway as an instance.
#[section]
pub(crate) struct RawEurekaInstance {
    /// Metadata; `zone` is the zone that Spring's `zone-preference` keeps requests in. Default: none.
    metadata_map: Metadata,
    /// Application as which the gateway registers. Default: `spring.application.name`, in a Spring file.
    appname: Option<Spanned<String>>,
    /// Id of the gateway's instance. Default: its address, application and port.
    instance_id: Option<Spanned<String>>,
    /// Host of the gateway. Default: the address from which it reaches the server.
    hostname: Option<Spanned<String>>,
    /// Registers the address instead of `hostname`. Default false.
    prefer_ip_address: Option<bool>,
    /// Address of the gateway, instead of `hostname`. Default: the local address of connections to the server.
    ip_address: Option<Spanned<String>>,
    /// Port of the gateway. Default: that of the listener for traffic.
    non_secure_port: Option<u16>,
    /// Path of the gateway's home page. Default `/`.
    home_page_url_path: Option<Spanned<String>>,
    /// Path of its status page, on the management port. Default `/actuator/info`.
    status_page_url_path: Option<Spanned<String>>,
    /// Path of its health check, on the management port. Default `/actuator/health`.
    health_check_url_path: Option<Spanned<String>>,
    /// Seconds between two heartbeats.
    lease_renewal_interval_in_seconds: Or<NonZeroU32, 30>,
    /// Seconds without a heartbeat after which the server removes the gateway.
    lease_expiration_duration_in_seconds: Or<NonZeroU32, 90>,
}

/// Eureka as a registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Eureka {
    /// Servers, in the order of use.
    pub servers: Vec<RegistryServer>,
    /// TLS to the servers.
    pub tls: Tls,
    /// Interval of fetches.
    pub interval: Duration,
    /// True to fetch only changes.
    pub delta: bool,
    /// True to use only instances whose status is `UP`.
    pub only_up: bool,
    /// Timeout of a request.
    pub timeout: Duration,
}

/// Zone of servers for zones without an entry.
const DEFAULT_ZONE: &str = "defaultZone";
/// Server without a setting.
const DEFAULT_URL: &str = "http://localhost:8761/eureka/";

/// Checks `eureka`. Returns `None` if it is off, or after an error.
pub(super) fn check(section: &Spanned<RawEureka>, diagnostics: &mut Diagnostics) -> Option<CheckedRegistry<Eureka>> {
    let raw = &section.value.client;
    if raw.enabled == Some(false) {
        return None;
    }
    let register = raw.register_with_eureka.filter(|register| register.value);
    if !raw.fetch_registry.get() && register.is_none() {
        return None;
    }
    let eureka = Eureka {
        servers: servers(raw, section, diagnostics)?,
        tls: server::tls_of_eureka(raw.tls.as_ref(), diagnostics)?,
        interval: seconds(raw.registry_fetch_interval_seconds),
        delta: !raw.disable_delta.get(),
        only_up: raw.filter_only_up_instances.get(),
        timeout: seconds(raw.eureka_server_connect_timeout_seconds) + seconds(raw.eureka_server_read_timeout_seconds),
    };
    Some(CheckedRegistry {
        rank: (raw.order.get(), section.span.node),
        registry: eureka,
        is_looked_up: raw.fetch_registry.get(),
        instance: register.and_then(|at| registered(&section.value.instance, at.span.key(), diagnostics)),
    })
}

/// Returns the gateway as an instance, which the key at `at` registers. Reports errors.
fn registered(raw: &RawEurekaInstance, at: Span, diagnostics: &mut Diagnostics) -> Option<RegisteredInstance> {
    let keys = InstanceKeys {
        name_key: "eureka.instance.appname",
        name: raw.appname.as_ref(),
        id: raw.instance_id.as_ref(),
        host: raw.ip_address.as_ref().or(raw.hostname.as_ref().filter(|_| raw.prefer_ip_address != Some(true))),
        port: raw.non_secure_port,
        metadata: &raw.metadata_map,
        heartbeat: seconds(raw.lease_renewal_interval_in_seconds),
        lease: seconds(raw.lease_expiration_duration_in_seconds),
        at,
    };
    let mut instance = instance(keys, diagnostics)?;
    let given_paths = [&raw.home_page_url_path, &raw.status_page_url_path, &raw.health_check_url_path];
    for (path, written) in instance.paths.iter_mut().zip(given_paths) {
        if let Some(written) = non_blank_text(written.as_ref()) {
            *path = format!("/{}", written.trim_start_matches('/'));
        }
    }
    Some(instance)
}

fn seconds<const DEFAULT: u64>(number: Or<NonZeroU32, DEFAULT>) -> Duration {
    Duration::from_secs(number.get().get().into())
}

/// Returns the servers of all zones, those of the own zone first.
fn servers(
    raw: &RawEurekaClient,
    section: &Spanned<RawEureka>,
    diagnostics: &mut Diagnostics,
) -> Option<Vec<RegistryServer>> {
    let region = non_blank_text(raw.region.as_ref()).unwrap_or("us-east-1");
    let zones = non_blank_text(raw.availability_zones.get(region)).unwrap_or(DEFAULT_ZONE);
    let mut zones: Vec<&str> = zones.split(',').map(str::trim).filter(|zone| !zone.is_empty()).collect();
    if raw.prefer_same_zone_eureka == Some(false) && zones.len() > 1 {
        zones.rotate_left(1);
    }
    let default = Spanned { value: DEFAULT_URL.to_owned(), span: section.span };
    let of_zone = |zone: &str| {
        // An environment variable has no capital letters.
        let urls_of = |name: &str| raw.service_url.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        let urls = urls_of(zone).or_else(|| urls_of(DEFAULT_ZONE)).map(|(_, urls)| urls);
        urls.filter(|urls| !urls.value.trim().is_empty()).unwrap_or(&default).clone()
    };
    let mut servers = Vec::new();
    for urls in zones.iter().map(|zone| of_zone(zone)) {
        for url in server::listed(&urls) {
            let server = server::check(&url, "eureka.client.service-url", None, diagnostics)?;
            if !servers.contains(&server) {
                servers.push(server);
            }
        }
    }
    Some(servers)
}
