//! The answer.

use std::time::Duration;

/// What a limiter says of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether the request may pass, and if not, when the next one could.
    pub outcome: Outcome,
    /// Whole tokens left in the bucket after this decision; `None` when nobody counted (the store failed and the
    /// request was waved through or refused unseen).
    pub remaining: Option<u32>,
    /// Time from now until the bucket is full again.
    pub reset_after: Duration,
    /// Who decided.
    pub source: Source,
}

/// Allowed, denied for now, or denied for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The request took its tokens.
    Allowed,
    /// Not enough tokens; exactly this much later there are, if nobody else takes them.
    Denied {
        /// Time from now until the same request would be admitted.
        retry_after: Duration,
    },
    /// The request costs more than the bucket ever holds.
    NeverAdmitted,
    /// The store could not be asked and the rule says to refuse (`on-store-failure: deny`): 503, not 429.
    StoreUnavailable {
        /// When asking again makes sense.
        retry_after: Duration,
    },
}

/// Who decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// The memory of this process, as configured.
    Memory,
    /// Redis.
    Redis,
    /// Redis could not be asked in time: decided by the rule's `on-store-failure`.
    Fallback,
}

impl Verdict {
    /// Whether the request may pass.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        matches!(self.outcome, Outcome::Allowed)
    }
}

impl Source {
    /// The word for it in metrics, logs and headers.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Redis => "redis",
            Self::Fallback => "fallback",
        }
    }
}
