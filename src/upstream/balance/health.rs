//! Active health checks: endpoints are asked themselves, from the process' thread, each once for all workers.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use http::header::{CONNECTION, HeaderValue, USER_AGENT};
use http::{Request, StatusCode};
use thiserror::Error;
use tokio::task::spawn_local;
use tokio::time::{sleep, timeout};

use crate::http::body::Body;
use crate::upstream::balance::endpoint::{Endpoint, origin};
use crate::upstream::balance::endpoint_set::Health;
use crate::upstream::balance::manager::{Reach, Task};
use crate::upstream::balance::upstream::Upstream;
use crate::upstream::error::ForwardError;
use crate::upstream::exchange::exchange;
use crate::upstream::origin::Origin;
use crate::upstream::pool::Pool;
use crate::upstream::request::shape;
use tollgate_config::{EndpointAddress, HealthCheck};

/// Why an answer is none that a healthy endpoint gives.
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
pub(super) async fn watch(upstream: Arc<Upstream>, check: Arc<HealthCheck>, reach: Reach) {
    let mut listings = upstream.listings();
    let mut running: Vec<(Arc<Endpoint>, Task)> = Vec::new();
    loop {
        listings.borrow_and_update();
        let endpoints = upstream.endpoints();
        running.retain(|(known, _)| endpoints.iter().any(|endpoint| Arc::ptr_eq(endpoint, known)));
        for endpoint in endpoints {
            if !running.iter().any(|(known, _)| Arc::ptr_eq(&endpoint, known)) {
                let questioner = Questioner::new(endpoint.address(), Arc::clone(&check), &reach);
                let task = spawn_local(check_one(Arc::clone(&upstream), Arc::clone(&endpoint), questioner));
                running.push((endpoint, Task::from(task)));
            }
        }
        if listings.changed().await.is_err() {
            return;
        }
    }
}

async fn check_one(upstream: Arc<Upstream>, endpoint: Arc<Endpoint>, questioner: Questioner) {
    let mut tally = Tally { health: upstream.health(&endpoint), contradictions: 0 };
    loop {
        let answer = questioner.ask().await;
        let stats = upstream.stats();
        let counter = if answer.is_ok() { &stats.checks_passed } else { &stats.checks_failed };
        counter.fetch_add(1, Relaxed);
        if let Some(health) = tally.report(answer.is_ok(), &questioner.check) {
            upstream.set_health(&endpoint, health);
            if let Err(ill) = &answer {
                let reason = chain(ill);
                tracing::warn!(upstream = %upstream.name(), %endpoint, reason, "endpoint fails its health checks");
            }
        }
        sleep(jittered(questioner.check.interval)).await;
    }
}

/// A tenth more or less, so that checks of many endpoints, and of many gateways, do not come in step.
fn jittered(interval: Duration) -> Duration {
    interval.mul_f64(0.9 + 0.2 * fastrand::f64())
}

/// A question, and how its endpoint is reached.
struct Questioner {
    check: Arc<HealthCheck>,
    /// Keeps no connection: whether new ones are taken is part of the question.
    pool: Rc<Pool>,
}

impl Questioner {
    fn new(address: &EndpointAddress, check: Arc<HealthCheck>, reach: &Reach) -> Self {
        let own = origin(address, None, &reach.tls, reach.http2);
        let authority = check.host.clone().unwrap_or_else(|| own.authority.clone());
        let asked = Origin { port: check.port.unwrap_or(own.port), authority, ..own };
        Self { pool: Pool::new(asked, Rc::clone(&reach.settings)), check }
    }

    /// Asks once.
    async fn ask(&self) -> Result<(), Ill> {
        let patience = self.check.timeout;
        timeout(patience, self.status())
            .await
            .unwrap_or(Err(Ill::Late))
            .and_then(|status| if self.check.statuses.contain(status) { Ok(()) } else { Err(Ill::Status(status)) })
    }

    async fn status(&self) -> Result<StatusCode, Ill> {
        let mut connection = self.pool.connect(self.check.timeout, false).await.map_err(ForwardError::from)?;
        let (mut head, body) = Request::new(Body::default()).into_parts();
        head.uri = self.check.path.clone().into();
        head.headers.insert(USER_AGENT, HeaderValue::from_static("tollgate-health-check"));
        let is_http2 = connection.is_http2();
        shape(&mut head, &body, self.pool.origin(), None, is_http2)?;
        if !is_http2 {
            head.headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        let answer = exchange(&mut connection, Request::from_parts(head, body), None, None).await;
        Ok(answer.map_err(|broken| broken.error)?.status())
    }
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
    fn report(&mut self, good: bool, check: &HealthCheck) -> Option<Health> {
        let (says, needed) =
            if good { (Health::Healthy, check.healthy.get()) } else { (Health::Unhealthy, check.unhealthy.get()) };
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
    use tollgate_config::Statuses;

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
            let changes = answers.chars().map(|answer| tally.report(answer == '+', &check));
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
