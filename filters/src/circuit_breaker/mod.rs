//! Asks an upstream that fails no more, for a while: Spring Cloud Gateway's `CircuitBreaker`.
//!
//! | What happened | The answer without a fallback | [`LocalReply`] reason |
//! |---|---|---|
//! | the breaker is open | 503, `Retry-After` | `circuit-open` |
//! | no answer within [`Settings::time_limit`] | 504; the request is given up | `time-limit` |
//! | a [`Fault`](crate::fault::Fault) of the upstream | the answer that stands for it, or an empty 200 ([`Settings::resume_without_error`]) | its own |
//! | a status of [`Settings::failure_statuses`] | the upstream's, as it is | none |
//! | anything else | as it is | |
//!
//! With a fallback ([`CircuitBreakerLayer::layer_with_fallback`]) each of these goes to it instead, as the request was when it
//! came here, with a [`FallbackCause`](crate::fault::FallbackCause) in its extensions. Of the dropped answer the headers that filters added stay
//! ([`Received`](crate::replay::Received)). The body is remembered up to [`Settings::max_body_bytes`]; a request with a larger
//! one that was already being sent has no fallback.
//!
//! What filters inside answered themselves, and requests that were given up, say nothing about the upstream and are not
//! counted. The time is what it takes to the answer's head: bodies stream outside of it.
//!
//! When a breaker opens and closes is [`Rules`]' to say; its source is resilience4j. One [`Breaker`] may stand in any
//! number of stacks. Costs a timer and a short lock a request; with a fallback a copy of the request's head.
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
//! assert_eq!(second.status(), StatusCode::SERVICE_UNAVAILABLE); // nobody was asked
//! # Ok(())
//! # }
//! ```
//!
//! [`LocalReply`]: crate::context::LocalReply

mod breaker;
mod failure;
mod future;
mod machine;
mod window;

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body::Body;
use tower::{Layer, Service};

pub use self::breaker::{Breaker, CallKind};
use self::failure::Judge;
pub use self::future::ResponseFuture;
use self::future::Way;
pub use self::machine::{OpenWait, Rules, State};
pub use self::window::WindowSize;
use crate::fault::FaultSet;
use crate::replay::{ReplayBody, record};

/// What counts as a failure, and what is answered then.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Statuses that are failures (`statusCodes`).
    pub failure_statuses: Vec<StatusCode>,
    /// Time within which the answer's head must come (`timelimiter.timeoutDuration`); `None`: any.
    pub time_limit: Option<Duration>,
    /// Whether a fault of the upstream is answered with an empty 200, unless there is a fallback (`resumeWithoutError`).
    pub resume_without_error: bool,
    /// Faults that count as failures (`recordExceptions`); others are successes.
    pub recorded: FaultSet,
    /// Faults that do not count at all (`ignoreExceptions`).
    pub ignored: FaultSet,
    /// Bytes of a body that are remembered for the fallback.
    pub max_body_bytes: usize,
}

/// Puts a [`CircuitBreaker`] before a service.
#[derive(Clone)]
pub struct CircuitBreakerLayer {
    judge: Arc<Judge>,
}

/// Asks an upstream that fails no more, for a while. See the [module](self).
#[derive(Clone)]
pub struct CircuitBreaker<S> {
    judge: Arc<Judge>,
    inner: S,
    fallback: Option<S>,
}

// === impl Settings ===

impl Default for Settings {
    /// Spring's: nothing but faults, and a second.
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
    /// Lets calls through as `breaker` says.
    #[must_use]
    pub fn new(breaker: Arc<Breaker>, settings: Settings) -> Self {
        Self { judge: Arc::new(Judge::new(breaker, settings)) }
    }

    /// A service that sends to `fallback` what `inner` fails to answer.
    pub fn layer_with_fallback<S>(&self, inner: S, fallback: S) -> CircuitBreaker<S> {
        CircuitBreaker { judge: Arc::clone(&self.judge), inner, fallback: Some(fallback) }
    }
}

impl<S> Layer<S> for CircuitBreakerLayer {
    type Service = CircuitBreaker<S>;

    fn layer(&self, inner: S) -> Self::Service {
        CircuitBreaker { judge: Arc::clone(&self.judge), inner, fallback: None }
    }
}

// === impl CircuitBreaker ===

impl<S, B, R> Service<Request<B>> for CircuitBreaker<S>
where
    S: Service<Request<ReplayBody<B>>, Response = Response<R>> + Clone,
    B: Body<Data = Bytes>,
    R: From<Bytes>,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = ResponseFuture<S, B, R>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let permit = match self.judge.breaker().admit() {
            Ok(permit) => permit,
            Err(refused) => {
                let failure = self.judge.not_permitted(refused);
                return match &self.fallback {
                    Some(fallback) => {
                        let request = request.map(ReplayBody::direct);
                        ResponseFuture::falling_back(fallback.clone(), failure.cause(), request, None)
                    }
                    None => ResponseFuture::answered(self.judge.answer(&failure, request.method(), request.headers())),
                };
            }
        };
        let (head, body) = request.into_parts();
        let (way, request) = match &self.fallback {
            None => {
                let way = Way::straight(head.method.clone(), &head.headers, Arc::clone(&self.judge));
                (way, Request::from_parts(head, ReplayBody::direct(body)))
            }
            Some(fallback) => {
                let (body, recording) = record(body, self.judge.settings().max_body_bytes);
                let way = Way::with_fallback(fallback.clone(), head.clone(), recording, Arc::clone(&self.judge));
                (way, Request::from_parts(head, body))
            }
        };
        ResponseFuture::calling(self.inner.call(request), permit, way)
    }
}

#[cfg(test)]
mod tests;
