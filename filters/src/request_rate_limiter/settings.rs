//! What a limiter asks of requests and how it answers.

use std::sync::Arc;

use http::StatusCode;

use super::access::AccessList;
use super::cost::Cost;
use super::enforcement::Enforcement;
use super::template::Template;
use crate::headers::HeaderNames;
use crate::key_resolver::KeyResolver;

/// What a limiter asks of requests and how it answers. `Default` is Spring's, with a body.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What requests are counted under, where a rule has no resolver of its own.
    pub key_resolver: KeyResolver,
    /// The status of a denial (`status-code`).
    pub status: StatusCode,
    /// Whether a request without a key id is refused (`deny-empty-key`); otherwise it passes under the rules that it
    /// has one for.
    pub deny_empty_key: bool,
    /// The status of that refusal (`empty-key-status`).
    pub empty_key_status: StatusCode,
    /// What a request takes, of a limiter of [one rule](super::RequestRateLimiterLayer::new).
    pub cost: Cost,
    /// The headers that report on the rules.
    pub headers: HeaderNames,
    /// What refusals have for a body.
    pub error_body: ErrorBody,
    /// Whether its rules deny, each at most as much as it says itself.
    pub enforcement: Enforcement,
    /// Whether a request that would have been denied is told so, in `X-RateLimit-Would-Deny`.
    pub tells_would_deny: bool,
    /// Who is neither counted nor limited.
    pub exempt: AccessList,
    /// Who is turned away without being counted, though exempt.
    pub block: AccessList,
    /// With this status.
    pub block_status: StatusCode,
    /// What becomes of denied requests.
    pub on_limit: OnLimit,
}

/// What refusals have for a body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ErrorBody {
    /// A problem (RFC 9457) for clients that ask for JSON, a line of plain text for others.
    #[default]
    Problem,
    /// None, as Spring answers.
    Empty,
    /// One of your own for denials; other refusals are as with [`Problem`](Self::Problem).
    Template(Arc<Template>),
}

/// What becomes of denied requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum OnLimit {
    /// They are refused.
    #[default]
    Refuse,
    /// They go to this path, by the overflow service; those that came by one already are refused.
    Forward(Box<str>),
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            key_resolver: KeyResolver::default(),
            status: StatusCode::TOO_MANY_REQUESTS,
            deny_empty_key: true,
            empty_key_status: StatusCode::FORBIDDEN,
            cost: Cost::default(),
            headers: HeaderNames::default(),
            error_body: ErrorBody::default(),
            enforcement: Enforcement::FULL,
            tells_would_deny: false,
            exempt: AccessList::default(),
            block: AccessList::default(),
            block_status: StatusCode::FORBIDDEN,
            on_limit: OnLimit::default(),
        }
    }
}
