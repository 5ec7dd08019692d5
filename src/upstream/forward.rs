//! Innermost service of a route: sends the request to the upstream and streams the response back.
//!
//! A future is as large as everything that it may ever hold, and it is copied when it is boxed. So the rare paths
//! (connecting, sending again) are boxed separately from the path that every request takes.

use std::convert::Infallible;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response, StatusCode, Version, response};
use hyper::body::Incoming;
use tollgate_filters::context::TargetUri;
use tollgate_filters::fault::Fault;

use crate::http::attempts::ObservedAttempts;
use crate::http::body::{Body, UploadProgress};
use crate::http::facts::Timer;
use crate::http::failure::Failure;
use crate::upstream::body::response_body;
use crate::upstream::dynamic_target::DynamicTarget;
use crate::upstream::endpoints::RouteEndpoints;
use crate::upstream::error::ForwardError;
use crate::upstream::exchange::{ExchangeError, exchange};
use crate::upstream::headers::{HeaderPolicy, has_known_coding};
use crate::upstream::interim;
use crate::upstream::lease::ConnectionLease;
use crate::upstream::monitor::Monitor;
use crate::upstream::origin::Origin;
use crate::upstream::outcome::Outcome;
use crate::upstream::pick::Pick;
use crate::upstream::pool::Connection;
use crate::upstream::repeat::{Progress, Repeats};
use crate::upstream::request::{Replay, RequestExtras, prepare_head};
use crate::upstream::times::UpstreamTimes;
use crate::upstream::upgrade;

/// Timeouts for an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpstreamTimeouts {
    /// For establishing a connection.
    pub connect: Duration,
    /// From the request, or the latest part of its body, to the response head; `None` for no limit.
    pub response: Option<Duration>,
    /// Between two parts of the response body.
    pub read: Duration,
}

/// Forwarding to a route's upstream with the settings of the route.
#[derive(Debug)]
pub struct Forward {
    /// Endpoints of the route.
    pub endpoints: RouteEndpoints,
    /// Connections to targets that a request names instead.
    pub dynamic_target: DynamicTarget,
    /// Connect and response times of the endpoints.
    pub times: Arc<UpstreamTimes>,
    /// Connect and response times of targets that a request names.
    pub dynamic_times: Arc<UpstreamTimes>,
    /// True if requests may carry an observer of their attempts.
    pub is_traced: bool,
    /// Timeouts of the route.
    pub timeouts: UpstreamTimeouts,
    /// Header fields that do not pass the gateway.
    pub header_policy: Arc<HeaderPolicy>,
    /// Builds the response to a failure. Outer layers find the upstream's fault in its extensions.
    pub failure_response: fn(Failure, Option<Fault>) -> Response<Body>,
}

impl Forward {
    /// Sends the request and returns its response. Failures become responses too.
    ///
    /// A request is sent again in two cases: the upstream certainly did not process it, or it may be repeated (RFC 9110
    /// §9.2.2) and the connection closed before the response.
    pub async fn forward(self: Rc<Self>, mut request: Request<Body>) -> Result<Response<Body>, Infallible> {
        let (pick, times) = match request.extensions_mut().remove::<TargetUri>() {
            None => (self.endpoints.pick(&request), &*self.times),
            Some(target) => (self.dynamic_target.pick(target, &mut request), &*self.dynamic_times),
        };
        let pick = match pick {
            Ok(pick) => pick,
            Err(error) => return Ok(self.failed(&error, None)),
        };
        let (mut head, body) = request.into_parts();
        let observer = if self.is_traced { head.extensions.remove::<ObservedAttempts>() } else { None };
        let monitor = Monitor::new(times, observer);
        let extras = RequestExtras::take(&mut head.extensions);
        let upgrades = extras.as_deref().is_some_and(RequestExtras::upgrades);
        monitor.begin(pick.pool.origin());
        let (pick, mut connection) = match pick.pool.take_idle(upgrades) {
            Some(idle) => (pick, idle),
            None => match Box::pin(self.connect(pick, upgrades, &monitor)).await {
                Ok(established) => established,
                Err(response) => return Ok(response),
            },
        };
        let is_http2 = connection.is_http2();
        let (body, replay) = Replay::of(&head, body, extras.as_deref(), is_http2);
        if let Err(error) = prepare_head(&mut head, &body, pick.pool.origin(), extras.as_deref(), is_http2) {
            return Ok(self.failed_at(&error, &pick));
        }
        monitor.propagate(&mut head.headers);
        let upload = body.upload();
        let mut request = Request::from_parts(head, body);
        if !is_http2 {
            interim::relay_to_client(&mut request, &self.header_policy);
        }
        let timer = Timer::start();
        let sent = exchange(&mut connection, request, self.timeouts.response, upload.as_deref()).await;
        let elapsed = timer.responded();
        Ok(match sent {
            Ok(response) => {
                monitor.responded(response.status(), elapsed);
                self.relay(response, pick, connection, extras)
            }
            Err(error) => {
                drop(connection);
                Box::pin(self.send_again(error, replay, pick, extras, upload, &monitor)).await
            }
        })
    }

    /// Establishes a connection to the picked endpoint, or to the next reachable one. Otherwise returns the response
    /// to the failure.
    async fn connect(
        &self,
        mut pick: Pick,
        upgrades: bool,
        monitor: &Monitor<'_>,
    ) -> Result<(Pick, Connection), Response<Body>> {
        loop {
            let timer = Timer::start();
            match pick.pool.connect(self.timeouts.connect, upgrades).await {
                Ok(connection) => {
                    monitor.connected(timer.connected());
                    return Ok((pick, connection));
                }
                Err(error) => {
                    pick.report(Outcome::ConnectFailed);
                    let error = error.into();
                    monitor.failed(&error);
                    let response = self.failed(&error, Some(pick.pool.origin()));
                    pick = pick.another().ok_or(response)?;
                    monitor.begin(pick.pool.origin());
                }
            }
        }
    }

    /// Sends the request again for as long as that is safe. Each attempt uses a new connection, or another HTTP/2
    /// connection, to another endpoint if there is one.
    async fn send_again(
        &self,
        mut failed: ExchangeError,
        replay: Option<Replay>,
        mut pick: Pick,
        extras: Option<Box<RequestExtras>>,
        upload: Option<Rc<UploadProgress>>,
        monitor: &Monitor<'_>,
    ) -> Response<Body> {
        let mut repeats = Repeats::default();
        let is_idempotent = replay.as_ref().is_some_and(|replay| replay.is_idempotent);
        loop {
            monitor.failed(&failed.error);
            let request = match failed.unsent.take() {
                _ if !repeats.allow(failed.progress, is_idempotent) => None,
                None => replay.as_ref().and_then(Replay::request),
                unsent => unsent,
            };
            let Some(request) = request else { return self.failed_at(&failed.error, &pick) };
            // A connection that closes is no failure of the endpoint if it processed nothing.
            if failed.progress != Progress::Unprocessed {
                pick.report(outcome_of(&failed.error));
            }
            pick = pick.another().unwrap_or(pick);
            monitor.begin(pick.pool.origin());
            let upgrades = extras.as_deref().is_some_and(RequestExtras::upgrades);
            let mut connection = match self.connect(pick, upgrades, monitor).await {
                Ok((reached, connection)) => {
                    pick = reached;
                    connection
                }
                Err(response) => return response,
            };
            let (mut head, body) = request.into_parts();
            let is_http2 = connection.is_http2();
            if let Err(error) = prepare_head(&mut head, &body, pick.pool.origin(), extras.as_deref(), is_http2) {
                return self.failed_at(&error, &pick);
            }
            monitor.propagate(&mut head.headers);
            let request = Request::from_parts(head, body);
            let timer = Timer::start();
            let sent = exchange(&mut connection, request, self.timeouts.response, upload.as_deref()).await;
            let elapsed = timer.responded();
            failed = match sent {
                Ok(response) => {
                    monitor.responded(response.status(), elapsed);
                    return self.relay(response, pick, connection, extras);
                }
                Err(failed) => failed,
            };
        }
    }

    /// Turns the upstream's response into the response to the client.
    fn relay(
        &self,
        response: Response<Incoming>,
        pick: Pick,
        connection: Connection,
        extras: Option<Box<RequestExtras>>,
    ) -> Response<Body> {
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            return match extras.and_then(|extras| Some((extras.client?, extras.upgrade?))) {
                Some((client, requested)) => {
                    pick.report(Outcome::Response(response.status()));
                    upgrade::tunnel(response, client, ConnectionLease::new(pick, connection), &requested)
                }
                None => self.failed_at(&ForwardError::UnexpectedUpgrade, &pick),
            };
        }
        let (mut head, body) = response.into_parts();
        if let Err(error) = check_head(&head, &pick) {
            return self.failed_at(&error, &pick);
        }
        pick.report(Outcome::Response(head.status));
        self.header_policy.clean_response(head.status, &mut head.headers);
        // With version HTTP/1.0, hyper would close the client's connection.
        head.version = Version::HTTP_11;
        match response_body(body, ConnectionLease::new(pick, connection), self.timeouts.read) {
            Ok(body) => Response::from_parts(head, body),
            Err(failed) => {
                let (error, lease) = *failed;
                lease.report(Outcome::Disconnected);
                self.failed(&error.into(), Some(lease.origin()))
            }
        }
    }

    fn failed_at(&self, error: &ForwardError, pick: &Pick) -> Response<Body> {
        pick.report(outcome_of(error));
        self.failed(error, Some(pick.pool.origin()))
    }

    /// Logs an error and returns the response to it.
    fn failed(&self, error: &ForwardError, origin: Option<&Origin>) -> Response<Body> {
        let failure = error.failure();
        let (host, port) = origin.map_or(("", 0), |origin| (origin.host.as_str(), origin.port));
        match failure {
            // The client caused it: an operator can do nothing about it.
            Failure::TooLarge | Failure::ClientBody | Failure::ClientTimeout | Failure::BadRequest(_) => {
                tracing::debug!(host, port, error = error.chain(), "request not forwarded");
                return (self.failure_response)(failure, None);
            }
            // Logged once, when the last endpoint became unavailable.
            Failure::NoEndpoint { .. } => {}
            _ => tracing::warn!(host, port, error = error.chain(), "request not forwarded"),
        }
        (self.failure_response)(failure, Some(error.fault()))
    }
}

/// Checks the response head for what hyper accepts and the gateway cannot pass on.
fn check_head(head: &response::Parts, pick: &Pick) -> Result<(), ForwardError> {
    if !has_known_coding(&head.headers) {
        return Err(ForwardError::TransferCoding);
    }
    // hyper checks it for HTTP/1.1.
    if head.headers.len() > pick.pool.max_head_fields() {
        return Err(ForwardError::TooManyFields);
    }
    Ok(())
}

/// Returns the outcome to report for an error.
fn outcome_of(error: &ForwardError) -> Outcome {
    match error.failure() {
        Failure::TooLarge | Failure::ClientBody | Failure::ClientTimeout | Failure::BadRequest(_) => {
            Outcome::ClientFailed
        }
        Failure::GatewayTimeout => Outcome::TimedOut,
        _ => Outcome::Disconnected,
    }
}
