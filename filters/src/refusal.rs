//! Descriptions of refusals, for the server around the filters.
//!
//! A server that makes other responses of refusals, such as errors of gRPC, marks requests with [`WantsRefusal`]. Limiters then
//! describe each refusal in a [`Refusal`].

use std::sync::Arc;
use std::time::Duration;

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

/// Response extension: a limiter refused the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
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
    /// Describes `response`, the refusal of `request`, if the request wants it. `decided` returns the verdict, and the rule that
    /// it is about; `None` if the request was refused without one.
    #[inline]
    pub(crate) fn describe<'r, B, R>(
        format: ErrorFormat,
        decided: impl FnOnce() -> Option<(tollgate_limiter::verdict::Outcome, Option<&'r Arc<str>>)>,
        request: &http::Request<B>,
        response: &mut http::Response<R>,
    ) {
        if request.extensions().get::<WantsRefusal>().is_some() {
            response.extensions_mut().insert(Self::new(format, decided()));
        }
    }

    #[cold]
    fn new(format: ErrorFormat, decided: Option<(tollgate_limiter::verdict::Outcome, Option<&Arc<str>>)>) -> Self {
        use tollgate_limiter::verdict::Outcome;

        let (is_denial, retry) = match decided.map(|(outcome, _)| outcome) {
            Some(Outcome::Denied { retry_after }) => (true, Some(RetryAdvice::After(retry_after))),
            Some(Outcome::NeverAdmitted) => (true, Some(RetryAdvice::Never)),
            Some(Outcome::StoreUnavailable { retry_after }) => (false, Some(RetryAdvice::After(retry_after))),
            Some(Outcome::Allowed) | None => (false, None),
        };
        let rule = decided.and_then(|(_, rule)| rule).filter(|_| is_denial).cloned();
        Self { format, is_denial, retry, rule }
    }
}
