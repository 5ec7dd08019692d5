//! Events of a limiter, for metrics.

use std::sync::Arc;

use tollgate_limiter::verdict::Source;

/// Verdict of one rule, or of the whole limiter, on one request. Requests without a key id cause no event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerdictEvent {
    /// Index of the rule in [`RuleSets::rules`](super::RuleSets::rules); `None` if no rule was checked.
    pub rule: Option<usize>,
    /// The verdict.
    pub kind: VerdictKind,
    /// The verdict's source; `None` if no store was called.
    pub source: Option<Source>,
}

/// Verdict as metrics report it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerdictKind {
    /// The request was allowed by this rule, as by all others.
    Allowed,
    /// This rule denied the request.
    Denied,
    /// The request was refused because the store was unavailable.
    Unavailable,
    /// An observed rule would have denied the request.
    Observed,
    /// The client is exempt from limits.
    Exempt,
    /// The client is blocked.
    Blocked,
}

impl VerdictKind {
    /// Every kind, in the order of declaration.
    pub const ALL: [Self; 6] =
        [Self::Allowed, Self::Denied, Self::Unavailable, Self::Observed, Self::Exempt, Self::Blocked];

    /// Returns the value of the metric label.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Denied => "denied",
            Self::Unavailable => "unavailable",
            Self::Observed => "observed",
            Self::Exempt => "exempt",
            Self::Blocked => "blocked",
        }
    }
}

/// Hook for events, called before the request is forwarded. It gets the key id that the rule counts; `None` for events
/// without a rule.
pub type OnVerdict = Arc<dyn Fn(VerdictEvent, Option<&[u8]>) + Send + Sync>;
