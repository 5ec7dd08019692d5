//! Deciding without Redis.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use crate::rule::Rule;
use crate::store::memory::{KeyLocation, MemoryStore};
use crate::store::{Check, OnStoreFailure};
use crate::verdict::{Outcome, Source, Verdict};

/// When a client that was refused because of Redis should ask again: recovery takes no longer.
pub(super) const ASK_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// How to decide without Redis. It remembers where the local state is instead of the key.
pub(super) enum Fallback {
    Local { store: Arc<MemoryStore>, checks: Vec<(KeyLocation, Rule, u64)>, gateways: NonZeroU32 },
    Allow,
    Deny,
}

impl Fallback {
    /// `gateways`: how many share a limit; each then admits its part of it.
    pub(super) fn new(
        on_store_failure: OnStoreFailure,
        local: &Arc<MemoryStore>,
        checks: &[Check<'_>],
        gateways: NonZeroU32,
    ) -> Self {
        match on_store_failure {
            OnStoreFailure::Local => {
                let located = |check: &Check<'_>| (local.locate(check.key), check.rule.clone(), check.cost);
                Self::Local { store: Arc::clone(local), checks: checks.iter().map(located).collect(), gateways }
            }
            OnStoreFailure::Allow => Self::Allow,
            OnStoreFailure::Deny => Self::Deny,
        }
    }

    pub(super) fn decide(self) -> Verdict {
        match self {
            Self::Local { store, mut checks, gateways } => {
                for (_, rule, cost) in checks.iter_mut().filter(|_| gateways > NonZeroU32::MIN) {
                    *rule = rule.divided_by(gateways, *cost);
                }
                Verdict { source: Source::Fallback, ..store.decide_located(&checks) }
            }
            Self::Allow => Verdict::uncounted(Outcome::Allowed),
            Self::Deny => Verdict::uncounted(Outcome::StoreUnavailable { retry_after: ASK_AGAIN_AFTER }),
        }
    }
}
