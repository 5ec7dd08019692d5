//! The innermost service of every chain: sends the request to the upstream and hands back its answer, or the answer
//! to what went wrong. Nothing is buffered either way.
//!
//! A future is copied into its box with everything it may ever hold, so what seldom happens (connecting, sending
//! again) is boxed apart from what happens for every request.

use std::convert::Infallible;
use std::rc::Rc;
use std::time::Duration;

use http::{Request, Response, StatusCode, Version};
use hyper::body::Incoming;
use tollgate_filters::context::TargetUri;
use tollgate_filters::fault::Fault;

use crate::http::body::{Body, UploadProgress};
use crate::http::failure::Failure;
use crate::upstream::body::response_body;
use crate::upstream::dynamic_target::DynamicTarget;
use crate::upstream::error::{ForwardError, to_failure};
use crate::upstream::exchange::{Broken, exchange};
use crate::upstream::headers::HeaderPolicy;
use crate::upstream::origin::Origin;
use crate::upstream::pick::{Outcome, Pick, RouteEndpoints};
use crate::upstream::pool::{Connection, Lease};
use crate::upstream::request::{Extras, Replay, shape};
use crate::upstream::upgrade;

/// How long an upstream may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpstreamTimeouts {
    /// To accept a connection.
    pub connect: Duration,
    /// From the request, or the latest piece of its body, to the answer's head; `None` waits without end.
    pub response: Option<Duration>,
    /// Between two pieces of the answer's body.
    pub read: Duration,
}

/// Forwards to a route's upstream under the route's settings.
#[derive(Debug)]
pub struct Forward {
    /// Where to.
    pub endpoints: RouteEndpoints,
    /// Where to instead, if the request says so.
    pub dynamic_target: DynamicTarget,
    /// The route's timeouts.
    pub timeouts: UpstreamTimeouts,
    /// What happens to the fields.
    pub header_policy: Rc<HeaderPolicy>,
    /// Builds the response to a failure. Layers above find the upstream's fault in its extensions.
    pub failure_response: fn(Failure, Option<Fault>) -> Response<Body>,
}

impl Forward {
    /// Sends the request; never fails but with an answer that says so.
    ///
    /// What a connection did not even take, and what may be repeated (RFC 9110 §9.2.2) and was broken off before its
    /// answer, is sent once more on a new connection: to another endpoint where there is one.
    pub async fn forward(self: Rc<Self>, mut request: Request<Body>) -> Result<Response<Body>, Infallible> {
        let pick = match request.extensions_mut().remove::<TargetUri>() {
            None => self.endpoints.pick(&request),
            Some(target) => self.dynamic_target.pick(target, &mut request),
        };
        let pick = match pick {
            Ok(pick) => pick,
            Err(error) => return Ok(self.failed(&error, None)),
        };
        let (mut head, body) = request.into_parts();
        let extras = Extras::take(&mut head.extensions);
        let upgrades = extras.as_deref().is_some_and(Extras::upgrades);
        let (pick, mut connection) = match pick.pool.take_idle(upgrades) {
            Some(kept) => (pick, kept),
            None => match Box::pin(self.connect(pick, upgrades)).await {
                Ok(fresh) => fresh,
                Err(answer) => return Ok(answer),
            },
        };
        let is_http2 = connection.is_http2();
        let replay = Replay::of(&head, &body, extras.as_deref(), is_http2);
        if let Err(error) = shape(&mut head, &body, pick.pool.origin(), extras.as_deref(), is_http2) {
            return Ok(self.given_up(&error, &pick));
        }
        let upload = body.upload();
        let request = Request::from_parts(head, body);
        let sent = exchange(&mut connection, request, self.timeouts.response, upload.as_deref()).await;
        Ok(match sent {
            Ok(response) => self.relay(response, pick, connection, extras),
            Err(broken) => {
                drop(connection);
                Box::pin(self.again(broken, replay, pick, extras, upload)).await
            }
        })
    }

    /// A new connection to the picked endpoint, or to the next one that can be reached; otherwise the answer that
    /// says so.
    async fn connect(&self, mut pick: Pick, upgrades: bool) -> Result<(Pick, Connection), Response<Body>> {
        loop {
            match pick.pool.connect(self.timeouts.connect, upgrades).await {
                Ok(fresh) => return Ok((pick, fresh)),
                Err(error) => {
                    pick.report(Outcome::ConnectFailed);
                    let answer = self.failed(&error.into(), Some(pick.pool.origin()));
                    pick = pick.another().ok_or(answer)?;
                }
            }
        }
    }

    /// What becomes of a request that a connection broke under: a second attempt where that is safe.
    async fn again(
        &self,
        broken: Broken,
        replay: Option<Replay>,
        pick: Pick,
        extras: Option<Box<Extras>>,
        upload: Option<Rc<UploadProgress>>,
    ) -> Response<Body> {
        let again = match (broken.unsent, replay) {
            (Some(unsent), _) => unsent,
            (None, Some(replay)) if may_repeat(&broken.error, &replay) => replay.request(),
            _ => return self.given_up(&broken.error, &pick),
        };
        pick.report(blame(&broken.error));
        let pick = pick.another().unwrap_or(pick);
        let upgrades = extras.as_deref().is_some_and(Extras::upgrades);
        let (pick, mut connection) = match self.connect(pick, upgrades).await {
            Ok(fresh) => fresh,
            Err(answer) => return answer,
        };
        let (mut head, body) = again.into_parts();
        let is_http2 = connection.is_http2();
        if let Err(error) = shape(&mut head, &body, pick.pool.origin(), extras.as_deref(), is_http2) {
            return self.given_up(&error, &pick);
        }
        let request = Request::from_parts(head, body);
        match exchange(&mut connection, request, self.timeouts.response, upload.as_deref()).await {
            Ok(response) => self.relay(response, pick, connection, extras),
            Err(broken) => self.given_up(&broken.error, &pick),
        }
    }

    /// The upstream's answer, as the client gets it.
    fn relay(
        &self,
        response: Response<Incoming>,
        pick: Pick,
        connection: Connection,
        extras: Option<Box<Extras>>,
    ) -> Response<Body> {
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            return match extras.and_then(|extras| Some((extras.client?, extras.upgrade?))) {
                Some((client, asked)) => {
                    pick.report(Outcome::Response(response.status()));
                    upgrade::tunnel(response, client, Lease::new(pick, connection), asked)
                }
                None => self.given_up(&ForwardError::UnaskedUpgrade, &pick),
            };
        }
        pick.report(Outcome::Response(response.status()));
        let (mut head, body) = response.into_parts();
        self.header_policy.clean_response(head.status, &mut head.headers);
        // Otherwise an HTTP/1.0 upstream would end the client's connection too.
        head.version = Version::HTTP_11;
        Response::from_parts(head, response_body(body, Lease::new(pick, connection), self.timeouts.read))
    }

    fn given_up(&self, error: &ForwardError, pick: &Pick) -> Response<Body> {
        pick.report(blame(error));
        self.failed(error, Some(pick.pool.origin()))
    }

    /// Logs a failure and returns the response to it.
    fn failed(&self, error: &ForwardError, origin: Option<&Origin>) -> Response<Body> {
        let failure = to_failure(error);
        let (host, port) = origin.map_or(("", 0), |origin| (origin.host.as_str(), origin.port));
        let cause = error.chain();
        match failure {
            // The client caused it: an operator can do nothing about it.
            Failure::TooLarge | Failure::ClientBody | Failure::ClientTimeout | Failure::BadRequest(_) => {
                tracing::debug!(host, port, cause, "request failed");
                return (self.failure_response)(failure, None);
            }
            // Logged once, when the last endpoint became unhealthy.
            Failure::NoEndpoint { .. } => {}
            _ => tracing::warn!(host, port, cause, "request failed"),
        }
        (self.failure_response)(failure, Some(error.fault()))
    }
}

/// Whether a request that `error` ended may be sent again.
fn may_repeat(error: &ForwardError, replay: &Replay) -> bool {
    match error {
        // The upstream did nothing with it.
        ForwardError::Refused(_) => true,
        // What came was an answer, if no valid one: to ask again would bring the same.
        ForwardError::Exchange(error) => replay.is_idempotent && !error.is_parse(),
        _ => false,
    }
}

/// What an endpoint is told of a failure.
fn blame(error: &ForwardError) -> Outcome {
    match to_failure(error) {
        Failure::TooLarge | Failure::ClientBody | Failure::ClientTimeout | Failure::BadRequest(_) => {
            Outcome::NotTheEndpoint
        }
        Failure::GatewayTimeout => Outcome::TimedOut,
        _ => Outcome::Disconnected,
    }
}
