//! Changes of endpoints, for the log.

use std::sync::Arc;
use std::time::Duration;

use crate::upstream::balance::endpoint::Endpoint;

/// Change of an endpoint, for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum EndpointChange {
    /// It was added to the list.
    Added,
    /// It was removed from the list.
    Removed,
    /// Its health checks pass.
    Healthy,
    /// Its health checks fail.
    Unhealthy,
    /// It was ejected for this time.
    Ejected(Duration),
    /// Its ejection ended.
    Recovering,
    /// An operator drains it for this time.
    Drained(Duration),
    /// Its draining ended.
    DrainEnded,
}

/// Changes with their endpoints.
pub(super) type EndpointChanges = Vec<(Arc<Endpoint>, EndpointChange)>;

/// Logs changes of the endpoints of `upstream`.
pub(super) fn log(upstream: &str, changes: &[(Arc<Endpoint>, EndpointChange)]) {
    for (endpoint, change) in changes {
        match change {
            EndpointChange::Added => tracing::debug!(%upstream, %endpoint, "endpoint added"),
            EndpointChange::Removed => tracing::debug!(%upstream, %endpoint, "endpoint removed"),
            EndpointChange::Healthy => tracing::info!(%upstream, %endpoint, "endpoint healthy"),
            EndpointChange::Unhealthy => {} // logged by the health check, with the reason
            EndpointChange::Ejected(time) => {
                tracing::warn!(%upstream, %endpoint, ?time, "endpoint ejected: too many consecutive failures");
            }
            EndpointChange::Recovering => tracing::info!(%upstream, %endpoint, "endpoint recovering"),
            EndpointChange::Drained(time) => tracing::info!(%upstream, %endpoint, ?time, "endpoint drained"),
            EndpointChange::DrainEnded => tracing::info!(%upstream, %endpoint, "endpoint drain ended"),
        }
    }
}
