//! Retries failed requests: Spring Cloud Gateway's `Retry`.
//!
//! A request with a listed method is sent again through all layers inside this one if its response has a listed status or
//! series, or stands for a listed [`Fault`]. There are at most [`Settings::retries`] retries. Inner filters run for each
//! attempt: a limiter takes tokens each time.
//!
//! | | |
//! |---|---|
//! | the body | recorded up to [`Settings::max_body_bytes`]; a larger one streams, and its request is sent once |
//! | upgrades | sent once |
//! | discarded responses | the upstream's headers are dropped, those of filters are kept ([`ReceivedHeadersLayer`](crate::replay::ReceivedHeadersLayer)) |
//! | local responses | retried by status, except 5xx: another attempt would get the same response |
//! | open breaker | retried only if [`Settings::faults`] has [`Fault::CircuitOpen`], with a fallback too |
//! | `Retry-After` | ignored, or obeyed with [`Settings::obeys_retry_after`]; the client gets the one of the last response |
//! | outages | a [`Budget`] limits the load that retries add to a failing upstream |
//! | endpoints | [`Attempts`](crate::context::Attempts) in the request's extensions, so that the next attempt can use another endpoint |
//! | several layers | one count of retries for all layers of a request; each retries while the count is below its own limit |
//!
//! Rejects no request: after the last retry, the client gets the last response. Costs a copy of the request's head for
//! requests that may be retried, and nothing for others.
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
//! assert_eq!(response.status(), StatusCode::OK); // the second response
//! # Ok(())
//! # }
//! ```

mod backoff;
mod future;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::UPGRADE;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body::Body;
use tokio::time::Instant;
use tower::Service;
use tower::retry::budget::{Budget as _, TpsBudget};

pub use self::backoff::Backoff;
pub use self::future::ResponseFuture;
use crate::context::{LocalReply, UpgradeRequested};
use crate::fault::{CircuitOpenFallback, Fault, FaultSet};
use crate::filter::{Filter, FilterLayer};
use crate::http_date::retry_after;
use crate::replay::{ReplayBody, record};

/// Conditions and limits of retries. The defaults are Spring Cloud Gateway's.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Maximum number of attempts after the first (`retries`), including those of other retrying layers.
    pub retries: u32,
    /// Retried statuses (`statuses`).
    pub statuses: Vec<StatusCode>,
    /// First digits of retried statuses (`series`): 5 for `SERVER_ERROR`. A status that Spring's `HttpStatus` lacks belongs to
    /// no series.
    pub series: Vec<u8>,
    /// Retried methods (`methods`).
    pub methods: Vec<Method>,
    /// Retried faults (`exceptions`).
    pub faults: FaultSet,
    /// Delays between attempts; `None` retries immediately.
    pub backoff: Option<Backoff>,
    /// Waits as long as `Retry-After` of a response says, at least the backoff. A wait above the maximum delay of the backoff, or
    /// above [`MAX_WAIT`] without one, ends the retries.
    pub obeys_retry_after: bool,
    /// Time after the start of the request within which a retry may start (`timeout`).
    pub timeout: Option<Duration>,
    /// Maximum size of a recorded body in bytes.
    pub max_body_bytes: usize,
    /// Limit of the load that retries add; `None` is unlimited.
    pub budget: Option<Budget>,
}

/// Limit of retries: a percentage of the requests of the last ten seconds, plus a minimum rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    percent: f32,
    min_per_second: u32,
}

/// The outcome of a response that should be retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryEvent {
    /// The request is sent again.
    Retried,
    /// The request is not retried because the budget is exhausted.
    BudgetExhausted,
    /// The request is not retried because of the limit of attempts, time or body size.
    LimitReached,
}

/// Retries failed requests. See the [module](self). All services of one layer share a budget.
pub type RetryLayer = FilterLayer<Retry>;

/// Filter that retries failed requests.
#[derive(Clone)]
pub struct Retry {
    policy: Arc<Policy>,
}

#[derive(Clone)]
struct Policy {
    settings: Settings,
    budget: Option<Arc<TpsBudget>>,
    on_event: Option<OnEvent>,
}

/// Delays before an attempt.
struct Delays {
    /// That of the backoff, from which the next one grows.
    backoff: Duration,
    /// The time to wait.
    wait: Duration,
}

/// A hook that is called with each event.
pub type OnEvent = Arc<dyn Fn(RetryEvent) + Send + Sync>;

/// Longest wait that `Retry-After` can ask for if the backoff has no maximum.
pub const MAX_WAIT: Duration = Duration::from_secs(10);
/// Time for which a request counts for the budget.
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
            obeys_retry_after: false,
            timeout: None,
            max_body_bytes: 64 * 1024,
            budget: Some(Budget::DEFAULT),
        }
    }
}

impl Settings {
    /// Returns true if `response` should be retried.
    fn should_retry<R>(&self, response: &Response<R>) -> bool {
        let status = response.status();
        if status == StatusCode::SWITCHING_PROTOCOLS {
            return false;
        }
        let extensions = response.extensions();
        let open = extensions.get::<CircuitOpenFallback>().map(|_| Fault::CircuitOpen);
        if let Some(fault) = open.or_else(|| extensions.get::<Fault>().copied()) {
            return self.faults.contains(fault);
        }
        if LocalReply::marks(response) && status.is_server_error() {
            return false;
        }
        self.statuses.contains(&status) || self.series.iter().any(|digit| is_in_series(status, *digit))
    }
}

/// Returns true if `status` is in a series of Spring's `HttpStatus.Series`. Only constants of `HttpStatus` have one.
fn is_in_series(status: StatusCode, digit: u8) -> bool {
    let is_known = status.canonical_reason().is_some() || status.as_u16() == 509;
    is_known && status.as_u16() / 100 == u16::from(digit)
}

// === impl Budget ===

impl Budget {
    /// 20 % of the requests plus ten retries a second. This hides single connection failures from clients, and does not
    /// overload a failing upstream.
    pub const DEFAULT: Self = Self { percent: 20.0, min_per_second: 10 };

    /// Allows retries for `percent` of the requests (0 to 100,000) plus `min_per_second` (at most 1,000,000). `None` if a
    /// value is out of range.
    #[must_use]
    pub fn new(percent: f32, min_per_second: u32) -> Option<Self> {
        ((0.0..=100_000.0).contains(&percent) && min_per_second <= 1_000_000)
            .then_some(Self { percent, min_per_second })
    }

    fn start(self) -> TpsBudget {
        TpsBudget::new(BUDGET_WINDOW, self.min_per_second, self.percent / 100.0)
    }
}

// === impl RetryLayer ===

impl RetryLayer {
    /// Creates a layer that retries requests as `settings` say.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let budget = settings.budget.map(|budget| Arc::new(budget.start()));
        Self(Retry { policy: Arc::new(Policy { settings, budget, on_event: None }) })
    }

    /// Calls `hook` with each event, for metrics.
    #[must_use]
    pub fn on_event(mut self, hook: OnEvent) -> Self {
        Arc::make_mut(&mut self.0.policy).on_event = Some(hook);
        self
    }
}

// === impl Retry ===

impl<S, B, R> Filter<S, B> for Retry
where
    S: Service<Request<ReplayBody<B>>, Response = Response<R>> + Clone,
    B: Body<Data = Bytes>,
{
    type Body = ReplayBody<B>;
    type Response = Response<R>;
    type Future = ResponseFuture<S, B>;

    fn call(&self, request: Request<B>, inner: &mut S) -> Self::Future {
        if !self.policy.may_retry(&request) {
            return ResponseFuture::new(inner.call(request.map(ReplayBody::direct)), None);
        }
        if let Some(budget) = &self.policy.budget {
            budget.deposit();
        }
        let (mut head, body) = request.into_parts();
        let (body, recording) = record(body, self.policy.settings.max_body_bytes);
        let Some(recording) = recording else {
            return ResponseFuture::new(inner.call(Request::from_parts(head, body)), None);
        };
        let next_attempt = future::NextAttempt::new(inner.clone(), &mut head, recording, Arc::clone(&self.policy));
        ResponseFuture::new(inner.call(Request::from_parts(head, body)), Some(Box::new(next_attempt)))
    }
}

// === impl Policy ===

impl Policy {
    fn may_retry<B>(&self, request: &Request<B>) -> bool {
        let is_upgrade =
            request.headers().contains_key(UPGRADE) || request.extensions().get::<UpgradeRequested>().is_some();
        !is_upgrade && self.settings.methods.contains(request.method())
    }

    fn notify(&self, event: RetryEvent) {
        if let Some(hook) = &self.on_event {
            hook(event);
        }
    }

    /// Returns the delays before retry `number`, from 1: that of the backoff, and the one to wait. `None` if the retry would start
    /// after the timeout, or later than the backoff allows. `previous` is the backoff before the attempt that failed, with a
    /// response of the fields `headers`.
    fn delays_before(&self, number: u32, previous: Duration, started: Instant, headers: &HeaderMap) -> Option<Delays> {
        let backoff = self.settings.backoff.as_ref();
        let delay = backoff.map_or(Duration::ZERO, |backoff| backoff.delay(number, previous, fastrand::f64()));
        let min_wait = self.settings.obeys_retry_after.then(|| retry_after(headers, SystemTime::now())).flatten();
        if min_wait.is_some_and(|min_wait| min_wait > backoff.and_then(|backoff| backoff.max).unwrap_or(MAX_WAIT)) {
            return None;
        }
        let wait = delay.max(min_wait.unwrap_or_default());
        let in_time = |timeout| started.elapsed().saturating_add(wait) <= timeout;
        self.settings.timeout.is_none_or(in_time).then_some(Delays { backoff: delay, wait })
    }
}

#[cfg(test)]
mod tests;

crate::opaque_debug!(Retry);
