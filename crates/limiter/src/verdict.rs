//! The answer.

use std::time::Duration;

/// What a limiter says of one request.
///
/// Its figures are those of the rule that stands nearest to denying: of those that deny, the one that the client has to
/// wait for longest; otherwise the one with the smallest part left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether the request may pass, and if not, when the next one could.
    pub outcome: Outcome,
    /// Whole tokens left after this decision; `None` when nobody counted (the store failed and the request was waved
    /// through or refused unseen).
    pub remaining: Option<u64>,
    /// Time from now until nothing is spent any more: the bucket is full, the window over.
    pub reset_after: Duration,
    /// How long an allowed request has to wait for its turn; nothing unless a rule paces.
    pub delay: Duration,
    /// Who decided.
    pub source: Source,
    /// Which of the rules asked about, by position, the figures speak of.
    pub rule: usize,
    /// Where each rule stands, in the order asked; empty when only one was asked about, or nobody counted.
    pub standings: Box<[Answer]>,
    /// When it was counted, on the clock of whoever counted: what [`Store::settle`](super::store::Store::settle) asks.
    pub counted_at_us: u64,
}

/// What one rule says: a verdict that does not say yet who decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Allowed, denied for now or for ever.
    pub outcome: Outcome,
    /// Whole tokens left.
    pub remaining: u64,
    /// Time until nothing is spent any more.
    pub reset_after: Duration,
    /// How long an allowed request has to wait for its turn.
    pub delay: Duration,
    /// When it was counted: the time of the decision, or of the turn that it was given.
    pub counted_at_us: u64,
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
    /// The request costs more than the rule ever admits.
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
    /// Redis, a moment ago: it said for how long such requests are denied, and was not asked again.
    DenialCache,
    /// Redis could not be asked in time: decided by the rule's `on-store-failure`.
    Fallback,
}

// === impl Answer ===

impl Answer {
    /// The verdict that `source` gives with it.
    #[must_use]
    #[inline]
    pub fn by(self, source: Source) -> Verdict {
        Verdict {
            outcome: self.outcome,
            remaining: Some(self.remaining),
            reset_after: self.reset_after,
            delay: self.delay,
            source,
            rule: 0,
            standings: Box::default(),
            counted_at_us: self.counted_at_us,
        }
    }

    /// How near it is to denying: denials above all, by their wait, then by the part that is left of `capacity`.
    fn nearness(&self, capacity: u64) -> (u8, Duration, u128) {
        match self.outcome {
            Outcome::NeverAdmitted => (2, Duration::ZERO, 0),
            Outcome::Denied { retry_after } | Outcome::StoreUnavailable { retry_after } => (1, retry_after, 0),
            Outcome::Allowed => {
                let spent = u128::from(capacity.saturating_sub(self.remaining)) << 64;
                (0, Duration::ZERO, spent / u128::from(capacity.max(1)))
            }
        }
    }
}

// === impl Verdict ===

impl Verdict {
    /// Whether the request may pass.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        matches!(self.outcome, Outcome::Allowed)
    }

    /// What `source` says of a request that all rules were asked about. `capacities` are the most that each admits.
    #[must_use]
    pub fn of_all(answers: Vec<Answer>, capacities: impl Iterator<Item = u64>, source: Source) -> Option<Self> {
        let nearest = answers.iter().zip(capacities).enumerate().max_by(|(a, (x, cx)), (b, (y, cy))| {
            // Of two that are equally near, the first.
            x.nearness(*cx).cmp(&y.nearness(*cy)).then(b.cmp(a))
        });
        let (rule, (nearest, _)) = nearest?;
        let verdict = nearest.by(source);
        let delays = answers.iter().map(|answer| answer.delay).filter(|_| verdict.is_allowed());
        let delay = delays.max().unwrap_or_default();
        let standings = if answers.len() > 1 { answers.into() } else { Box::default() };
        Some(Self { rule, delay, standings, ..verdict })
    }

    /// The verdict where nobody counted.
    #[must_use]
    pub fn unseen(outcome: Outcome) -> Self {
        Self {
            outcome,
            remaining: None,
            reset_after: Duration::ZERO,
            delay: Duration::ZERO,
            source: Source::Fallback,
            rule: 0,
            standings: Box::default(),
            counted_at_us: 0,
        }
    }
}

// === impl Source ===

impl Source {
    /// The word for it in metrics, logs and headers.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Redis => "redis",
            Self::DenialCache => "denial-cache",
            Self::Fallback => "fallback",
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    fn answer(outcome: Outcome, remaining: u64) -> Answer {
        Answer { outcome, remaining, reset_after: Duration::ZERO, delay: Duration::ZERO, counted_at_us: 0 }
    }

    fn denied(secs: u64) -> Outcome {
        Outcome::Denied { retry_after: Duration::from_secs(secs) }
    }

    #[test]
    fn the_nearest_rule_speaks() {
        let nearest = |answers: &[Answer], capacities: &[u64]| {
            Verdict::of_all(answers.to_vec(), capacities.iter().copied(), Source::Memory).unwrap().rule
        };
        let allowed = |left| answer(Outcome::Allowed, left);
        assert_eq!(nearest(&[allowed(5), allowed(60)], &[10, 100]), 0, "half is left against six tenths");
        assert_eq!(nearest(&[allowed(5), allowed(40)], &[10, 100]), 1);
        assert_eq!(nearest(&[allowed(1), allowed(1)], &[2, 2]), 0, "the first of equals");
        assert_eq!(nearest(&[allowed(0), answer(denied(1), 3)], &[10, 10]), 1);
        assert_eq!(nearest(&[answer(denied(9), 0), answer(denied(1), 0)], &[10, 10]), 0);
        assert_eq!(nearest(&[answer(denied(9), 0), answer(Outcome::NeverAdmitted, 0)], &[10, 10]), 1);
        assert!(Verdict::of_all(Vec::new(), std::iter::empty(), Source::Memory).is_none());
    }
}
