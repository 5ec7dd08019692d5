//! What a limiter tells of its decisions, for metrics.

use std::sync::Arc;

use tollgate_limiter::verdict::Source;

/// What one rule, or the whole limiter, says of one request. Requests without a key id are not told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The rule's number in [`RuleSets::rules`](super::RuleSets::rules); `None` where no rule was asked.
    pub rule: Option<usize>,
    /// What it says.
    pub finding: Finding,
    /// Who decided; `None` where no store was asked.
    pub source: Option<Source>,
}

/// What is said of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// It passed under this rule, as under all others.
    Allowed,
    /// This rule denied it.
    Denied,
    /// It was refused because the store could not be asked.
    Unavailable,
    /// It would have been denied, and went on since that is only observed.
    Observed,
    /// It is exempt from limits.
    Exempt,
    /// It is blocked.
    Blocked,
}

impl Finding {
    /// Every finding, in the order in which they are declared.
    pub const ALL: [Self; 6] =
        [Self::Allowed, Self::Denied, Self::Unavailable, Self::Observed, Self::Exempt, Self::Blocked];

    /// The word for it in metrics.
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

/// Called with each event, before the request goes on.
pub type OnVerdict = Arc<dyn Fn(Event) + Send + Sync>;
