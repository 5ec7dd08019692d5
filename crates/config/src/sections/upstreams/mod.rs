//! `upstreams:`: the servers behind `lb://NAME`, how one of them is chosen, and how it is known which of them live.

mod check;
mod liveness;
mod model;
mod raw;
mod spring;
mod target;
#[cfg(test)]
mod tests;

pub(crate) use self::check::{Named, UpstreamSections, check, dns};
pub use self::model::{
    Balance, Dns, DnsQuery, Ejection, EndpointAddress, EndpointSource, HealthCheck, ListedEndpoint, Records, Scheme,
    Statuses, Upstream,
};
pub(crate) use self::raw::{RawDiscovery, RawDns, RawLoadBalancer, RawUpstream};
pub(crate) use self::spring::{locator, no_effect};
pub(crate) use self::target::{target, variables};
