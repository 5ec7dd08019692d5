//! `upstreams:`: endpoints of `lb://NAME`, load balancing, health checks and ejection.

mod check;
mod liveness;
mod model;
mod raw;
mod spring;
mod target;
#[cfg(test)]
mod tests;

pub(crate) use self::check::{UpstreamSections, check, dns};
pub(crate) use self::model::Named;
pub use self::model::{
    Balance, Dns, DnsQuery, Ejection, EndpointAddress, EndpointSource, HealthCheck, ListedEndpoint, Records, Scheme,
    Statuses, Upstream,
};
pub(crate) use self::raw::{RawDiscovery, RawDns, RawLoadBalancer, RawUpstream};
pub(crate) use self::spring::{locator, no_effect};
pub(crate) use self::target::{target, variables};
