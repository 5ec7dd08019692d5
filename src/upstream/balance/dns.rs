//! Endpoints from DNS.
//!
//! A lookup is repeated when the time to live of its records expires, and after `refresh` at the latest. A failed or empty
//! lookup changes nothing: health checks and ejections decide whether the known endpoints work.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use hickory_resolver::config::{LookupIpStrategy, NameServerConfig, ResolverConfig};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::{RData, RecordType};
use hickory_resolver::{Resolver, TokioResolver};
use thiserror::Error;
use tokio::sync::oneshot;
use tokio::time::sleep;

use crate::upstream::balance::upstream::Upstream;
use tollgate_config::{Dns, DnsQuery, EndpointAddress, ListedEndpoint, Records};

/// Minimum time between two lookups, even if the records expire sooner.
const MIN_TTL: Duration = Duration::from_secs(1);
/// Pause after the first failed lookup. It doubles with each further failure, up to `refresh`.
const FIRST_RETRY: Duration = Duration::from_millis(500);

/// Error of a lookup.
#[derive(Debug, Error)]
enum LookupError {
    #[error("lookup failed")]
    Failed(#[from] NetError),
    #[error("the name has no such records")]
    NoRecords,
}

/// Endpoints found by a lookup, with their expiry.
#[derive(Debug, PartialEq, Eq)]
struct DiscoveredEndpoints {
    endpoints: Vec<ListedEndpoint>,
    valid_until: Instant,
}

/// Looks up the endpoints of `upstream` periodically. Sends `attempted` after the first lookup.
pub(super) async fn run(upstream: Arc<Upstream>, query: DnsQuery, dns: Dns, attempted: oneshot::Sender<()>) {
    let mut attempted = Some(attempted);
    let mut failures = 0_u32;
    loop {
        let pause = match look_up(&query, &dns).await {
            Ok(found) => {
                if failures > 0 {
                    tracing::info!(upstream = %upstream.name(), name = %query.name, "dns lookup succeeded again");
                }
                failures = 0;
                upstream.list(&found.endpoints);
                refresh_after(found.valid_until.saturating_duration_since(Instant::now()), query.refresh)
            }
            Err(error) => {
                upstream.stats().failed_lookups.fetch_add(1, Relaxed);
                if failures == 0 {
                    log_failure(&upstream, &query, &error);
                }
                failures = failures.saturating_add(1);
                FIRST_RETRY.saturating_mul(1 << (failures - 1).min(8)).min(query.refresh)
            }
        };
        if let Some(attempted) = attempted.take() {
            let _ = attempted.send(());
        }
        sleep(pause).await;
    }
}

fn log_failure(upstream: &Upstream, query: &DnsQuery, error: &LookupError) {
    let reason = std::error::Error::source(error).map(ToString::to_string);
    let endpoints = upstream.endpoints().len();
    tracing::error!(upstream = %upstream.name(), name = %query.name, %error, reason, endpoints, "dns lookup failed; known endpoints are kept");
}

/// Returns the time until the next lookup, for records with the time to live `ttl`.
fn refresh_after(ttl: Duration, refresh: Duration) -> Duration {
    ttl.max(MIN_TTL).min(refresh)
}

async fn look_up(query: &DnsQuery, dns: &Dns) -> Result<DiscoveredEndpoints, LookupError> {
    // Created for each lookup, because the system's files may change.
    let resolver = resolver(dns)?;
    let mut found = match query.records {
        Records::A(port) => addresses(&resolver, query, RecordType::A, port).await?,
        Records::Aaaa(port) => addresses(&resolver, query, RecordType::AAAA, port).await?,
        Records::Any(port) => {
            let ipv4 = addresses(&resolver, query, RecordType::A, port).await;
            let ipv6 = addresses(&resolver, query, RecordType::AAAA, port).await;
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
    if found.endpoints.is_empty() {
        return Err(LookupError::NoRecords);
    }
    found.endpoints.sort_by(|one, other| one.address.cmp(&other.address));
    found.endpoints.dedup_by(|one, other| one.address == other.address);
    Ok(found)
}

fn resolver(dns: &Dns) -> Result<TokioResolver, NetError> {
    let mut builder = if dns.servers.is_empty() {
        Resolver::builder_tokio()?
    } else {
        let servers = dns.servers.iter().map(|address| {
            let mut server = NameServerConfig::udp_and_tcp(address.ip());
            server.connections.iter_mut().for_each(|connection| connection.port = address.port());
            server
        });
        let config = ResolverConfig::from_parts(None, Vec::new(), servers.collect());
        Resolver::builder_with_config(config, TokioRuntimeProvider::default())
    };
    let options = builder.options_mut();
    options.timeout = dns.timeout;
    // A lookup happens only when the previous records have expired or a refresh is due.
    options.cache_size = 0;
    options.ip_strategy = LookupIpStrategy::Ipv4thenIpv6;
    builder.build()
}

async fn addresses(
    resolver: &TokioResolver,
    query: &DnsQuery,
    records: RecordType,
    port: u16,
) -> Result<DiscoveredEndpoints, LookupError> {
    let found = resolver.lookup(query.name.as_str(), records).await?;
    let ips = found.answers().iter().filter_map(|record| match &record.data {
        RData::A(address) => Some(IpAddr::V4(address.0)),
        RData::AAAA(address) => Some(IpAddr::V6(address.0)),
        _ => None,
    });
    let endpoints =
        ips.map(|ip| ListedEndpoint { address: address(query, ip, port, &query.name), weight: 1, priority: 0 });
    Ok(DiscoveredEndpoints { endpoints: endpoints.collect(), valid_until: found.valid_until() })
}

/// Looks up SRV records (RFC 2782) and the addresses of their targets.
async fn services(resolver: &TokioResolver, query: &DnsQuery) -> Result<DiscoveredEndpoints, LookupError> {
    let records = resolver.lookup(query.name.as_str(), RecordType::SRV).await?;
    let mut found = DiscoveredEndpoints { endpoints: Vec::new(), valid_until: records.valid_until() };
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
        found.valid_until = found.valid_until.min(ips.valid_until());
        let name = service.target.to_utf8();
        let name = name.trim_end_matches('.');
        found.endpoints.extend(ips.iter().map(|ip| ListedEndpoint {
            address: address(query, ip, service.port, name),
            weight: weight(service.weight),
            priority: service.priority,
        }));
    }
    match failure {
        Some(error) if found.endpoints.is_empty() => Err(error.into()),
        _ => Ok(found),
    }
}

/// Scales the weight of an SRV record. Weight 0 must have "a very small chance" beside other weights (RFC 2782), and
/// equal chances among records of weight 0.
fn weight(weight: u16) -> u32 {
    (u32::from(weight) * 100).max(1)
}

fn address(query: &DnsQuery, ip: IpAddr, port: u16, name: &str) -> EndpointAddress {
    EndpointAddress { scheme: query.scheme, host: ip.to_string(), port, name: name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_kept_for_their_time_to_live_within_bounds() {
        let (second, minute) = (Duration::from_secs(1), Duration::from_secs(60));
        assert_eq!(refresh_after(Duration::ZERO, minute), second);
        assert_eq!(refresh_after(second * 20, minute), second * 20);
        assert_eq!(refresh_after(minute * 60, minute), minute);
        assert_eq!(refresh_after(Duration::ZERO, second / 10), second / 10);
    }
}
