//! Innermost service of a route: sends the request to the upstream and streams the response back.

use std::convert::Infallible;
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response, StatusCode, Version, response};
use tollgate_filters::context::{ReceivedPath, ReceivedStatus, TargetUri};
use tollgate_filters::fault::Fault;

use crate::http::attempts::ObservedAttempts;
use crate::http::body::{Body, UploadProgress};
use crate::http::failure::Failure;
use crate::upstream::body::response_body;
use crate::upstream::call::{Call, Forwarding};
use crate::upstream::endpoints::{DynamicTarget, RouteEndpoints};
use crate::upstream::error::ForwardError;
use crate::upstream::headers::{HeaderPolicy, has_known_coding};
use crate::upstream::incoming::Incoming;
use crate::upstream::origin::Origin;
use crate::upstream::pick::{HeldConnection, Outcome, Pick};
use crate::upstream::pool::Connection;
use crate::upstream::pool::http1::Http1Connection;
use crate::upstream::request::RequestExtras;
use crate::upstream::times::{Monitor, UpstreamTimes};
use crate::upstream::upgrade;
use tollgate_config::{HttpClient, Route};

/// Timeouts for an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpstreamTimeouts {
    /// For establishing a connection.
    pub connect: Duration,
    /// From the request, or the latest part of its body, to the response head; `None` for no limit.
    pub response: Option<Duration>,
    /// From a part of the response body, or of a request body beside it, to the next; `None` for no limit.
    pub read: Option<Duration>,
}

impl UpstreamTimeouts {
    /// Returns the timeouts of `route`, or those of the client.
    #[must_use]
    pub fn of(route: &Route, client: &HttpClient) -> Self {
        Self {
            connect: route.connect_timeout.unwrap_or(client.connect_timeout.get()),
            response: route.response_timeout.map_or(client.response_timeout.get(), |timeout| timeout.0),
            read: route.read_timeout.map_or(client.read_timeout.get(), |timeout| timeout.0),
        }
    }
}

/// Forwarding to a route's upstream with the settings of the route.
#[derive(Debug)]
pub struct Forward {
    /// Id of the route, for the log.
    pub route: Arc<str>,
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
    pub fn forward(
        self: Rc<Self>,
        mut request: Request<Body>,
    ) -> impl Future<Output = Result<Response<Body>, Infallible>> + use<> {
        let (pick, times) = match request.extensions_mut().remove::<TargetUri>() {
            None => {
                let pick = self.endpoints.pick(&request);
                ReceivedPath::restore(&mut request);
                (pick, &self.times)
            }
            Some(target) => (self.dynamic_target.pick(target, &mut request), &self.dynamic_times),
        };
        let times = Arc::clone(times);
        let pick = match pick {
            Ok(pick) => pick,
            Err(error) => return Forwarding::ready(self.failed(&error, None)),
        };
        let observer = if self.is_traced { request.extensions_mut().remove::<ObservedAttempts>() } else { None };
        let extras = RequestExtras::take(request.extensions_mut());
        Call { forward: self, monitor: Monitor::new(times, observer), extras }.start(pick, request)
    }

    /// Turns the upstream's response into the response to the client.
    pub(super) fn relay(
        &self,
        response: Response<Incoming>,
        pick: Pick,
        mut connection: Box<Connection>,
        extras: Option<Box<RequestExtras>>,
        upload: Option<Rc<UploadProgress>>,
    ) -> Response<Body> {
        let received = ReceivedStatus(response.status());
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            let requested = extras.and_then(|extras| extras.upgrade);
            return match requested.zip(connection.http1().map(Http1Connection::tunnel)) {
                Some((requested, tunnel)) => {
                    pick.report(Outcome::Response(response.status()), None);
                    upgrade::tunnel(response, tunnel, HeldConnection { pick, connection }, &requested)
                }
                None => replaced(received, self.failed_at(&ForwardError::UnexpectedUpgrade, &pick)),
            };
        }
        let (mut head, body) = response.into_parts();
        if let Err(error) = check_head(&head, &pick) {
            return replaced(received, self.failed_at(&error, &pick));
        }
        pick.report(Outcome::Response(head.status), None);
        self.header_policy.clean_response(head.status, &mut head.headers);
        // With version HTTP/1.0, the server would close the client's connection.
        head.version = Version::HTTP_11;
        if connection.is_http2() && [StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED].contains(&head.status) {
            // h2 reads a body of them that a client would refuse.
            return Response::from_parts(head, Body::default());
        }
        match response_body(body, HeldConnection { pick, connection }, self.timeouts.read, upload) {
            Ok(body) => Response::from_parts(head, body),
            Err(failed) => {
                let (error, held) = *failed;
                let error = error.into();
                held.pick.report(outcome_of(&error), None);
                replaced(received, self.failed(&error, Some(held.pick.pool.origin())))
            }
        }
    }

    pub(super) fn failed_at(&self, error: &ForwardError, pick: &Pick) -> Response<Body> {
        pick.report(outcome_of(error), Some(error));
        self.failed(error, Some(pick.pool.origin()))
    }

    /// Logs an error and returns the response to it.
    pub(super) fn failed(&self, error: &ForwardError, origin: Option<&Origin>) -> Response<Body> {
        let failure = error.failure();
        let (host, port) = origin.map_or(("", 0), |origin| (origin.host.as_str(), origin.port));
        match failure {
            // The client caused it: an operator can do nothing about it.
            Failure::TooLarge | Failure::ClientBody | Failure::ClientTimeout | Failure::BadRequest(_) => {
                tracing::debug!(route = &*self.route, host, port, error = error.chain(), "request not forwarded");
                return (self.failure_response)(failure, None);
            }
            // Logged once, when the last endpoint became unavailable.
            Failure::NoEndpoint { .. } => {}
            _ => tracing::warn!(route = &*self.route, host, port, error = error.chain(), "request not forwarded"),
        }
        (self.failure_response)(failure, Some(error.fault()))
    }
}

/// Marks `response`, which takes the place of one with the status `received`.
fn replaced(received: ReceivedStatus, mut response: Response<Body>) -> Response<Body> {
    response.extensions_mut().insert(received);
    response
}

/// Checks the response head for what is valid and the gateway cannot pass on.
fn check_head(head: &response::Parts, pick: &Pick) -> Result<(), ForwardError> {
    if !has_known_coding(&head.headers) {
        return Err(ForwardError::TransferCoding);
    }
    // Over HTTP/1.1, the reader has checked it.
    if head.headers.len() > pick.pool.max_head_fields() {
        return Err(ForwardError::TooManyFields);
    }
    Ok(())
}

/// Returns the outcome to report for an error.
pub(super) fn outcome_of(error: &ForwardError) -> Outcome {
    match error.failure() {
        Failure::TooLarge | Failure::ClientBody | Failure::ClientTimeout | Failure::BadRequest(_) => {
            Outcome::ClientFailed
        }
        Failure::ConnectTimeout | Failure::ResponseTimeout => Outcome::TimedOut,
        _ => Outcome::Disconnected,
    }
}
