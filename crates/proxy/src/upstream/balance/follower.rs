//! Endpoints from a registry.

use std::sync::Arc;

use tokio::time::Instant;

use crate::upstream::balance::upstream::{Source, Upstream};
use tollgate_config::{ListedEndpoint, ServiceQuery};
use tollgate_discovery::{Follower, Instance, RegistryStatus};

/// Upstream whose endpoints are the instances of a service.
#[derive(Debug)]
pub(super) struct UpstreamFollower {
    upstream: Arc<Upstream>,
    weighted: bool,
    zone: Option<String>,
}

impl UpstreamFollower {
    /// Creates a follower that applies the weights and the zone of `query`.
    pub(super) fn new(upstream: Arc<Upstream>, query: &ServiceQuery) -> Self {
        Self { upstream, weighted: query.weighted, zone: query.zone.clone() }
    }

    fn endpoint(&self, instance: &Instance) -> ListedEndpoint {
        let is_elsewhere = self.zone.as_ref().is_some_and(|zone| instance.zone.as_ref() != Some(zone));
        ListedEndpoint {
            address: instance.address.clone(),
            weight: if self.weighted { instance.metadata_weight() } else { instance.weight },
            priority: u16::from(is_elsewhere),
        }
    }
}

impl Follower for UpstreamFollower {
    fn list(&self, registry: &Arc<RegistryStatus>, instances: &[Instance]) {
        let listed: Vec<_> = instances.iter().map(|instance| self.endpoint(instance)).collect();
        self.upstream.set_source(Some(Source {
            registry: Arc::clone(registry),
            confirmed: Instant::now(),
            instances: instances.into(),
        }));
        self.upstream.list(&listed);
    }

    fn confirm(&self) {
        self.upstream.confirm_source();
    }
}
