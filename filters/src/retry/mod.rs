//! Repeats requests that failed: Spring Cloud Gateway's `Retry`.
//!
//! A request whose method is listed is run again, through everything inside this layer, when its answer's status or series
//! is listed or when there is none for a [`Fault`] that is listed, up to [`Settings::retries`] times. What filters inside
//! decide, they decide again: a limiter takes tokens each time.
//!
//! | | |
//! |---|---|
//! | the body | remembered up to [`Settings::max_body_bytes`]; a larger one streams, and its request is run once |
//! | upgrades | run once |
//! | dropped answers | the upstream's headers are forgotten, those of filters stay ([`Received`](crate::replay::Received)) |
//! | answers of filters | repeated by status like others if 4xx; a 5xx of theirs would be the same again |
//! | `Retry-After` | not waited for: the last answer's reaches the client |
//! | outages | a [`Budget`] bounds what retries add to the load of an upstream that fails |
//! | where it went | [`Attempts`] in the request's extensions, so that the next attempt can go elsewhere |
//!
//! Refuses nothing: when retries are used up, the last answer is the answer. Costs a copy of the request's head for
//! requests that may be repeated, nothing for others.
//!
//! ```
//! use std::sync::atomic::{AtomicU16, Ordering};
//!
//! use bytes::Bytes;
//! use http::{Request, Response, StatusCode};
//! use http_body_util::Full;
//! use tollgate_filters::replay::ReplayBody;
//! use tollgate_filters::retry::{RetryLayer, Settings};
//! use tower::{Layer, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! static STATUS: AtomicU16 = AtomicU16::new(502);
//! let upstream = service_fn(|_: Request<ReplayBody<Full<Bytes>>>| async {
//!     let mut response = Response::new(());
//!     *response.status_mut() = StatusCode::from_u16(STATUS.fetch_sub(302, Ordering::Relaxed)).unwrap_or_default();
//!     Ok::<_, std::convert::Infallible>(response)
//! });
//! let response = RetryLayer::new(Settings::default()).layer(upstream).oneshot(Request::new(Full::default())).await?;
//! assert_eq!(response.status(), StatusCode::OK); // the second answer
//! # Ok(())
//! # }
//! ```

mod backoff;
mod future;

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::UPGRADE;
use http::{Method, Request, Response, StatusCode};
use http_body::Body;
use tokio::time::Instant;
use tower::retry::budget::{Budget as _, TpsBudget};
use tower::{Layer, Service};

pub use self::backoff::Backoff;
pub use self::future::ResponseFuture;
use crate::context::{Attempts, LocalReply, UpgradeRequested};
use crate::fault::{Fault, FaultSet};
use crate::replay::{ReplayBody, record};

/// What is repeated, and how often. The defaults are Spring Cloud Gateway's.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Attempts after the first (`retries`).
    pub retries: u32,
    /// Statuses that are repeated (`statuses`).
    pub statuses: Vec<StatusCode>,
    /// First digits of statuses that are repeated (`series`): 5 for `SERVER_ERROR`. A status that nobody has registered
    /// belongs to no series.
    pub series: Vec<u8>,
    /// Methods that are repeated (`methods`).
    pub methods: Vec<Method>,
    /// Why there may be no answer (`exceptions`).
    pub faults: FaultSet,
    /// The pauses in between; `None`: none.
    pub backoff: Option<Backoff>,
    /// No retry begins later than this after the request did (`timeout`).
    pub timeout: Option<Duration>,
    /// Bytes of a body that are remembered.
    pub max_body_bytes: usize,
    /// What retries may add to the load; `None`: any number.
    pub budget: Option<Budget>,
}

/// How many retries there may be: a share of the requests of the last ten seconds, and so many in any case.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    percent: f32,
    min_per_second: u32,
}

/// What became of an answer that is worth a retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The request was run again.
    Retried,
    /// It was not: the budget is spent.
    OverBudget,
    /// It was not: no attempt, time or recorded body is left.
    GaveUp,
}

/// Puts a [`Retry`] around a service. All services of one layer share a budget.
#[derive(Clone)]
pub struct RetryLayer {
    policy: Arc<Policy>,
}

/// Repeats requests that failed. See the [module](self).
#[derive(Clone)]
pub struct Retry<S> {
    policy: Arc<Policy>,
    inner: S,
}

#[derive(Clone)]
struct Policy {
    settings: Settings,
    budget: Option<Arc<TpsBudget>>,
    on_event: Option<OnEvent>,
}

/// Called with each event.
pub type OnEvent = Arc<dyn Fn(Event) + Send + Sync>;

/// How long a request counts for the budget.
const BUDGET_WINDOW: Duration = Duration::from_secs(10);

// === impl Settings ===

impl Default for Settings {
    fn default() -> Self {
        Self {
            retries: 3,
            statuses: Vec::new(),
            series: vec![5],
            methods: vec![Method::GET],
            faults: FaultSet::of_class("java.io.IOException")
                .or(FaultSet::of_class("org.springframework.cloud.gateway.support.TimeoutException")),
            backoff: None,
            timeout: None,
            max_body_bytes: 64 * 1024,
            budget: Some(Budget::DEFAULT),
        }
    }
}

impl Settings {
    /// Whether `response` is worth another attempt.
    fn repeats<R>(&self, response: &Response<R>) -> bool {
        let status = response.status();
        if status == StatusCode::SWITCHING_PROTOCOLS {
            return false;
        }
        if let Some(fault) = response.extensions().get::<Fault>() {
            return self.faults.contains(*fault);
        }
        if LocalReply::marks(response) && status.is_server_error() {
            return false;
        }
        self.statuses.contains(&status) || self.series.iter().any(|digit| is_in_series(status, *digit))
    }
}

/// Spring's `HttpStatus.Series`, which only the constants of `HttpStatus` have.
fn is_in_series(status: StatusCode, digit: u8) -> bool {
    let is_known = status.canonical_reason().is_some() || status.as_u16() == 509;
    is_known && status.as_u16() / 100 == u16::from(digit)
}

// === impl Budget ===

impl Budget {
    /// A fifth of the requests, and ten a second in any case: enough that a failing connection here and there is never
    /// seen, and too little to hold an upstream down that fails.
    pub const DEFAULT: Self = Self { percent: 20.0, min_per_second: 10 };

    /// Retries as many as `percent` of the requests, from 0 to 100,000, and `min_per_second` besides; `None` where these
    /// are beyond counting.
    #[must_use]
    pub fn new(percent: f32, min_per_second: u32) -> Option<Self> {
        ((0.0..=100_000.0).contains(&percent) && min_per_second <= 1_000_000)
            .then_some(Self { percent, min_per_second })
    }

    fn open(self) -> TpsBudget {
        TpsBudget::new(BUDGET_WINDOW, self.min_per_second, self.percent / 100.0)
    }
}

// === impl RetryLayer ===

impl RetryLayer {
    /// Repeats requests as `settings` say.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let budget = settings.budget.map(|budget| Arc::new(budget.open()));
        Self { policy: Arc::new(Policy { settings, budget, on_event: None }) }
    }

    /// Calls `hook` with each event: for metrics.
    #[must_use]
    pub fn on_event(mut self, hook: OnEvent) -> Self {
        Arc::make_mut(&mut self.policy).on_event = Some(hook);
        self
    }
}

impl<S> Layer<S> for RetryLayer {
    type Service = Retry<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Retry { policy: Arc::clone(&self.policy), inner }
    }
}

// === impl Retry ===

impl<S, B, R> Service<Request<B>> for Retry<S>
where
    S: Service<Request<ReplayBody<B>>, Response = Response<R>> + Clone,
    B: Body<Data = Bytes>,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = ResponseFuture<S, B>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        if !self.policy.may_repeat(&request) {
            return ResponseFuture::new(self.inner.call(request.map(ReplayBody::direct)), None);
        }
        if let Some(budget) = &self.policy.budget {
            budget.deposit();
        }
        let (mut head, body) = request.into_parts();
        let (body, recording) = record(body, self.policy.settings.max_body_bytes);
        let Some(recording) = recording else {
            return ResponseFuture::new(self.inner.call(Request::from_parts(head, body)), None);
        };
        head.extensions.get_or_insert_default::<Attempts>();
        let again = future::Again::new(self.inner.clone(), head.clone(), recording, Arc::clone(&self.policy));
        ResponseFuture::new(self.inner.call(Request::from_parts(head, body)), Some(Box::new(again)))
    }
}

// === impl Policy ===

impl Policy {
    fn may_repeat<B>(&self, request: &Request<B>) -> bool {
        let leaves_http =
            request.headers().contains_key(UPGRADE) || request.extensions().get::<UpgradeRequested>().is_some();
        !leaves_http && self.settings.methods.contains(request.method())
    }

    fn tell(&self, event: Event) {
        if let Some(hook) = &self.on_event {
            hook(event);
        }
    }

    /// The pause before retry `number`, from 1; `None` when it would begin too late.
    fn pause(&self, number: u32, previous: Duration, started: Instant) -> Option<Duration> {
        let pause = match &self.settings.backoff {
            Some(backoff) => backoff.pause(number, previous, fastrand::f64()),
            None => Duration::ZERO,
        };
        let in_time = |timeout| started.elapsed().saturating_add(pause) <= timeout;
        self.settings.timeout.is_none_or(in_time).then_some(pause)
    }
}

#[cfg(test)]
mod tests;
