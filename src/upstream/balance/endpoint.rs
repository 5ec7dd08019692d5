//! One endpoint, as all workers see it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use crate::upstream::balance::policy::hash;
use crate::upstream::origin::Origin;
use tollgate_config::{EndpointAddress, Http2, Scheme, Tls};

/// One endpoint of an upstream: what workers count of it.
#[derive(Debug)]
pub struct Endpoint {
    address: EndpointAddress,
    identity: u64,
    in_flight: AtomicU32,
    failures: AtomicU32,
}

impl Endpoint {
    /// An endpoint that nothing is known of.
    pub(super) fn new(address: EndpointAddress) -> Self {
        let identity = hash(address.to_string().as_bytes());
        Self { address, identity, in_flight: AtomicU32::new(0), failures: AtomicU32::new(0) }
    }

    /// Where it is.
    #[must_use]
    pub fn address(&self) -> &EndpointAddress {
        &self.address
    }

    /// A number made of its address: the same in every gateway.
    #[must_use]
    pub fn identity(&self) -> u64 {
        self.identity
    }

    /// How many requests of this process are under way to it.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.in_flight.load(Relaxed)
    }

    pub(super) fn begin(&self) {
        self.in_flight.fetch_add(1, Relaxed);
    }

    pub(super) fn end(&self) {
        self.in_flight.fetch_sub(1, Relaxed);
    }

    /// One failure more makes a row of `threshold`: whoever comes back from an ejection must prove itself.
    pub(super) fn mark_recovering(&self, threshold: u32) {
        self.failures.store(threshold.saturating_sub(1), Relaxed);
    }

    /// Counts a failure; how many there were in a row.
    pub(super) fn fail(&self) -> u32 {
        self.failures.fetch_add(1, Relaxed).saturating_add(1)
    }

    /// Ends a row of failures. Written only where there is one: all workers read this line of memory.
    pub(super) fn succeed(&self) {
        if self.failures.load(Relaxed) != 0 {
            self.failures.store(0, Relaxed);
        }
    }
}

/// The origin at `address`, spoken to with `scheme` where that is given, and otherwise as its own says.
#[must_use]
pub fn origin(address: &EndpointAddress, scheme: Option<Scheme>, tls: &Arc<Tls>, http2: Http2) -> Origin {
    let EndpointAddress { host, name, port, .. } = address;
    let origin = Origin::new(scheme.unwrap_or(address.scheme), name, *port, tls, http2);
    Origin { address: host.parse().ok(), ..origin }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address.fmt(f)
    }
}
