//! Stops calling a failing upstream for a cool-down period: Spring Cloud Gateway's `CircuitBreaker`.
//!
//! | Event | Response without a fallback | [`LocalReply`] reason |
//! |---|---|---|
//! | the breaker is open | 503, `Retry-After` | `circuit-open` |
//! | no response within [`Settings::time_limit`] | 504; the request is cancelled | `time-limit` |
//! | a [`Fault`](crate::fault::Fault) of the upstream | the response for the fault, or an empty 200 ([`Settings::resume_without_error`]) | its own |
//! | a status of [`Settings::failure_statuses`] | the upstream's, unchanged | none |
//! | other responses | unchanged | |
//!
//! With a fallback ([`CircuitBreakerLayer::layer_with_fallback`]) failed requests go to the fallback instead. It gets the
//! request as it entered this layer, with a `FallbackCause` (feature `gateway`) in its extensions. Headers that
//! filters added to the discarded response are kept ([`ReceivedHeadersLayer`](crate::replay::ReceivedHeadersLayer)). The response to a
//! call that the breaker did not permit carries [`CircuitOpenFallback`](crate::fault::CircuitOpenFallback). The body is
//! recorded up to [`Settings::max_body_bytes`]; a request with a larger body has no fallback once it is being sent.
//!
//! Local responses of inner filters and cancelled requests count neither as success nor as failure. The measured time ends
//! when the response's header arrives; it does not include the body. The time limit and the measured time leave out the time
//! in which the call waits for the client's request body. In the half-open state, a call that takes longer than the time limit
//! for that reason gives its place to another trial call; both are counted.
//!
//! [`Rules`] define when a breaker opens and closes; their source is resilience4j. Several stacks may share one
//! [`Breaker`]. Costs a timer and a short lock per request; with a fallback also a copy of the request's head.
//!
//! ```
//! use std::sync::Arc;
//!
//! use bytes::Bytes;
//! use http::{Request, Response, StatusCode};
//! use http_body_util::Full;
//! use tollgate_filters::circuit_breaker::{Breaker, CircuitBreakerLayer, Rules, Settings};
//! use tollgate_filters::replay::ReplayBody;
//! use tower::{Layer, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let breaker = Arc::new(Breaker::new("orders".into(), Rules { minimum_calls: 1, ..Rules::default() }));
//! let settings = Settings { failure_statuses: vec![StatusCode::BAD_GATEWAY], ..Settings::default() };
//! let layer = CircuitBreakerLayer::new(breaker, settings);
//! let upstream = service_fn(|_: Request<ReplayBody<Full<Bytes>>>| async {
//!     let mut response = Response::new(Full::<Bytes>::default());
//!     *response.status_mut() = StatusCode::BAD_GATEWAY;
//!     Ok::<_, std::convert::Infallible>(response)
//! });
//! let first = layer.layer(upstream).oneshot(Request::new(Full::default())).await?;
//! assert_eq!(first.status(), StatusCode::BAD_GATEWAY);
//! let second = layer.layer(upstream).oneshot(Request::new(Full::default())).await?;
//! assert_eq!(second.status(), StatusCode::SERVICE_UNAVAILABLE); // the upstream was not called
//! # Ok(())
//! # }
//! ```
//!
//! [`LocalReply`]: crate::context::LocalReply

mod breaker;
mod future;
mod policy;
mod state_machine;
mod window;

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body::Body;
use tower::{Layer, Service};

pub use self::breaker::{Breaker, CallKind};
use self::future::{Call, OnFailure};
pub use self::future::{Forwarded, ResponseFuture};
use self::policy::Policy;
pub use self::state_machine::{ForcedState, OpenWait, Rules, State};
pub use self::window::WindowSize;
use crate::fault::FaultSet;
use crate::refusal_body::ReplyBody;
use crate::replay::{ReplayBody, record};
use crate::request_filter::RespondOr;

/// Conditions of failures, and the responses to them.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Statuses that count as failures (`statusCodes`).
    pub failure_statuses: Vec<StatusCode>,
    /// Maximum time until the response's head, without that in which the call waits for the request body
    /// (`timelimiter.timeoutDuration`); `None` is unlimited.
    pub time_limit: Option<Duration>,
    /// Responds with an empty 200 to a fault of the upstream, unless there is a fallback (`resumeWithoutError`).
    pub resume_without_error: bool,
    /// Faults that count as failures (`recordExceptions`); other faults count as successes.
    pub recorded: FaultSet,
    /// Faults that are not counted (`ignoreExceptions`).
    pub ignored: FaultSet,
    /// Maximum size in bytes of a body recorded for the fallback.
    pub max_body_bytes: usize,
}

/// Wraps services in [`CircuitBreaker`].
#[derive(Clone)]
pub struct CircuitBreakerLayer {
    policy: Arc<Policy>,
}

/// Stops calling a failing upstream for a cool-down period. See the [module](self).
#[derive(Clone)]
pub struct CircuitBreaker<S> {
    policy: Arc<Policy>,
    inner: S,
    fallback: Option<S>,
}

// === impl Settings ===

impl Default for Settings {
    /// Returns Spring's defaults: only faults are failures, and the time limit is one second.
    fn default() -> Self {
        Self {
            failure_statuses: Vec::new(),
            time_limit: Some(Duration::from_secs(1)),
            resume_without_error: false,
            recorded: FaultSet::ALL,
            ignored: FaultSet::NONE,
            max_body_bytes: 64 * 1024,
        }
    }
}

// === impl CircuitBreakerLayer ===

impl CircuitBreakerLayer {
    /// Creates a layer for `breaker`.
    #[must_use]
    pub fn new(breaker: Arc<Breaker>, settings: Settings) -> Self {
        Self { policy: Arc::new(Policy::new(breaker, settings)) }
    }

    /// Wraps `inner`; requests that fail there go to `fallback`.
    pub fn layer_with_fallback<S>(&self, inner: S, fallback: S) -> CircuitBreaker<S> {
        CircuitBreaker { policy: Arc::clone(&self.policy), inner, fallback: Some(fallback) }
    }
}

impl<S> Layer<S> for CircuitBreakerLayer {
    type Service = CircuitBreaker<S>;

    fn layer(&self, inner: S) -> Self::Service {
        CircuitBreaker { policy: Arc::clone(&self.policy), inner, fallback: None }
    }
}

// === impl CircuitBreaker ===

impl<S, B, R> Service<Request<B>> for CircuitBreaker<S>
where
    S: Service<Request<ReplayBody<B>>, Response = Response<R>> + Clone,
    B: Body<Data = Bytes>,
    R: ReplyBody,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = ResponseFuture<S, B, R>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let mut permit = match self.policy.breaker.admit() {
            Ok(permit) => permit,
            Err(not_permitted) => {
                let failure = self.policy.not_permitted(not_permitted);
                return match &self.fallback {
                    Some(fallback) => {
                        let request = request.map(ReplayBody::direct);
                        RespondOr::forward(Forwarded::call_fallback(fallback.clone(), &failure, request))
                    }
                    None => RespondOr::respond(self.policy.response(&failure, request.method(), request.headers())),
                };
            }
        };
        let (head, body) = request.into_parts();
        let has_body = !body.is_end_stream();
        let (on_failure, mut request) = match &self.fallback {
            None => {
                let on_failure = OnFailure::respond(head.method.clone(), &head.headers);
                (on_failure, Request::from_parts(head, ReplayBody::direct(body)))
            }
            Some(fallback) => {
                let (body, recording) = record(body, self.policy.settings.max_body_bytes);
                let (service, head_copy) = (fallback.clone(), Box::new(head.clone()));
                let on_failure = OnFailure::Fallback { service, head: head_copy, recording };
                (on_failure, Request::from_parts(head, body))
            }
        };
        if has_body {
            permit.exclude(request.body_mut().measure_wait());
        }
        let call = Call::new(permit, Arc::clone(&self.policy), on_failure);
        RespondOr::forward(Forwarded::call(self.inner.call(request), call))
    }
}

#[cfg(test)]
mod tests;

crate::opaque_debug!(CircuitBreakerLayer, CircuitBreaker<S>);
