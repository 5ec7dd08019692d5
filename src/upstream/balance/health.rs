//! Active health checks: endpoints are asked themselves, from the process' thread, each once for all workers.

use std::cell::RefCell;
use std::num::NonZeroUsize;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use http::header::{CONNECTION, HOST, HeaderValue, USER_AGENT};
use http::{Request, StatusCode, Version};
use thiserror::Error;
use tokio::task::spawn_local;
use tokio::time::{sleep, timeout};

use super::endpoint::{Endpoint, origin};
use super::keeper::Task;
use super::roster::Health;
use super::upstream::Upstream;
use crate::body::Body;
use crate::config::{EndpointAddress, HealthCheck, HttpClient};
use crate::upstream::error::ForwardError;
use crate::upstream::exchange::exchange;
use crate::upstream::pool::{Pool, PoolSettings};

/// Why an answer is none that a living endpoint gives.
#[derive(Debug, Error)]
enum Ill {
    #[error("no answer in time")]
    Late,
    #[error(transparent)]
    Forward(#[from] ForwardError),
    #[error("it answers {}", .0.as_u16())]
    Status(StatusCode),
}

/// Checks every endpoint of `upstream`, those that come as well, until it is dropped.
pub(super) async fn watch(upstream: Arc<Upstream>, check: Arc<HealthCheck>, client: Arc<HttpClient>) {
    let mut listings = upstream.listings();
    let mut running: Vec<(Arc<Endpoint>, Task)> = Vec::new();
    loop {
        listings.borrow_and_update();
        let endpoints = upstream.endpoints();
        running.retain(|(known, _)| endpoints.iter().any(|endpoint| Arc::ptr_eq(endpoint, known)));
        for endpoint in endpoints {
            if !running.iter().any(|(known, _)| Arc::ptr_eq(&endpoint, known)) {
                let task = spawn_local(check_one(
                    Arc::clone(&upstream),
                    Arc::clone(&endpoint),
                    Arc::clone(&check),
                    Arc::clone(&client),
                ));
                running.push((endpoint, Task::from(task)));
            }
        }
        if listings.changed().await.is_err() {
            return;
        }
    }
}

async fn check_one(upstream: Arc<Upstream>, endpoint: Arc<Endpoint>, check: Arc<HealthCheck>, client: Arc<HttpClient>) {
    let mut tally = Tally { health: upstream.health(&endpoint), contradictions: 0 };
    loop {
        let answer = timeout(check.timeout, ask(endpoint.address(), &check, &client)).await.unwrap_or(Err(Ill::Late));
        let stats = upstream.stats();
        let counter = if answer.is_ok() { &stats.checks_passed } else { &stats.checks_failed };
        counter.fetch_add(1, Relaxed);
        if let Some(health) = tally.observe(answer.is_ok(), &check) {
            if let Err(ill) = &answer {
                tracing::debug!(upstream = %upstream.name(), %endpoint, reason = chain(ill), "health check");
            }
            upstream.set_health(&endpoint, health);
        }
        sleep(jittered(check.interval)).await;
    }
}

/// A tenth more or less, so that checks of many endpoints, and of many gateways, do not come in step.
fn jittered(interval: Duration) -> Duration {
    interval.mul_f64(0.9 + 0.2 * fastrand::f64())
}

/// Asks once, on a connection of its own, made as `client` makes them: whether new ones are taken is part of the question.
async fn ask(address: &EndpointAddress, check: &HealthCheck, client: &HttpClient) -> Result<(), Ill> {
    let mut origin = origin(address, None, &client.tls, client.http2);
    origin.port = check.port.unwrap_or(origin.port);
    let host = check.host.clone().unwrap_or_else(|| origin.authority.clone());
    let scheme = origin.scheme();
    let settings = PoolSettings { max_idle: 0, ..PoolSettings::of(client, 0, NonZeroUsize::MIN) };
    let pool = Pool::new(origin, Rc::new(RefCell::new(settings)));
    let mut connection = pool.connect(check.timeout, false).await.map_err(ForwardError::from)?;
    let mut request = Request::new(Body::default());
    if connection.is_http2() {
        let authority = String::from_utf8_lossy(host.as_bytes());
        let uri = format!("{scheme}://{authority}{}", check.path);
        *request.uri_mut() = uri.parse().map_err(|_| ForwardError::BadHost)?;
        *request.version_mut() = Version::HTTP_2;
    } else {
        *request.uri_mut() = check.path.clone().into();
        request.headers_mut().insert(HOST, host);
        request.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    request.headers_mut().insert(USER_AGENT, HeaderValue::from_static("tollgate-health-check"));
    let answer = exchange(&mut connection, request, None, None).await;
    let status = answer.map_err(|broken| broken.error)?.status();
    if check.statuses.contain(status) { Ok(()) } else { Err(Ill::Status(status)) }
}

/// An error and what is behind it, on one line.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    std::iter::successors(Some(error), |error| error.source()).map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// What an endpoint's answers say together.
#[derive(Debug)]
struct Tally {
    health: Health,
    /// Answers in a row that say otherwise.
    contradictions: u32,
}

impl Tally {
    /// Counts an answer; what it makes of the endpoint's health where that changes. The very first decides alone.
    fn observe(&mut self, good: bool, check: &HealthCheck) -> Option<Health> {
        let (says, needed) =
            if good { (Health::Up, check.healthy.get()) } else { (Health::Down, check.unhealthy.get()) };
        if says == self.health {
            self.contradictions = 0;
            return None;
        }
        self.contradictions += 1;
        if self.health != Health::Unknown && self.contradictions < needed {
            return None;
        }
        (self.health, self.contradictions) = (says, 0);
        Some(says)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::config::Statuses;

    #[test]
    fn the_first_answer_decides_alone_and_later_ones_only_in_a_row() {
        let check = HealthCheck {
            path: "/".parse().unwrap(),
            interval: Duration::ZERO,
            timeout: Duration::ZERO,
            healthy: 2.try_into().unwrap(),
            unhealthy: 3.try_into().unwrap(),
            statuses: Statuses(vec![200..=399]),
            port: None,
            host: None,
        };
        let run = |health, answers: &str| {
            let mut tally = Tally { health, contradictions: 0 };
            let changes = answers.chars().map(|answer| tally.observe(answer == '+', &check));
            changes
                .map(|change| change.map_or('.', |health| if health == Health::Up { 'U' } else { 'D' }))
                .collect::<String>()
        };
        assert_eq!(run(Health::Unknown, "+"), "U");
        assert_eq!(run(Health::Unknown, "-"), "D");
        assert_eq!(run(Health::Up, "--+---"), ".....D");
        assert_eq!(run(Health::Down, "+-+-++"), ".....U");
        assert_eq!(run(Health::Up, "---++-++"), "..D.U...");
    }
}
