//! Active health checks, from the process' thread, once for all workers.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use http::header::{CONNECTION, HeaderValue, USER_AGENT};
use http::{Request, StatusCode};
use thiserror::Error;
use tokio::time::{Instant, sleep, timeout};

use crate::http::body::Body;
use crate::upstream::balance::endpoint::{Endpoint, endpoint_origin};
use crate::upstream::balance::endpoint_set::Health;
use crate::upstream::balance::upstream::Upstream;
use crate::upstream::error::ForwardError;
use crate::upstream::exchange::exchange;
use crate::upstream::origin::Origin;
use crate::upstream::pool::{Pool, PoolSettings};
use crate::upstream::request::prepare_head;
use tollgate_config::{EndpointAddress, HealthCheck, Http2, Tls};
use tollgate_transport::error_chain;
use tollgate_transport::executor::OwnedTask;

/// Connection settings of health checks.
#[derive(Clone, Debug)]
pub(super) struct ProbeConnections {
    pub(super) tls: Arc<Tls>,
    pub(super) http2: Http2,
    pub(super) settings: Rc<RefCell<PoolSettings>>,
}

/// Error of a failed health check.
#[derive(Debug, Error)]
enum ProbeError {
    #[error("no response in time")]
    Timeout,
    #[error(transparent)]
    Forward(#[from] ForwardError),
    #[error("unexpected status {}", .0.as_u16())]
    Status(StatusCode),
}

/// Checks every endpoint of `upstream`, including endpoints that are added later, until it is dropped.
pub(super) async fn run(upstream: Arc<Upstream>, check: Arc<HealthCheck>, connections: ProbeConnections) {
    let mut listings = upstream.listings();
    let mut running: Vec<(Arc<Endpoint>, OwnedTask)> = Vec::new();
    loop {
        listings.borrow_and_update();
        let endpoints = upstream.endpoints();
        running.retain(|(checked, _)| endpoints.iter().any(|endpoint| Arc::ptr_eq(endpoint, checked)));
        for endpoint in endpoints {
            if !running.iter().any(|(checked, _)| Arc::ptr_eq(&endpoint, checked)) {
                let probe = Probe::new(endpoint.address(), Arc::clone(&check), &connections);
                let task = OwnedTask::start(check_endpoint(Arc::clone(&upstream), Arc::clone(&endpoint), probe));
                running.push((endpoint, task));
            }
        }
        if listings.changed().await.is_err() {
            return;
        }
    }
}

async fn check_endpoint(upstream: Arc<Upstream>, endpoint: Arc<Endpoint>, probe: Probe) {
    let mut tally = Tally { health: upstream.health(&endpoint), contradictions: 0 };
    loop {
        let result = probe.send().await;
        let stats = upstream.stats();
        let counter = if result.is_ok() { &stats.checks_passed } else { &stats.checks_failed };
        counter.fetch_add(1, Relaxed);
        let reason = result.as_ref().err().map(|error| error_chain(error).to_string());
        endpoint.attempts().checked(reason.clone());
        if let Some(health) = tally.count(result.is_ok(), &probe.check) {
            upstream.set_health(&endpoint, health);
            if let Some(reason) = reason {
                tracing::warn!(upstream = %upstream.name(), %endpoint, reason, "endpoint unhealthy");
            }
        }
        sleep(jittered(probe.check.interval.get())).await;
    }
}

/// Varies the interval by 10 %, so that checks of many endpoints and gateways do not coincide.
fn jittered(interval: Duration) -> Duration {
    interval.mul_f64(0.9 + 0.2 * fastrand::f64())
}

/// Health check of one endpoint.
struct Probe {
    check: Arc<HealthCheck>,
    /// Keeps no connections, because accepting a new one is part of the check.
    pool: Rc<Pool>,
}

impl Probe {
    fn new(address: &EndpointAddress, check: Arc<HealthCheck>, connections: &ProbeConnections) -> Self {
        let origin = endpoint_origin(address, None, &connections.tls, connections.http2);
        let authority = check.host.as_ref().map(|host| host.0.clone()).unwrap_or_else(|| origin.authority.clone());
        let checked = Origin { port: check.port.map_or(origin.port, |port| port.get()), authority, ..origin };
        Self { pool: Pool::new(checked, Rc::clone(&connections.settings)), check }
    }

    /// Sends one request and checks the status of its response.
    async fn send(&self) -> Result<(), ProbeError> {
        let status = timeout(self.check.timeout.get(), self.status()).await.unwrap_or(Err(ProbeError::Timeout))?;
        if self.check.status.contain(status) { Ok(()) } else { Err(ProbeError::Status(status)) }
    }

    async fn status(&self) -> Result<StatusCode, ProbeError> {
        let mut connection = self.pool.connect(self.check.timeout.get(), false).await.map_err(ForwardError::from)?;
        let mut request = Request::new(Body::default());
        *request.uri_mut() = self.check.path.0.clone().into();
        request.headers_mut().insert(USER_AGENT, HeaderValue::from_static("tollgate-health-check"));
        let is_http2 = connection.is_http2();
        prepare_head(&mut request, self.pool.origin(), None, is_http2)?;
        if !is_http2 {
            request.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        let response = exchange(&mut connection, request, None, Instant::now(), None, None).await;
        Ok(response.map_err(|failed| failed.error)?.status())
    }
}

/// Health of an endpoint, from consecutive results of its checks.
#[derive(Debug)]
struct Tally {
    health: Health,
    /// Consecutive results that contradict `health`.
    contradictions: u32,
}

impl Tally {
    /// Counts a result. Returns the new health if it changes; the very first result changes it at once.
    fn count(&mut self, passed: bool, check: &HealthCheck) -> Option<Health> {
        let (health, needed) = if passed {
            (Health::Healthy, check.healthy.get().get())
        } else {
            (Health::Unhealthy, check.unhealthy.get().get())
        };
        if health == self.health {
            self.contradictions = 0;
            return None;
        }
        self.contradictions += 1;
        if self.health != Health::Unknown && self.contradictions < needed {
            return None;
        }
        (self.health, self.contradictions) = (health, 0);
        Some(health)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_first_result_counts_at_once_and_later_ones_only_in_a_row() {
        let check = HealthCheck::default();
        let run = |health, results: &str| {
            let mut tally = Tally { health, contradictions: 0 };
            let changes = results.chars().map(|result| tally.count(result == '+', &check));
            changes
                .map(|change| change.map_or('.', |health| if health == Health::Healthy { 'U' } else { 'D' }))
                .collect::<String>()
        };
        assert_eq!(run(Health::Unknown, "+"), "U");
        assert_eq!(run(Health::Unknown, "-"), "D");
        assert_eq!(run(Health::Healthy, "--+---"), ".....D");
        assert_eq!(run(Health::Unhealthy, "+-+-++"), ".....U");
        assert_eq!(run(Health::Healthy, "---++-++"), "..D.U...");
    }
}
