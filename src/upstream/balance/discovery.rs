//! RouteEndpoints that DNS names.
//!
//! It is asked again when its answer's time to live is over, and at the latest after `refresh`. An answer that fails, or
//! names nobody, changes nothing: whether the endpoints at hand live is found out otherwise.

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

/// Answers of shorter life are kept for so long all the same.
const LEAST_LIFE: Duration = Duration::from_secs(1);
/// After a failure it is tried again this soon, then half as often each time, down to `refresh`.
const FIRST_RETRY: Duration = Duration::from_millis(500);

/// Why there are no endpoints.
#[derive(Debug, Error)]
enum LookUpError {
    #[error("cannot ask")]
    Ask(#[from] NetError),
    #[error("the name has no such records")]
    Nobody,
}

/// What DNS said, and until when it counts.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    endpoints: Vec<ListedEndpoint>,
    until: Instant,
}

/// Asks for the endpoints of `upstream` again and again; tells `attempted` after the first time.
pub(super) async fn follow(upstream: Arc<Upstream>, query: DnsQuery, dns: Dns, attempted: oneshot::Sender<()>) {
    let mut attempted = Some(attempted);
    let mut failures = 0_u32;
    loop {
        let answer = look_up(&query, &dns).await;
        let pause = match answer {
            Ok(answer) => {
                if failures > 0 {
                    tracing::info!(upstream = %upstream.name(), name = %query.name, "DNS names endpoints again");
                }
                failures = 0;
                upstream.list(&answer.endpoints);
                pause(answer.until.saturating_duration_since(Instant::now()), query.refresh)
            }
            Err(error) => {
                upstream.stats().failed_lookups.fetch_add(1, Relaxed);
                if failures == 0 {
                    let reason = std::error::Error::source(&error).map(ToString::to_string);
                    let stay = upstream.endpoints().len();
                    tracing::error!(upstream = %upstream.name(), name = %query.name, %error, reason, stay, "no endpoints from DNS; those at hand stay");
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

/// How long an answer counts that lives for `life`.
fn pause(life: Duration, refresh: Duration) -> Duration {
    life.max(LEAST_LIFE).min(refresh)
}

async fn look_up(query: &DnsQuery, dns: &Dns) -> Result<Answer, LookUpError> {
    // Made anew each time: the system's files change.
    let resolver = resolver(dns)?;
    let mut answer = match query.records {
        Records::A(port) => addresses(&resolver, query, RecordType::A, port).await?,
        Records::Aaaa(port) => addresses(&resolver, query, RecordType::AAAA, port).await?,
        Records::Any(port) => {
            let four = addresses(&resolver, query, RecordType::A, port).await;
            let six = addresses(&resolver, query, RecordType::AAAA, port).await;
            match (four, six) {
                (Ok(four), Ok(six)) => Answer {
                    endpoints: four.endpoints.into_iter().chain(six.endpoints).collect(),
                    until: four.until.min(six.until),
                },
                (four, six) => four.or(six)?,
            }
        }
        Records::Srv => services(&resolver, query).await?,
    };
    if answer.endpoints.is_empty() {
        return Err(LookUpError::Nobody);
    }
    answer.endpoints.sort_by(|one, other| one.address.cmp(&other.address));
    answer.endpoints.dedup_by(|one, other| one.address == other.address);
    Ok(answer)
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
    // Asked when the last answer is over, or sooner because it is wanted anew.
    options.cache_size = 0;
    options.ip_strategy = LookupIpStrategy::Ipv4thenIpv6;
    builder.build()
}

async fn addresses(
    resolver: &TokioResolver,
    query: &DnsQuery,
    records: RecordType,
    port: u16,
) -> Result<Answer, LookUpError> {
    let found = resolver.lookup(query.name.as_str(), records).await?;
    let ips = found.answers().iter().filter_map(|record| match &record.data {
        RData::A(address) => Some(IpAddr::V4(address.0)),
        RData::AAAA(address) => Some(IpAddr::V6(address.0)),
        _ => None,
    });
    let endpoints =
        ips.map(|ip| ListedEndpoint { address: address(query, ip, port, &query.name), weight: 1, priority: 0 });
    Ok(Answer { endpoints: endpoints.collect(), until: found.valid_until() })
}

/// The servers of SRV records (RFC 2782), with their addresses.
async fn services(resolver: &TokioResolver, query: &DnsQuery) -> Result<Answer, LookUpError> {
    let found = resolver.lookup(query.name.as_str(), RecordType::SRV).await?;
    let mut answer = Answer { endpoints: Vec::new(), until: found.valid_until() };
    let mut failure = None;
    for record in found.answers() {
        let RData::SRV(service) = &record.data else { continue };
        // The root for a target says that there is no such service.
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
        answer.until = answer.until.min(ips.valid_until());
        let name = service.target.to_utf8();
        let name = name.trim_end_matches('.');
        answer.endpoints.extend(ips.iter().map(|ip| ListedEndpoint {
            address: address(query, ip, service.port, name),
            weight: weight(service.weight),
            priority: service.priority,
        }));
    }
    match failure {
        Some(error) if answer.endpoints.is_empty() => Err(error.into()),
        _ => Ok(answer),
    }
}

/// A record of weight 0 has "a very small chance" beside others (RFC 2782), and an equal one among its like.
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
    fn an_answer_counts_for_its_time_to_live_within_bounds() {
        let (second, minute) = (Duration::from_secs(1), Duration::from_secs(60));
        assert_eq!(pause(Duration::ZERO, minute), second);
        assert_eq!(pause(second * 20, minute), second * 20);
        assert_eq!(pause(minute * 60, minute), minute);
        assert_eq!(pause(Duration::ZERO, second / 10), second / 10);
    }
}
