//! Descriptions of refusals, for the server around the filters.
//!
//! A server that makes other responses of refusals, such as errors of gRPC, marks requests with [`WantsRefusal`]. Limiters then
//! describe each refusal in a [`Refusal`].
//!
//! Without such a server, layers make errors of gRPC themselves: clients of gRPC get status 8 (`RESOURCE_EXHAUSTED`) with `RetryInfo`
//! for a denial, 14 while the store is unavailable, and 7 for other refusals.

pub mod grpc;
#[cfg_attr(
    not(any(feature = "concurrency-limiter", feature = "request-rate-limiter")),
    allow(dead_code, unreachable_pub)
)]
mod responses;

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;

#[cfg(any(feature = "concurrency-limiter", feature = "request-rate-limiter"))]
pub(crate) use self::responses::RefusalResponses;
pub(crate) use self::responses::{LimiterBody, OwnBody};

/// Format of responses to clients of RPC protocols that a gateway makes itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ErrorFormat {
    /// An error of the client's protocol.
    #[default]
    Auto,
    /// The response that other clients get.
    Http,
}

/// Request extension: limiters describe the refusal of this request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WantsRefusal;

/// Request extension: a layer around a limiter replaces its refusals, and those of no other.
#[derive(Clone, Copy)]
struct ReplacesRefusals;

/// Response extension: a limiter refused the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Status of the response that the limiter made.
    pub status: StatusCode,
    /// The reason, one kebab-case word: `rate-limited`, `concurrency-limited`, `empty-key`, `ambiguous-key`, `blocked` or
    /// `limiter-unavailable`. `refused` if the layer omits [`LocalReply`](crate::context::LocalReply).
    pub reason: &'static str,
    /// Format of the response to a client of an RPC protocol.
    pub format: ErrorFormat,
    /// True if a limit denies the request, whatever the status of the response.
    pub is_denial: bool,
    /// Advice about a retry; `None` if there is none.
    pub retry: Option<RetryAdvice>,
    /// Name of the rule that denies the request.
    pub rule: Option<Arc<str>>,
}

/// Advice about a retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryAdvice {
    /// An equal request may be admitted after this time.
    After(Duration),
    /// An equal request is never admitted.
    Never,
}

#[cfg(any(feature = "concurrency-limiter", feature = "request-rate-limiter"))]
impl Refusal {
    /// Describes `response`, the refusal of `request`, if a server or a layer needs it. `decided` returns the verdict, and the rule that
    /// it is about; `None` if the request was refused without one.
    #[inline]
    pub(crate) fn describe<'r, B, R>(
        format: ErrorFormat,
        decided: impl FnOnce() -> Option<(tollgate_limiter::verdict::Outcome, Option<&'r Arc<str>>)>,
        request: &http::Request<B>,
        response: &mut http::Response<R>,
    ) {
        let extensions = request.extensions();
        if extensions.get::<WantsRefusal>().is_some() || extensions.get::<ReplacesRefusals>().is_some() {
            let refusal = Self::new(format, decided(), response);
            response.extensions_mut().insert(refusal);
        }
    }

    #[cold]
    fn new<R>(
        format: ErrorFormat,
        decided: Option<(tollgate_limiter::verdict::Outcome, Option<&Arc<str>>)>,
        response: &http::Response<R>,
    ) -> Self {
        use crate::context::LocalReply;
        use tollgate_limiter::verdict::Outcome;

        let (is_denial, retry) = match decided.map(|(outcome, _)| outcome) {
            Some(Outcome::Denied { retry_after }) => (true, Some(RetryAdvice::After(retry_after))),
            Some(Outcome::NeverAdmitted) => (true, Some(RetryAdvice::Never)),
            Some(Outcome::StoreUnavailable { retry_after }) => (false, Some(RetryAdvice::After(retry_after))),
            Some(Outcome::Allowed) | None => (false, None),
        };
        let rule = decided.and_then(|(_, rule)| rule).filter(|_| is_denial).cloned();
        let reason = response.extensions().get::<LocalReply>().map_or("refused", |reply| reply.reason);
        Self { status: response.status(), reason, format, is_denial, retry, rule }
    }
}
