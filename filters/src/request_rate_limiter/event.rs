//! Events of a limiter, for metrics.

use std::sync::Arc;

use tollgate_limiter::verdict::Source;

/// Verdict of one rule, or of the whole limiter, on one request. A rule for which the request has no key id causes no
/// event.
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
    /// This rule allowed the request, and so did all rules that were decided together with it.
    Allowed,
    /// This rule denied the request.
    Denied,
    /// The store was unavailable. An enforced rule then refuses the request, an observed one forwards it.
    Unavailable,
    /// An observed rule, or the block list of a limiter that only observes, would have refused the request.
    Observed,
    /// The client is exempt from limits.
    Exempt,
    /// The client is blocked, and the request was refused.
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
