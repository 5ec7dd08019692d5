//! Lookups of endpoints in DNS.

use std::net::IpAddr;
use std::pin::Pin;
use std::time::Instant;

use hickory_resolver::config::{LookupIpStrategy, NameServerConfig, ResolverConfig};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::{RData, RecordType};
use hickory_resolver::{Resolver, TokioResolver};
use thiserror::Error;

use tollgate_config::{Dns, DnsQuery, DnsServer, EndpointAddress, ListedEndpoint, Records};

/// Error of a lookup.
#[derive(Debug, Error)]
pub enum LookupError {
    /// The resolver failed.
    #[error("lookup failed")]
    Failed(#[from] NetError),
    /// The response has no records of the requested type.
    #[error("the name has no such records")]
    NoRecords,
}

/// Endpoints discovered by a lookup, with their expiry.
#[derive(Debug, PartialEq, Eq)]
pub struct DiscoveredEndpoints {
    /// Endpoints, sorted by address.
    pub endpoints: Vec<ListedEndpoint>,
    /// Moment at which the first of the records expires.
    pub valid_until: Instant,
}

/// Future of a lookup. It is boxed, so that this crate compiles the code of the resolver.
pub type Lookup<'a> = Pin<Box<dyn Future<Output = Result<DiscoveredEndpoints, LookupError>> + 'a>>;

/// Looks up the endpoints of `query` once.
///
/// # Errors
/// The lookup failed, or discovered nothing.
pub fn look_up<'a>(query: &'a DnsQuery, dns: &'a Dns) -> Lookup<'a> {
    Box::pin(find(query, dns))
}

async fn find(query: &DnsQuery, dns: &Dns) -> Result<DiscoveredEndpoints, LookupError> {
    // Created for each lookup, because the system's files may change.
    let resolver = resolver(dns)?;
    let mut discovered = match query.records.0 {
        Records::A => addresses(&resolver, query, RecordType::A).await?,
        Records::Aaaa => addresses(&resolver, query, RecordType::AAAA).await?,
        Records::Any => {
            let ipv4 = addresses(&resolver, query, RecordType::A).await;
            let ipv6 = addresses(&resolver, query, RecordType::AAAA).await;
            match (ipv4, ipv6) {
                (Ok(ipv4), Ok(ipv6)) => DiscoveredEndpoints {
                    endpoints: ipv4.endpoints.into_iter().chain(ipv6.endpoints).collect(),
                    valid_until: ipv4.valid_until.min(ipv6.valid_until),
                },
                (ipv4, ipv6) => ipv4.or(ipv6)?,
            }
        }
        Records::Srv => services(&resolver, query).await?,
    };
    if discovered.endpoints.is_empty() {
        return Err(LookupError::NoRecords);
    }
    discovered.endpoints.sort_by(|one, other| one.address.cmp(&other.address));
    discovered.endpoints.dedup_by(|one, other| one.address == other.address);
    Ok(discovered)
}

fn resolver(dns: &Dns) -> Result<TokioResolver, NetError> {
    let mut builder = if dns.server.is_empty() {
        Resolver::builder_tokio()?
    } else {
        let servers = dns.server.iter().map(|DnsServer(address)| {
            let mut server = NameServerConfig::udp_and_tcp(address.ip());
            server.connections.iter_mut().for_each(|connection| connection.port = address.port());
            server
        });
        let config = ResolverConfig::from_parts(None, Vec::new(), servers.collect());
        Resolver::builder_with_config(config, TokioRuntimeProvider::default())
    };
    let options = builder.options_mut();
    options.timeout = dns.timeout.get();
    // A lookup happens only when the previous records have expired or a refresh is due.
    options.cache_size = 0;
    options.ip_strategy = LookupIpStrategy::Ipv4thenIpv6;
    builder.build()
}

async fn addresses(
    resolver: &TokioResolver,
    query: &DnsQuery,
    records: RecordType,
) -> Result<DiscoveredEndpoints, LookupError> {
    let lookup = resolver.lookup(query.name(), records).await?;
    let ips = lookup.answers().iter().filter_map(|record| match &record.data {
        RData::A(address) => Some(IpAddr::V4(address.0)),
        RData::AAAA(address) => Some(IpAddr::V6(address.0)),
        _ => None,
    });
    let endpoints = ips.map(|ip| ListedEndpoint {
        address: address(query, ip, query.port(), query.name()),
        weight: 1,
        priority: 0,
    });
    Ok(DiscoveredEndpoints { endpoints: endpoints.collect(), valid_until: lookup.valid_until() })
}

/// Looks up SRV records (RFC 2782) and the addresses of their targets.
async fn services(resolver: &TokioResolver, query: &DnsQuery) -> Result<DiscoveredEndpoints, LookupError> {
    let records = resolver.lookup(query.name(), RecordType::SRV).await?;
    let mut discovered = DiscoveredEndpoints { endpoints: Vec::new(), valid_until: records.valid_until() };
    let mut failure = None;
    for record in records.answers() {
        let RData::SRV(service) = &record.data else { continue };
        // The root as target means that the service does not exist.
        if service.target.is_root() {
            continue;
        }
        let ips = match resolver.lookup_ip(service.target.clone()).await {
            Ok(ips) => ips,
            Err(error) => {
                failure = Some(error);
                continue;
            }
        };
        discovered.valid_until = discovered.valid_until.min(ips.valid_until());
        let name = service.target.to_utf8();
        let name = name.trim_end_matches('.');
        discovered.endpoints.extend(ips.iter().map(|ip| ListedEndpoint {
            address: address(query, ip, service.port, name),
            weight: weight(service.weight),
            priority: service.priority,
        }));
    }
    match failure {
        Some(error) if discovered.endpoints.is_empty() => Err(error.into()),
        _ => Ok(discovered),
    }
}

/// Scales the weight of an SRV record. Weight 0 must have "a very small chance" beside other weights (RFC 2782), and
/// equal chances among records of weight 0.
fn weight(weight: u16) -> u32 {
    (u32::from(weight) * 100).max(1)
}

fn address(query: &DnsQuery, ip: IpAddr, port: u16, name: &str) -> EndpointAddress {
    EndpointAddress { scheme: query.scheme.0, host: ip.to_string(), port, name: name.to_owned() }
}
